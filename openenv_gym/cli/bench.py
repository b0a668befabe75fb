"""``openenv-gym bench``: how fast an environment is here and elsewhere, and where time goes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from openenv_gym.cli.options import environment_options
from openenv_gym.cli.tables import show_table
from openenv_gym.errors import printable


if TYPE_CHECKING:
    from openenv_gym.cli.measuring import Figures

__all__ = ["bench"]


@click.command()
@click.argument("env_id", metavar="ID")
@click.option(
    "--num-envs",
    type=click.IntRange(0),
    default=8,
    show_default=True,
    help="Sub-environments of the vectors; 0: no vectors.",
)
@click.option(
    "--steps", type=click.IntRange(1), help="Of each round; by default about 0.3 s of them."
)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--num-servers", type=click.IntRange(1), help="Servers of each of our vectors.")
@click.option("--engine", type=click.Choice(["default", "native"]), help="Of our vectors.")
@environment_options
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
def bench(
    env_id: str,
    num_envs: int,
    steps: int | None,
    rounds: int,
    num_servers: int | None,
    engine: str | None,
    options: dict[str, Any],
    as_json: bool,
) -> None:
    """Measure environment ID in this process, in a process and in a container.

    One alone, and vectors beside Gymnasium's own. Rounds are interleaved, and figures are their
    medians. Chance acts. What cannot run here is left out, with the reason: a container needs
    Docker and an image that is built (openenv-gym doctor). On a busy machine the figures are those
    of the machine.

    \b
    openenv-gym bench openenv/CartPole-v1 --num-envs 64
    openenv-gym bench openenv/Atari-v0 --option game=breakout --option preprocess=true
    openenv-gym bench openenv/Gymnasium-v0 --option env_id=my_package:MyEnv-v0 --json
    """  # noqa: D301
    # Help needs none of these.
    from openenv_gym.cli.findings import findings
    from openenv_gym.cli.measuring import measure, subjects
    from openenv_gym.registration import lookup

    entry = lookup(env_id)
    if entry.package is None:
        raise click.ClickException(f"{entry.id} has no server of its own that could be started.")
    how = {"num_servers": num_servers, "engine": engine}
    chosen = subjects(
        entry, options, num_envs, {key: value for key, value in how.items() if value is not None}
    )
    figures = measure(
        chosen, steps=steps, rounds=rounds, say=lambda text: click.echo(f"{text} ...", err=True)
    )
    if all(each.problem is not None for each in figures):
        reasons = "\n".join(f"  {each.subject.name}: {each.problem}" for each in figures)
        raise click.ClickException(f"{entry.id} can be measured nowhere:\n{reasons}")
    said = findings(figures, entry)
    if as_json:
        facts = {"id": entry.id, "options": options, "num_envs": num_envs, "rounds": rounds}
        rows = [_plain(each) for each in figures]
        click.echo(json.dumps({**facts, "cores": os.cpu_count(), "rows": rows, "findings": said}))
        return
    click.echo(f"{entry.id}: medians of {rounds} interleaved rounds, {os.cpu_count()} processors\n")
    _show(figures)
    for each in figures:
        if each.problem is not None:
            click.echo(f"\n{each.subject.name}: left out. {printable(each.problem)}")
    for sentence in said:
        click.echo(f"\n{sentence}")


def _show(figures: Sequence[Figures]) -> None:
    from openenv_gym.cli.findings import shares, show_seconds
    from openenv_gym.cli.measuring import PARTS

    rows = []
    first: dict[int, Figures] = {}
    for each in (each for each in figures if each.problem is None):
        base = first.setdefault(each.subject.num_envs, each)
        share = shares(each) if each.parts else {}
        rows.append(
            [
                each.subject.name,
                str(each.subject.num_envs or 1),
                show_seconds(each.step_s),
                f"{each.rate:,.0f}",
                f"{base.step_s / each.step_s:.2f}x",
                *(f"{share[name]:.0%}" for name in PARTS if name in share),
            ]
        )
    heads = ["", "envs", "step", "observations/s", "rate", *PARTS]
    show_table(heads, [[*row, *[""] * (len(heads) - len(row))] for row in rows])


def _plain(figures: Figures) -> dict[str, Any]:
    about = {
        "name": figures.subject.name,
        "where": figures.subject.where,
        "num_envs": figures.subject.num_envs,
        "problem": figures.problem,
    }
    if figures.problem is not None:
        return about
    return {
        **about,
        "steps": figures.steps,
        "step_us": figures.step_s * 1e6,
        "observations_per_s": figures.rate,
        "rounds_step_us": [seconds * 1e6 for seconds in figures.rounds],
        "num_servers": figures.num_servers,
        "observation_bytes": figures.observation_bytes,
        "parts_us": {name: seconds * 1e6 for name, seconds in figures.parts.items()},
    }
