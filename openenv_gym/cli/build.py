"""``openenv-gym build``: the container image of an environment package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from openenv_gym.cli.folders import read_folder, read_pairs
from openenv_gym.errors import InvalidOptionError


if TYPE_CHECKING:
    from openenv_gym.models.manifest import Manifest

__all__ = ["build", "build_folder"]


@click.command()
@click.argument("path", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "-t",
    "--tag",
    metavar="NAME[:TAG]",
    help="Name of the image; by default what the manifest says, with the version of this library.",
)
@click.option(
    "--build-arg",
    "build_args",
    multiple=True,
    metavar="NAME=VALUE",
    help="Argument of the Dockerfile; may be given several times.",
)
@click.option(
    "--python",
    metavar="IMAGE",
    help="Image with Python to begin with, such as python:3.13-slim.",
)
@click.option("--no-cache", is_flag=True, help="Do every step anew.")
@click.option("--push", "pushes", is_flag=True, help="Send it to the registry that --tag names.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def build(
    path: Path,
    tag: str | None,
    build_args: tuple[str, ...],
    python: str | None,
    no_cache: bool,
    pushes: bool,
    as_json: bool,
) -> None:
    """Build the container image of the environment package in PATH (by default here).

    The image that all of them begin with is built first, where it is missing. Neither needs a
    registry: where none answers, OPENENV_BASE_IMAGE names an image with Python that is here.

    \b
    openenv-gym build
    openenv-gym build envs/burrow_env --no-cache
    openenv-gym build --python python:3.13-slim
    openenv-gym build -t registry.example.com/me/burrow:1.0 --push
    """  # noqa: D301
    try:
        arguments = read_pairs("--build-arg", build_args)
        if pushes and (tag is None or "/" not in tag):
            raise InvalidOptionError(
                "--push needs the name of a registry.",
                field="push",
                hint="Name the image there: -t registry.example.com/me/burrow:1.0",
            )
        manifest = read_folder(path)
    except InvalidOptionError as error:
        raise click.UsageError(str(error)) from error
    from openenv_gym.providers.docker.build import push
    from openenv_gym.providers.docker.daemon import connect_daemon

    client = connect_daemon()
    image = build_folder(
        client, path, manifest, tag, arguments=arguments, cache=not no_cache, python=python
    )
    digest = push(client, image) if pushes else None
    ids = [f"openenv/{each.id}" for each in manifest.ids]
    if as_json:
        facts = {"image": image, "package": manifest.name, "ids": ids, "digest": digest}
        click.echo(json.dumps(facts))
        return
    click.echo(image)
    if tag is None and ids:
        # Wherever the package is installed, its ids are known, and this image is theirs.
        click.echo(f'gymnasium.make("{ids[0]}", provider="docker")')
    elif ids:
        click.echo(f'gymnasium.make("{ids[0]}", provider=DockerProvider(image="{image}"))')


def build_folder(
    client: Any,
    folder: Path,
    manifest: Manifest,
    tag: str | None = None,
    *,
    arguments: Mapping[str, str] | None = None,
    cache: bool = True,
    python: str | None = None,
) -> str:
    """Build the image of an environment package that need not be installed.

    Args:
        client: docker-py's client.
        folder: The package's folder.
        manifest: Its manifest.
        tag: Name of the image, where it is not the manifest's.
        arguments: Further build arguments.
        cache: Take steps from earlier builds where nothing has changed.
        python: Image with Python to begin with, where it is not the usual one.

    Returns:
        The image's name.

    Raises:
        ImageError: It cannot be built.
        OutOfDiskError: There is no space for it.
    """
    from openenv_gym.providers.docker.contexts import folder_context
    from openenv_gym.providers.docker.images import BaseImages, build_image, image_name

    package = manifest.name
    return build_image(
        client,
        package,
        reference=image_name(package, tag or manifest.image),
        context=folder_context(package, folder.resolve()),
        base=None if python is None else BaseImages.on(python),
        arguments=arguments,
        cache=cache,
    )
