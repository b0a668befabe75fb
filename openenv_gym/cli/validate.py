"""``openenv-gym validate``: does an environment keep the rules?"""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from openenv_gym.cli.options import environment_options, read_target


__all__ = ["validate"]


@click.command()
@click.argument("target", required=False, metavar="[PATH|NAME]")
@click.option("--url", metavar="URL", help="A server that runs already, in place of PATH or NAME.")
@click.option(
    "--level",
    type=click.Choice(["static", "runtime", "conformance"]),
    default="conformance",
    show_default=True,
    help="Read files; play a little as well; compare trajectories, errors and sessions as well.",
)
@environment_options
@click.option(
    "--provider",
    type=click.Choice(["process", "docker", "thread"]),
    help="Where the server runs; docker looks at the image. By default a process, or docker for "
    "what a manifest calls untrusted.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def validate(
    target: str | None,
    url: str | None,
    level: str,
    options: dict[str, Any],
    provider: str | None,
    as_json: bool,
) -> None:
    """Check that an environment keeps the rules: PATH (by default this folder), NAME, or --url.

    Each rule is named, with what to do beside what is broken; exits with 1 where one is. What an
    environment need not have, and has not, is marked with -.

    \b
    openenv-gym validate                              the package in this folder
    openenv-gym validate envs/echo_env --level static
    openenv-gym validate gymnasium --option env_id=CartPole-v1
    openenv-gym validate --url http://127.0.0.1:8000 --json

    The same as tests: pytest -p openenv_gym.conformance.plugin --openenv-env PATH.
    """  # noqa: D301
    if target is not None and url is not None:
        raise click.UsageError("PATH and --url each say what to look at.")
    if url is not None and level == "static":
        raise click.UsageError("--level static reads files, and --url has none.")
    found = None if url is not None else read_target(target or ".")

    from openenv_gym.conformance import Level, Subject, run_rules
    from openenv_gym.doctor import report

    checks = []
    with Subject(
        None if found is None else found.name,
        folder=None if found is None else found.folder,
        url=url,
        options=options,
        provider=provider,
    ) as subject:
        for check in run_rules(subject, Level(level)):
            checks.append(check)
            if sys.stderr.isatty():
                click.echo(f"\r{len(checks)} rules ... {check.name:40.40}", nl=False, err=True)
    if sys.stderr.isatty():
        click.echo("\r" + " " * 60 + "\r", nl=False, err=True)
    if as_json:
        click.echo(json.dumps(report.as_json(checks), indent=2))
    else:
        click.echo("\n".join(report.lines(checks)))
        kept = sum(check.state.value in ("ok", "absent") for check in checks)
        click.echo(f"\n{kept} of {len(checks)} rules are kept")
    if not report.healthy(checks):
        sys.exit(1)
