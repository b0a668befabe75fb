"""``openenv-gym ps`` and ``clean``: what this library has started, and what to do about it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from openenv_gym.cli.options import PROVIDER_NAMES
from openenv_gym.cli.tables import show_table
from openenv_gym.errors import printable


if TYPE_CHECKING:
    from openenv_gym.providers.inventory import Item, Survey

__all__ = ["clean", "ps", "tell_unasked"]

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_providers = click.option(
    "--provider",
    "providers",
    multiple=True,
    type=click.Choice(PROVIDER_NAMES),
    help="Ask only this provider; may be given several times.",
)
_owner = click.option(
    "--owner", type=click.IntRange(1), metavar="PID", help="Only what this process started."
)


@click.command()
@_as_json
@_providers
@_owner
def ps(as_json: bool, providers: tuple[str, ...], owner: int | None) -> None:
    """Show everything that this library has started and that is still there."""
    from openenv_gym.providers import inventory as inventories

    found = inventories.survey(providers or None).of_owner(owner)
    if as_json:
        items = [item.to_json() for item in found.items]
        click.echo(json.dumps({"items": items, "unasked": found.unasked}))
        return
    _show(found.items)
    tell_unasked(found, providers)


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also what living processes still use.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@_as_json
@_providers
@_owner
def clean(
    everything: bool,
    dry_run: bool,
    as_json: bool,
    providers: tuple[str, ...],
    owner: int | None,
) -> None:
    """Remove what this library has started and whose owner is gone.

    What belongs to a living process, or to one on another machine, is kept without --all. Exits
    with 1 where something could not be removed.
    """
    from openenv_gym.providers import inventory as inventories

    found = inventories.survey(providers or None).of_owner(owner)
    chosen = found.removable(everything=everything)
    failed = {} if dry_run else inventories.clean(chosen)
    removed = [item for item in chosen if item not in failed]
    kept = [item for item in found.items if item not in chosen]
    if as_json:
        answer = {
            "would_remove" if dry_run else "removed": [item.to_json() for item in removed],
            "kept": [item.to_json() for item in kept],
            "failed": [{**item.to_json(), "error": str(why)} for item, why in failed.items()],
            "unasked": found.unasked,
        }
        click.echo(json.dumps(answer))
    else:
        for item in removed:
            click.echo(f"{'would remove' if dry_run else 'removed'} {item.kind} {item.name}")
        for item, why in failed.items():
            click.echo(f"cannot remove {item.kind} {item.name}: {why}", err=True)
        if kept:
            click.echo(f"kept {len(kept)} in use (--all removes them too)")
        if not chosen:
            click.echo("nothing to remove")
        tell_unasked(found, providers)
    if failed:
        sys.exit(1)


def _show(items: Sequence[Item]) -> None:
    heads = ("PROVIDER", "KIND", "NAME", "OWNER", "IN USE", "DETAIL")
    rows = []
    for item in items:
        owner = "?" if item.owner is None else str(item.owner.pid)
        in_use = {True: "yes", False: "no", None: "unknown"}[item.in_use]
        rows.append((item.provider, item.kind, item.name, owner, in_use, item.detail))
    show_table(heads, rows)


def tell_unasked(found: Survey, providers: Sequence[str] = ()) -> None:
    """Say which providers could not be asked; and why, of those that somebody named."""
    for name in providers:
        if name in found.unasked:
            click.echo(f"not asked: {name}: {printable(found.unasked[name])}", err=True)
    names = [name for name in found.unasked if name not in providers]
    if names:
        why = f"`openenv-gym ps --provider {names[0]}` says why"
        click.echo(f"not asked: {', '.join(names)} ({why})", err=True)
