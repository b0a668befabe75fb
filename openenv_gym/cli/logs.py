"""``openenv-gym logs``: what servers that run have written."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import click

from openenv_gym.cli.leftovers import tell_unasked
from openenv_gym.errors import ProviderError, printable


if TYPE_CHECKING:
    from openenv_gym.providers.inventory import Item

__all__ = ["added", "logs"]

_KINDS = ("server", "container")
_LOOK_S = 0.5
_WINDOW = 1000  # lines that are looked at each time


@click.command()
@click.argument("name", required=False)
@click.option("--tail", type=click.IntRange(1), default=100, show_default=True, help="Lines.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what NAME writes from now on.")
@click.option(
    "--owner", type=click.IntRange(1), metavar="PID", help="Only what this process started."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def logs(name: str | None, tail: int, follow: bool, owner: int | None, as_json: bool) -> None:
    """Show what servers have written: all that run, or NAME, of which the beginning will do.

    \b
    openenv-gym ps                 names
    openenv-gym logs               the end of each log
    openenv-gym logs 4f1c --follow
    """  # noqa: D301
    if follow and (name is None or as_json):
        raise click.UsageError("--follow needs the NAME of one server, and goes without --json.")
    from openenv_gym.providers import inventory as inventories

    found = inventories.survey().of_owner(owner)
    if name is None and not as_json:
        tell_unasked(found)
    chosen = [item for item in found.items if item.kind in _KINDS and _is_meant(item, name)]
    if name is not None and len(chosen) != 1:
        raise click.ClickException(_not_one(name, chosen))
    if follow:
        _follow(chosen[0], tail)
        return
    texts: list[tuple[Item, str]] = []
    failed = False
    for item in chosen:
        try:
            texts.append((item, inventories.log(item, tail)))
        except ProviderError as error:  # it may have ended just now
            failed = True
            click.echo(printable(str(error)), err=True)
    if as_json:
        click.echo(json.dumps([{**item.to_json(), "log": text} for item, text in texts]))
    else:
        for item, text in texts:
            if name is None:
                click.echo(f"==> {item.provider} {item.kind} {item.name} ({item.detail})")
            click.echo(printable(text).rstrip("\n"))
        if not chosen:
            click.echo("no server runs here")
    if failed and name is not None:
        sys.exit(1)


def _is_meant(item: Item, name: str | None) -> bool:
    return name is None or item.name.startswith(name)


def _not_one(name: str, chosen: list[Item]) -> str:
    if not chosen:
        return f"No server is named {name!r}; openenv-gym ps shows those that run."
    return f"{name!r} begins several names: {', '.join(item.name for item in chosen)}."


def _follow(item: Item, tail: int) -> None:
    """Print what is there, and then what comes, until the server ends or Ctrl-C."""
    from openenv_gym.providers import inventory as inventories

    before = ""
    begun = False
    while True:
        try:
            text = inventories.log(item, max(tail, _WINDOW))
        except ProviderError as error:
            raise click.ClickException(f"It has ended: {printable(str(error))}") from error
        new = added(before, text) if begun else "".join(text.splitlines(keepends=True)[-tail:])
        click.echo(printable(new), nl=False)
        before, begun = text, True
        time.sleep(_LOOK_S)


def added(before: str, now: str) -> str:
    """Return what a log has got since, of which the last lines were read twice.

    Args:
        before: Its last lines, at first.
        now: Its last lines, later: the first of those before may not be among them any more.
    """
    begin = 0
    while begin < len(before):
        # Of a log that repeats itself as little as possible is taken for new.
        if now.startswith(before[begin:]):
            return now[len(before) - begin :]
        begin = before.find("\n", begin) + 1 or len(before)
    return now
