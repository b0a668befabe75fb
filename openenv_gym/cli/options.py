"""Options that several commands take."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from openenv_gym.errors import UnknownEnvironmentError


if TYPE_CHECKING:
    from openenv_gym.conformance.targets import Target

__all__ = [
    "PROVIDER_NAMES",
    "environment_options",
    "import_named",
    "provider_option",
    "read_target",
]

PROVIDER_NAMES = ("thread", "process", "uv", "docker", "swarm", "kubernetes", "daytona")
"""Those of `openenv_gym.providers.PROVIDERS`: help shows them, and imports no provider."""


def _read_options(
    context: click.Context, parameter: click.Parameter, texts: Iterable[str]
) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise click.BadParameter(f"expected KEY=VALUE, such as game=pong, not {text!r}")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return options


environment_options = click.option(
    "--option",
    "options",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_read_options,
    help="Option of the environment; VALUE is JSON, or else text. May be given several times.",
)
"""Makes the parameter ``options``, a mapping."""

provider_option = click.option(
    "--provider",
    type=click.Choice(["auto", "docker", "process", "uv", "thread"]),
    help="Where the server runs; by default what OPENENV_PROVIDER says, or auto.",
)


def import_named(text: str, option: str) -> Any:
    """Return what ``MODULE:NAME`` names; modules in the working directory are found, too.

    Raises:
        click.BadParameter: There is no such thing.
    """
    module, _, name = text.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever the module does when it is imported
        raise click.BadParameter(
            f"{text} cannot be imported: {type(error).__name__}: {error}", param_hint=option
        ) from error


def read_target(text: str) -> Target:
    """Find the environment package that an argument means.

    Raises:
        click.BadParameter: It is a folder, and no environment package.
    """
    from openenv_gym.conformance.targets import find_target

    try:
        return find_target(text)
    except UnknownEnvironmentError as error:
        raise click.BadParameter(str(error), param_hint="PATH") from error
