"""``openenv-gym serve``: a server for the environment that you are writing."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from typing import Any

import click

from openenv_gym.cli.options import environment_options, read_target


__all__ = ["serve"]


@click.command()
@click.argument("target", default=".", metavar="[PATH|NAME]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="TCP port; 0: any free one.  [default: 8000]"
)
@click.option("--uds", metavar="PATH", help="Unix socket to listen on, in place of a port.")
@click.option("--workers", type=click.IntRange(1, 1024), default=1, help="Processes that serve.")
@click.option("--reload", is_flag=True, help="Start anew after each edit of the package.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, readable=True),
    help="File with the token that clients show.",
)
@click.option("--web", is_flag=True, help="Show a page at /web to play and watch (extra: web).")
@environment_options
@click.option("--debug", is_flag=True, help="Log more, and send tracebacks to clients.")
@click.argument("further", nargs=-1, metavar="[-- SERVER OPTIONS]")
def serve(
    target: str,
    host: str,
    port: int | None,
    uds: str | None,
    workers: int,
    reload: bool,
    token_file: str | None,
    web: bool,
    options: dict[str, Any],
    debug: bool,
    further: tuple[str, ...],
) -> None:
    """Serve an environment package: the folder PATH (by default this one), or an installed NAME.

    With --reload the server starts anew after each edit. Its clients are told: their sessions are
    lost (ServerReloadedError), and the next `make` runs the edited code. An edit that is no Python
    is shown, and the server goes on as it was until the next one.

    \b
    openenv-gym serve envs/echo_env --reload
    openenv-gym serve gymnasium --option env_id=CartPole-v1 --port 8001
    openenv-gym serve envs/chess_env --web      (then open http://127.0.0.1:8000/web)
    openenv-gym serve echo_env --uds /tmp/echo.sock -- --max-threads 8

    What `python -m openenv_gym.server --help` lists can follow after --.
    """  # noqa: D301
    if reload and workers > 1:
        raise click.UsageError("--reload goes with one worker: leave --workers away.")
    if uds is not None and port is not None:
        raise click.UsageError("--uds and --port each say where to listen.")
    found = read_target(target)
    if reload and found.folder is None:
        raise click.UsageError(f"--reload watches a package, and {target!r} has no code to watch.")
    argv = [found.name, "--host", host]
    kept: socket.socket | None = None
    if uds is not None:
        argv += ["--uds", uds]
    else:
        if reload and port == 0:
            kept, port = _reserve_port(host)
        argv += ["--port", str(8000 if port is None else port)]
    if workers > 1:
        argv += ["--workers", str(workers)]
    if token_file is not None:
        argv += ["--token-file", os.path.abspath(token_file)]
    for key, value in options.items():
        argv += ["--option", f"{key}={json.dumps(value)}"]
    argv += [*(["--web"] if web else []), *(["--debug"] if debug else []), *further]
    if not reload:
        from openenv_gym.server.__main__ import main

        sys.exit(main(argv))
    from openenv_gym.cli.reloading import serve_and_reload

    assert found.folder is not None
    with kept or contextlib.nullcontext():
        sys.exit(serve_and_reload(argv, found.folder))


def _reserve_port(host: str) -> tuple[socket.socket, int]:
    """Return a port that stays the same when the server starts anew, and what keeps it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    kept = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Linux gives it to nobody else meanwhile, and a server that says the same can listen there.
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind((host, 0))
        port = int(kept.getsockname()[1])
    except OSError:
        kept.close()
        raise
    if sys.platform != "linux":  # where it would be in the server's way
        kept.close()
    return kept, port
