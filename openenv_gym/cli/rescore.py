"""``openenv-gym rescore``: rewards by another rubric, of what was recorded."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from openenv_gym.cli.options import import_named
from openenv_gym.cli.replay import known, recording_argument, warn_of_damage
from openenv_gym.cli.tables import show_table


if TYPE_CHECKING:
    from openenv_gym.recording import Rescored

__all__ = ["rescore"]


@click.command()
@recording_argument
@click.option("--rubric", metavar="MODULE:NAME", required=True, help="The rubric.")
@click.option("--action-model", metavar="MODULE:NAME", help="What it takes for an action.")
@click.option("--observation-model", metavar="MODULE:NAME", help="And for an observation.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.csv",
    help="Write each step.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def rescore(
    path: Path,
    rubric: str,
    action_model: str | None,
    observation_model: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Score the steps of recording FILE again, without its environment.

    The rubric takes the samples of the spaces, as at an environment that hosts Gymnasium; or, of a
    typed environment, its models, where they are named.

    \b
    openenv-gym rescore cart.rollout --rubric rewards:make_rubric
    """  # noqa: D301
    from openenv_gym import recording

    sys.path.insert(0, os.getcwd())
    models = {
        "action_model": _model(action_model, "--action-model"),
        "observation_model": _model(observation_model, "--observation-model"),
    }
    with recording.open(path) as file:
        warn_of_damage(file)
        found = recording.rescore(file, rubric, **models)
    if out is not None:
        _write(found, out)
    rows = {
        name: {
            "recorded": score.means[0],
            "rescored": score.means[1],
            "differing": score.differing,
        }
        for name, score in found.scores.items()
    }
    if as_json:
        facts = {"file": str(path), "steps": len(found.steps), "scores": rows}
        click.echo(json.dumps(known(facts), allow_nan=False))
        return
    show_table(
        ["score", "recorded", "rescored", "steps that differ"],
        [
            [name, _shown(row["recorded"]), _shown(row["rescored"]), f"{row['differing']:,}"]
            for name, row in rows.items()
        ],
    )
    click.echo(f"{len(found.steps):,} steps; means of those that have a score")


def _model(text: str | None, option: str) -> Any:
    if text is None:
        return None
    from pydantic import BaseModel

    found = import_named(text, option)
    if not isinstance(found, type) or not issubclass(found, BaseModel):
        raise click.BadParameter(f"{text} is no model", param_hint=option)
    return found


def _write(found: Rescored, out: Path) -> None:
    names = list(found.scores)
    heads = [f"{name} {when}" for name in names for when in ("recorded", "rescored")]
    columns = [
        column.tolist()
        for name in names
        for column in (found.scores[name].recorded, found.scores[name].rescored)
    ]
    try:
        with out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["episode", "step", *heads])
            writer.writerows(
                zip(found.episodes.tolist(), found.steps.tolist(), *columns, strict=True)
            )
    except OSError as error:
        raise click.ClickException(f"{out} cannot be written: {error.strerror}.") from error


def _shown(value: Any) -> str:
    return "-" if math.isnan(value) else f"{value:.6g}"
