"""The group of all commands, and how errors of this library end one.

Exit codes: 0, done; 1, an error, which is on standard error; 2, wrong usage.
"""

from __future__ import annotations

from typing import Any

import click

from openenv_gym._version import __version__
from openenv_gym.cli.leftovers import clean, ps
from openenv_gym.errors import OpenEnvGymError


__all__ = ["main"]


class _Group(click.Group):
    """Shows errors of this library as sentences, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OpenEnvGymError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Group)
@click.version_option(__version__, prog_name="openenv-gym")
def main() -> None:
    """Gymnasium environments that run somewhere else."""


main.add_command(ps)
main.add_command(clean)
