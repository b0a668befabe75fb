"""``openenv-gym rollout``: play an environment from the shell, and say what came of it."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from openenv_gym.cli.options import environment_options, provider_option
from openenv_gym.cli.policies import Policy, load_policy, random_policy
from openenv_gym.cli.replay import known


__all__ = ["rollout"]

_SHOW_S = 0.2


@dataclass
class Tally:
    """What has come of it so far."""

    num_envs: int
    steps: int = 0
    seconds: float = 0.0
    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    terminated: int = 0
    interrupted: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data; what no episode has told is None."""
        returns = np.asarray(self.returns)
        some = len(self.returns) > 0
        with np.errstate(invalid="ignore"):  # of what is infinite there is none
            deviation = float(returns.std()) if some else None
        return {
            "num_envs": self.num_envs,
            "steps": self.steps,
            "seconds": round(self.seconds, 3),
            "steps_per_second": round(self.steps / self.seconds, 1) if self.seconds else None,
            "episodes": len(self.returns),
            "terminated": self.terminated,
            "truncated": len(self.returns) - self.terminated,
            "return_mean": float(returns.mean()) if some else None,
            "return_std": deviation,
            "return_min": float(returns.min()) if some else None,
            "return_max": float(returns.max()) if some else None,
            "length_mean": float(np.mean(self.lengths)) if some else None,
            "interrupted": self.interrupted,
        }


@click.command()
@click.argument("env_id", metavar="ID")
@click.option("--num-envs", type=click.IntRange(1), default=1, show_default=True)
@click.option(
    "--steps", type=click.IntRange(1), default=1000, show_default=True, help="Of each of them."
)
@click.option(
    "--policy",
    default="random",
    show_default=True,
    metavar="random|PATH:FUNCTION",
    help="Who acts: chance (legal actions only, where infos have an action_mask, and calls of "
    "tools, where actions are those), or a function "
    "of the observation, or of observation and info, of one sub-environment.",
)
@click.option("--seed", type=click.IntRange(0), help="Sub-environment i is seeded with SEED + i.")
@click.option(
    "--video",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.mp4",
    help="Record what all of them show.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Record everything, for `replay`, `rescore` and `view`.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file of --out.")
@click.option("--frames", is_flag=True, help="Have what is shown in the file of --out, too.")
@click.option("--minari", metavar="DATASET", help="Also make a dataset of Minari's of it.")
@environment_options
@provider_option
@click.option("--base-url", metavar="URL", help="Address of a server that runs already.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def rollout(
    env_id: str,
    num_envs: int,
    steps: int,
    policy: str,
    seed: int | None,
    video: Path | None,
    out: Path | None,
    overwrite: bool,
    frames: bool,
    minari: str | None,
    options: dict[str, Any],
    provider: str | None,
    base_url: str | None,
    as_json: bool,
) -> None:
    """Play environment ID and say what came of it: speed, episodes, returns.

    Progress is on standard error, the summary on standard output. Ctrl-C ends it early, with a
    summary of what there was, and exit code 1.

    \b
    openenv-gym rollout openenv/CartPole-v1 --num-envs 16 --steps 1000
    openenv-gym rollout openenv/Atari-v0 --option game=breakout --video breakout.mp4
    openenv-gym rollout CartPole-v1 --policy policy.py:act --seed 7 --json
    openenv-gym rollout CartPole-v1 --num-envs 64 --out cart.rollout
    """  # noqa: D301
    from openenv_gym.registration import lookup

    full_id = lookup(env_id).id
    if provider is not None and base_url is not None:
        raise click.UsageError("--provider and --base-url each say where the server is.")
    if video is not None and (video.suffix != ".mp4" or not video.parent.is_dir()):
        raise click.BadParameter(
            f"expected a file that ends in .mp4, in a directory that exists, not {video}",
            param_hint="--video",
        )
    if out is None and (overwrite or frames or minari is not None):
        raise click.UsageError("--overwrite, --frames and --minari go with --out.")
    chosen = None if policy == "random" else load_policy(policy)
    how: dict[str, Any] = {**options, "provider": provider, "base_url": base_url}
    if video is not None or frames:
        how["render_mode"] = "rgb_array"
    click.echo(f"starting {full_id} ...", err=True)
    try:
        envs = gymnasium.make_vec(full_id, num_envs=num_envs, **how)
    except (gymnasium.error.Error, TypeError) as error:
        raise click.ClickException(f"{full_id} cannot be made: {error}") from error
    with contextlib.ExitStack() as stack:
        if video is None:
            stack.callback(envs.close)
        else:
            envs = stack.enter_context(_filming(envs, video, steps))
        if out is not None:
            envs = _recording(envs, out, policy, overwrite=overwrite, frames=frames)
            stack.callback(envs.close)
        acting = chosen or random_policy(envs, seed)
        tally = _play(envs, acting, steps, seed)
    if out is not None and minari is not None:
        _export(out, minari)
    _show(full_id, tally, {"video": video, "out": out}, as_json=as_json)
    if tally.interrupted:
        sys.exit(1)


