"""Tables on standard output."""

from __future__ import annotations

from collections.abc import Sequence

import click

from openenv_gym.errors import printable


__all__ = ["show_table"]


def show_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below their heads, each column as wide as it has to be."""
    cells = [list(heads), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        shown = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(shown).rstrip())
