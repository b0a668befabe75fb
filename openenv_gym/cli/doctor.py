"""``openenv-gym doctor``: what works on this machine, and what a container withstands."""

from __future__ import annotations

import json
import sys

import click

from openenv_gym.doctor import report


__all__ = ["doctor"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--attack",
    "image",
    metavar="IMAGE",
    help="Try to break out of a container of this image, and print what was held off.",
)
@click.option("--only", metavar="WORD", help="With --attack: attacks with this in their name.")
def doctor(as_json: bool, image: str | None, only: str | None) -> None:
    """Tell what works on this machine, with the fix beside what does not.

    Exits with 1 where something that is needed does not work, or an attack was not held off.
    """
    if image == "":
        raise click.BadParameter("expected the name of an image", param_hint="--attack")
    if only is not None and image is None:
        raise click.UsageError("--only chooses among attacks, and goes with --attack.")
    if image is not None:
        from openenv_gym.doctor.command import attack

        sys.exit(attack(image, as_json=as_json, only=only))
    checks = report.examine()
    if as_json:
        click.echo(json.dumps(report.as_json(checks), indent=2))
    else:
        click.echo("\n".join(report.lines(checks)))
    if not report.healthy(checks):
        sys.exit(1)
