"""The group of all commands, and how errors of this library end one.

Exit codes: 0, done; 1, an error, which is on standard error; 2, wrong usage.
"""

from __future__ import annotations

import importlib
from typing import Any

import click

from openenv_gym._version import __version__
from openenv_gym.errors import OpenEnvGymError, printable


__all__ = ["main"]

_COMMANDS = {
    "build": ("build:build", "Build the container image of an environment."),
    "clean": ("leftovers:clean", "Remove what was started here and whose owner is gone."),
    "containerize": ("containerize:containerize", "Put any Gymnasium environment into an image."),
    "doctor": ("doctor:doctor", "Tell what works on this machine, and how to mend what does not."),
    "init": ("init:init", "Begin an environment of your own: a package that works."),
    "ps": ("leftovers:ps", "Show what was started here and is still there."),
    "push": ("push:push", "Upload an environment to a Space or to a container registry."),
}
"""Each command, its ``module:attribute`` in this package, and what ``--help`` says of it: a
command is imported when it is called, so that the list of all of them costs nothing."""


class _Group(click.Group):
    """Imports a command when it is called, and shows errors of this library as sentences."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(
            importlib.import_module(f"openenv_gym.cli.{module}"), attribute
        )
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OpenEnvGymError as error:
            raise click.ClickException(printable(str(error))) from error


@click.group(cls=_Group)
@click.version_option(__version__, prog_name="openenv-gym")
def main() -> None:
    """Gymnasium environments that run somewhere else."""
