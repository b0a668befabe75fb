"""``openenv-gym replay`` and ``view``: a recording played again, and looked at."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from openenv_gym.cli.options import import_named, provider_option
from openenv_gym.errors import printable


if TYPE_CHECKING:
    from openenv_gym.recording import ReplayResult, RolloutFile
    from openenv_gym.recording.episodes import Episode

__all__ = ["known", "recording_argument", "replay", "view", "warn_of_damage"]

recording_argument = click.argument(
    "path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
_page = click.Path(dir_okay=False, path_type=Path)


@click.command()
@recording_argument
@provider_option
@click.option("--base-url", metavar="URL", help="Address of a server that runs already.")
@click.option("--sub-env", type=click.IntRange(0), help="Play this one of a vector by itself.")
@click.option(
    "--ignore", metavar="KEY", multiple=True, help="Leave this info out, such as episode.t."
)
@click.option(
    "--make",
    "maker",
    metavar="MODULE:FUNCTION",
    help="A function without arguments that makes the environment.",
)
@click.option("--html", type=_page, metavar="FILE", help="Write a page that plays an episode.")
@click.option("--episode", type=click.IntRange(0), help="The episode of the page.  [default: 0]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def replay(
    path: Path,
    provider: str | None,
    base_url: str | None,
    sub_env: int | None,
    ignore: tuple[str, ...],
    maker: str | None,
    html: Path | None,
    episode: int | None,
    as_json: bool,
) -> None:
    """Take the actions of recording FILE again, and compare every bit of what comes back.

    Exit code 1 and the first difference, where there is one.

    \b
    openenv-gym replay cart.rollout --provider docker
    openenv-gym replay cart.rollout --sub-env 3
    openenv-gym replay pong.rollout --html pong.html --episode 2
    """  # noqa: D301
    import gymnasium

    from openenv_gym import recording

    if provider is not None and base_url is not None:
        raise click.UsageError("--provider and --base-url each say where the server is.")
    if episode is not None and html is None:
        raise click.UsageError("--episode chooses the episode of the page that --html writes.")
    placement: dict[str, Any] = {"provider": provider, "base_url": base_url}
    env = None if maker is None else _load(maker)()
    try:
        with recording.open(path) as file:
            warn_of_damage(file)
            try:
                result = recording.replay(
                    file, env=env, sub_env=sub_env, ignore=ignore, **placement
                )
                if html is not None and result.exact:
                    _write_page(file, _episode(file, episode or 0), html, env, placement)
            except (gymnasium.error.Error, TypeError) as error:
                raise click.ClickException(f"It cannot be played: {error}") from error
            broken = file.damage is not None and not file.damage.data.get("cut")
    finally:
        if env is not None:
            env.close()
    _show(path, result, html, as_json=as_json)
    if not result.exact or broken:
        sys.exit(1)


@click.command()
@recording_argument
@click.option("--episode", type=click.IntRange(0), default=0, show_default=True)
@click.option("--html", type=_page, metavar="FILE", required=True, help="The page.")
def view(path: Path, episode: int, html: Path) -> None:
    """Write a page that plays an episode of recording FILE, without its environment.

    Frames are those that were kept (`rollout --frames`), or pictures among the observations;
    `replay --html` draws them anew.

    \b
    openenv-gym view pong.rollout --episode 2 --html pong.html
    """  # noqa: D301
    from openenv_gym import recording
    from openenv_gym.recording.page import write_page

    with recording.open(path) as file:
        warn_of_damage(file)
        write_page(file, _episode(file, episode), html)
    click.echo(f"page  {html}")


def warn_of_damage(file: RolloutFile) -> None:
    """Say on standard error what of a recording is missing."""
    if file.damage is not None and not file.damage.data.get("cut"):
        click.echo(f"warning: {printable(str(file.damage))}", err=True)
    elif not file.closed:
        click.echo("warning: the recording was not completed; what was written is read.", err=True)


def known(facts: Any) -> Any:
    """Return facts as JSON has them: None in the place of numbers that it knows nothing of."""
    if isinstance(facts, dict):
        return {key: known(fact) for key, fact in facts.items()}
    return None if isinstance(facts, float) and not math.isfinite(facts) else facts


def _episode(file: RolloutFile, number: int) -> Episode:
    if number >= len(file.episodes):
        raise click.BadParameter(
            f"there is no episode {number} in {len(file.episodes)} episodes",
            param_hint="--episode",
        )
    return file.episodes[number]


def _write_page(
    file: RolloutFile, episode: Episode, html: Path, env: Any, placement: dict[str, Any]
) -> None:
    """Write the page with frames that a replay draws, where the environment can draw."""
    from openenv_gym import recording
    from openenv_gym.recording.page import write_page

    frames: list[Any] = []
    first = episode.first_step
    single = env is None and bool(file.num_envs)
    if not episode.frames:
        try:
            recording.replay(
                file,
                env=env,
                sub_env=episode.sub_env if single else None,
                on_frame=frames.append,
                until_step=first + len(episode),
                **placement,
                **({} if env is not None else {"render_mode": "rgb_array"}),
            )
        except Exception as error:  # whatever an environment says that cannot draw
            click.echo(f"without frames: {printable(str(error))}", err=True)
            frames = []
        if file.num_envs and not single:
            frames = [frame[episode.sub_env] for frame in frames]
    frames = frames[-len(episode) - 1 :]
    drawn = frames if any(frame is not None for frame in frames) else None
    write_page(file, episode, html, frames=drawn)


def _load(text: str) -> Callable[[], Any]:
    found = import_named(text, "--make")
    if not callable(found):
        raise click.BadParameter(f"{text} is no function", param_hint="--make")
    made: Callable[[], Any] = found
    return made


def _show(path: Path, result: ReplayResult, html: Path | None, *, as_json: bool) -> None:
    difference = result.difference
    if as_json:
        found = None
        if difference is not None:
            found = {**difference._asdict(), "text": str(difference)}
            found |= {key: repr(found[key]) for key in ("recorded", "replayed")}
        facts = {
            "file": str(path),
            "exact": result.exact,
            "steps": result.steps,
            "resets": result.resets,
            "episodes": result.episodes,
            "difference": found,
            "ignored": list(result.ignored),
            "notes": list(result.notes),
        }
        click.echo(json.dumps(facts))
        return
    outcome = "bit-exact" if result.exact else "different" if difference else "nothing compared"
    rows = [
        ("replay", outcome),
        ("steps", f"{result.steps:,} the same, {result.resets:,} resets"),
        ("episodes", f"{result.episodes:,}, of which each step was compared"),
        ("left out", ", ".join(f"info {name}" for name in result.ignored)),
        *(("note", note) for note in result.notes),
    ]
    if difference is not None:
        rows.append(("difference", str(difference)))
    if html is not None and result.exact:
        rows.append(("page", str(html)))
    for name, text in rows:
        click.echo(f"{name:10} {printable(text)}")
