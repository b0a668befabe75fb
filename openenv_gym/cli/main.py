"""The group of all commands, and how errors of this library end one.

Exit codes: 0, done; 1, an error, which is on standard error; 2, wrong usage.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import Any

import click

from openenv_gym._version import __version__
from openenv_gym.errors import OpenEnvGymError, printable


__all__ = ["main"]

_COMMANDS = {
    "bench": ("bench:bench", "Measure an environment here and elsewhere; say where time goes."),
    "build": ("build:build", "Build the container image of an environment."),
    "clean": ("leftovers:clean", "Remove what was started here and whose owner is gone."),
    "containerize": ("containerize:containerize", "Put any Gymnasium environment into an image."),
    "doctor": ("doctor:doctor", "Tell what works on this machine, and how to mend what does not."),
    "info": ("info:info", "Tell what is known of an environment."),
    "init": ("init:init", "Begin an environment of your own: a package that works."),
    "list": ("list:list_environments", "List the environments that can be made here."),
    "logs": ("logs:logs", "Show what a server that runs has written."),
    "ps": ("leftovers:ps", "Show what was started here and is still there."),
    "push": ("push:push", "Upload an environment to a Space or to a container registry."),
    "replay": ("replay:replay", "Play a recording again, and compare every bit."),
    "rescore": ("rescore:rescore", "Score a recording again, by another rubric."),
    "rollout": ("rollout:rollout", "Play an environment and say what came of it."),
    "serve": ("serve:serve", "Serve an environment while you work on it."),
    "validate": ("validate:validate", "Check that an environment keeps the rules."),
    "view": ("replay:view", "Write a page that plays a recorded episode."),
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            if near := difflib.get_close_matches(args[0], _COMMANDS, n=1):
                raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from error
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OpenEnvGymError as error:
            raise click.ClickException(printable(str(error))) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # who reads our output has gone; click knows that
                raise
            # A file, or a place for one, that is not as it should be; a disk that is full.
            _drop_unwritten()
            place = "" if error.filename is None else f"{error.filename}: "
            raise click.ClickException(printable(f"{place}{error.strerror or error}.")) from error


def _drop_unwritten() -> None:
    """Drop what standard output does not take, or Python would try once more when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())


@click.group(cls=_Group)
@click.version_option(__version__, prog_name="openenv-gym")
def main() -> None:
    """Gymnasium environments that run somewhere else.

    \b
    openenv-gym list                                    what there is
    openenv-gym info openenv/Pong-v5                    what one of them is
    openenv-gym rollout openenv/CartPole-v1             play it, and see the returns
    openenv-gym bench openenv/CartPole-v1               how fast it is, and where time goes
    openenv-gym serve envs/echo_env --reload            serve yours while you edit it
    openenv-gym validate envs/echo_env                  does it keep the rules?

    Each command tells more with --help. Completion of commands and options in the shell:
    eval "$(_OPENENV_GYM_COMPLETE=bash_source openenv-gym)" in ~/.bashrc; zsh_source and
    fish_source for others.
    """  # noqa: D301
