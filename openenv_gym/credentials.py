"""The token that a server asks for and a client shows: from a file, or from the environment.

It never stands in a command line, which every user of a machine can read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from openenv_gym import errors


__all__ = ["TOKEN_FILE_VARIABLE", "TOKEN_VARIABLE", "read_token", "token_of_process"]

TOKEN_VARIABLE = "OPENENV_TOKEN"
"""The environment variable that holds the token."""
TOKEN_FILE_VARIABLE = "OPENENV_TOKEN_FILE"
"""The environment variable that names a file with the token, where the other one is not set."""


def read_token(path: str | os.PathLike[str]) -> str:
    """Read a token.

    Args:
        path: A file with one line.

    Raises:
        InvalidOptionError: It cannot be read, or holds nothing that a header can carry.
    """
    shown = os.fspath(path)
    try:
        with open(path, "rb") as file:
            text = file.read().decode("ascii", errors="replace")
    except OSError as error:
        raise errors.InvalidOptionError(
            f"Cannot read the token file {shown}: {error.strerror}.", field="token_file"
        ) from error
    return _checked(text, f"The token file {shown}", "token_file")


def token_of_process(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the token that the environment holds, or that a file holds which it names.

    Raises:
        InvalidOptionError: It holds what is no token, or names a file without one.
    """
    if text := environ.get(TOKEN_VARIABLE):
        return _checked(text, TOKEN_VARIABLE, TOKEN_VARIABLE)
    path = environ.get(TOKEN_FILE_VARIABLE)
    return read_token(path) if path else None


def _checked(text: str, what: str, field: str) -> str:
    """Return the token in a text, without the end of its line: secrets are often kept with it."""
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise errors.InvalidOptionError(
            f"{what} holds no token; expected one line of printable ASCII.", field=field
        )
    return token