def _play(envs: Any, policy: Policy, steps: int, seed: int | None) -> Tally:
    from openenv_gym.vector.infos import info_of, renew_infos

    mode = envs.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    tally = Tally(envs.num_envs)
    returns = np.zeros(envs.num_envs)
    lengths = np.zeros(envs.num_envs, dtype=np.int64)
    over = np.zeros(envs.num_envs, dtype=bool)
    space = envs.single_action_space
    batch: Any = create_empty_array(space, envs.num_envs)
    bar: Any = click.progressbar(
        length=steps, label="playing", file=sys.stderr, item_show_func=lambda _: _progress(tally)
    )
    with bar, contextlib.suppress(KeyboardInterrupt):
        tally.interrupted = True
        observations, infos = envs.reset(seed=seed)
        begin_s = shown_s = time.monotonic()
        unshown = 0
        for _ in range(steps):
            actions = [
                policy(number, observation, info_of(infos, number))
                for number, observation in enumerate(iterate(envs.observation_space, observations))
            ]
            observations, rewards, terminated, truncated, infos = envs.step(
                concatenate(space, actions, batch)
            )
            # What follows the end of an episode may be a reset, and no step.
            played = ~over if mode == AutoresetMode.NEXT_STEP else np.ones_like(over)
            returns[played] += rewards[played]
            lengths[played] += 1
            over = played & (terminated | truncated)
            tally.steps += int(played.sum())
            for number in np.flatnonzero(over):
                tally.returns.append(float(returns[number]))
                tally.lengths.append(int(lengths[number]))
                tally.terminated += bool(terminated[number])
            returns[over] = 0
            lengths[over] = 0
            if mode == AutoresetMode.DISABLED and over.any():
                observations, fresh = envs.reset(options={"reset_mask": over})
                infos = renew_infos(infos, fresh, over)
            now_s = time.monotonic()
            tally.seconds = now_s - begin_s
            unshown += 1
            if now_s - shown_s > _SHOW_S:
                bar.update(unshown, tally)
                shown_s, unshown = now_s, 0
        bar.update(unshown, tally)
        tally.interrupted = False
    return tally


def _progress(tally: Tally) -> str:
    """Return what stands beside the bar."""
    if not tally.seconds:
        return ""
    text = f"{tally.steps / tally.seconds:,.0f} steps/s, {len(tally.returns)} episodes"
    return f"{text}, mean return {np.mean(tally.returns):.2f}" if tally.returns else text


@contextlib.contextmanager
def _filming(envs: Any, video: Path, steps: int) -> Iterator[Any]:
    """Film with Gymnasium's own recorder; the file appears when it is complete."""
    from gymnasium.wrappers.vector import RecordVideo

    with tempfile.TemporaryDirectory(dir=video.parent, prefix=".rollout-") as place:
        folder = str(Path(place, "video"))  # which the recorder makes
        try:
            recorder = RecordVideo(
                envs, folder, step_trigger=lambda step: step == 0, video_length=steps
            )
        except gymnasium.error.DependencyNotInstalled as error:
            envs.close()
            raise click.ClickException(
                'Videos need moviepy: pip install "openenv-gym[video]".'
            ) from error
        except BaseException:
            envs.close()
            raise
        try:
            yield recorder
        finally:
            recorder.close()
        for written in Path(folder).glob("*.mp4"):
            written.replace(video)


def _recording(envs: Any, out: Path, policy: str, *, overwrite: bool, frames: bool) -> Any:
    from openenv_gym.recording import RecordRollout

    return RecordRollout(envs, out, overwrite=overwrite, frames=frames, metadata={"policy": policy})


def _export(out: Path, dataset: str) -> None:
    from openenv_gym import recording
    from openenv_gym.recording.minari import to_minari

    with recording.open(out) as file:
        to_minari(file, dataset)


def _show(env_id: str, tally: Tally, files: dict[str, Path | None], *, as_json: bool) -> None:
    written = {name: None if path is None else str(path) for name, path in files.items()}
    facts = {"id": env_id, **tally.as_json(), **written}
    if as_json:
        click.echo(json.dumps(known(facts), allow_nan=False))
        return
    rows = [
        ("environment", f"{env_id}, {tally.num_envs} of them"),
        ("steps", f"{tally.steps:,} in {tally.seconds:.2f} s"),
        ("steps/s", "-" if not tally.seconds else f"{facts['steps_per_second']:,.0f}"),
        ("episodes", f"{facts['episodes']} ({tally.terminated} terminated)"),
    ]
    if tally.returns:
        rows += [
            ("return", f"{facts['return_mean']:.3f} +- {facts['return_std']:.3f}"),
            ("  from, to", f"{facts['return_min']:.3f}, {facts['return_max']:.3f}"),
            ("length", f"{facts['length_mean']:.1f} steps"),
        ]
    rows += [(name, path) for name, path in written.items() if path is not None]
    for name, text in rows:
        click.echo(f"{name:12} {text}")
