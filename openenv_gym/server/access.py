"""Who may use a server that is started by command: options, and what the environment says."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from openenv_gym import errors
from openenv_gym.credentials import (
    TOKEN_FILE_VARIABLE,
    TOKEN_VARIABLE,
    read_token,
    token_of_process,
)
from openenv_gym.server.listening import EXPOSURE_VARIABLE, Exposure


__all__ = ["PUBLIC_BOUNDS", "add_access_arguments", "parse_arguments", "read_access"]

PEER_HEADER_VARIABLE = "OPENENV_PEER_HEADER"
"""The environment variable that names the header in which a proxy tells who connects."""

PUBLIC_BOUNDS: dict[str, Any] = {
    "capacity": 64,
    "max_waiting": 64,
    "max_sessions_per_peer": 8,
    "max_envs": 64,
    "max_frame_bytes": 16 << 20,
    "idle_timeout_s": 600.0,
}
"""Defaults of options where everybody can reach the server."""


def add_access_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options about who may use the server."""
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="PATH",
        help="file with the token that clients show; by default what "
        f"{TOKEN_FILE_VARIABLE} names, or {TOKEN_VARIABLE} holds",
    )
    parser.add_argument(
        "--exposure",
        choices=[each.value for each in Exposure],
        help="who can reach a server without a token that listens on more than the loopback "
        "interface: whoever its container lets in, or everybody, for whom bounds are narrower; by "
        f"default what {EXPOSURE_VARIABLE} says",
    )
    parser.add_argument(
        "--tls-cert", type=Path, metavar="PATH", help="certificate chain (PEM): TCP speaks TLS"
    )
    parser.add_argument("--tls-key", type=Path, metavar="PATH", help="its key (PEM)")
    parser.add_argument(
        "--peer-header",
        default=os.environ.get(PEER_HEADER_VARIABLE) or None,
        metavar="NAME",
        help="header in which a proxy, through which alone clients come, tells who they are, such "
        f"as X-Forwarded-For: its last address counts; by default what {PEER_HEADER_VARIABLE} says",
    )


def parse_arguments(parser: argparse.ArgumentParser, argv: list[str] | None) -> argparse.Namespace:
    """Read a command line, with the defaults that the exposure asks for."""
    options = parser.parse_args(argv)
    try:
        exposure = Exposure(options.exposure) if options.exposure else Exposure.of_process()
    except errors.InvalidOptionError as error:
        parser.error(str(error))
    if exposure is Exposure.PUBLIC:
        parser.set_defaults(**PUBLIC_BOUNDS)
        options = parser.parse_args(argv)
    options.exposure = exposure
    return options


def read_access(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of `Server` about who may use it.

    What the environment says is taken from it, so that what this process starts does not know it.
    It counts only for a server that listens: one that its owner holds otherwise is his alone.

    Raises:
        InvalidOptionError: A file cannot be read, or holds something else.
    """
    listens = options.port is not None or options.uds is not None
    token = None
    if options.token_file is not None:
        token = read_token(options.token_file)
    elif listens and not options.owner_stdin:
        token = token_of_process()
    for variable in (TOKEN_VARIABLE, TOKEN_FILE_VARIABLE):
        os.environ.pop(variable, None)
    tls = None
    if options.tls_cert is not None or options.tls_key is not None:
        if options.tls_cert is None or options.tls_key is None:
            missing = "tls_key" if options.tls_key is None else "tls_cert"
            raise errors.InvalidOptionError(
                f"--{missing.replace('_', '-')} is missing: TLS needs a certificate and its key.",
                field=missing,
            )
        from openenv_gym.server.tls import server_context

        tls = server_context(options.tls_cert, options.tls_key)
    return {
        "token": token,
        "exposure": options.exposure,
        "tls": tls,
        "max_sessions_per_peer": options.max_sessions_per_peer,
        "peer_header": options.peer_header,
    }
