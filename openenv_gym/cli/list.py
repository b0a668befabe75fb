"""``openenv-gym list``: the environments that can be made here."""

from __future__ import annotations

import dataclasses
import json

import click

from openenv_gym.cli.tables import show_table


__all__ = ["list_environments"]


@click.command("list")
@click.argument("word", required=False)
@click.option("--package", metavar="NAME", help="Only what this package serves, such as atari_env.")
@click.option("--all", "everything", is_flag=True, help="Also each of the hosted ids by itself.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, every id with all its facts.")
def list_environments(
    word: str | None, package: str | None, everything: bool, as_json: bool
) -> None:
    """List the environments that can be made here, those with WORD in their id.

    The many ids of Gymnasium and Atari are counted, and listed with WORD, --package or --all.

    \b
    openenv-gym list
    openenv-gym list pong
    openenv-gym list --package gymnasium
    openenv-gym list --json | jq '.[].id'
    """  # noqa: D301
    from openenv_gym.registration import known_environments

    known = known_environments().values()
    if package is not None and package not in (names := {entry.package for entry in known}):
        there = ", ".join(sorted(name for name in names if name))
        raise click.BadParameter(
            f"{package!r} serves none; there are {there}.", param_hint="--package"
        )
    chosen = [
        entry
        for entry in known
        if (word is None or word.lower() in entry.id.lower()) and package in (None, entry.package)
    ]
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(entry) for entry in chosen]))
    if not chosen:
        raise click.ClickException(
            f"No id has {word!r:.120} in it; openenv-gym list shows what there is."
        )
    if as_json:
        return
    shown = chosen
    if word is None and package is None and not everything:
        shown = [entry for entry in chosen if entry.hosted is None]
    rows = [
        (entry.id, entry.package or "-", entry.distribution or "-", entry.image or "-")
        for entry in sorted(shown, key=lambda entry: entry.id.lower())
    ]
    show_table(("ID", "PACKAGE", "DISTRIBUTION", "IMAGE"), rows)
    if left := len(chosen) - len(shown):
        click.echo(f"and {left} ids of Gymnasium and Atari: openenv-gym list --all", err=True)
