"""``python -m openenv_gym.providers.docker``: build and list the images of environments."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.providers.docker.build import inspect
from openenv_gym.providers.docker.contexts import context_of, environment_packages
from openenv_gym.providers.docker.daemon import connect_daemon
from openenv_gym.providers.docker.images import (
    BASE_IMAGE_VARIABLE,
    OFFICIAL_BASE,
    SOURCE_LABEL,
    VERSION_LABEL,
    BaseImages,
    ensure_base,
    ensure_image,
    find_image,
)


_LICENCE_LABEL = "org.opencontainers.image.licenses"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m openenv_gym.providers.docker", description=__doc__
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="build images, where they are missing or old")
    build.add_argument(
        "packages",
        nargs="*",
        metavar="PACKAGE",
        help="an environment package, `gymnasium` or `base`; by default all that is installed",
    )
    build.add_argument("--force", action="store_true", help="build them in any case")
    build.add_argument(
        "--base-image",
        metavar="IMAGE",
        help=f"image with Python to build on (or {BASE_IMAGE_VARIABLE}; default: {OFFICIAL_BASE})",
    )
    build.add_argument(
        "--build-arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="argument of the Dockerfile; implies --force (see servers/gymnasium/Dockerfile)",
    )
    commands.add_parser("images", help="list images, with what they hold and whether they are fit")
    options = parser.parse_args(argv)
    try:
        client = connect_daemon()
        if options.command == "build":
            if options.base_image:
                os.environ[BASE_IMAGE_VARIABLE] = options.base_image
            arguments = dict(_argument(text) for text in options.build_arg)
            _build(client, options.packages, options.force, arguments)
        else:
            _show(client, _present(client))
    except errors.OpenEnvGymError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _argument(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise errors.InvalidOptionError(
            f"--build-arg {text!r} has no value.", field="build_arg", hint="Expected NAME=VALUE."
        )
    return name, value


def _build(client: Any, names: Sequence[str], force: bool, arguments: Mapping[str, str]) -> None:
    packages = [_package(name) for name in names] or ["gymnasium", *environment_packages()]
    references = [BaseImages().run]
    for package in packages:
        if package != "base":
            context_of(package)  # one that is not here is told before anything is built
    ensure_base(client, force=force)
    for package in packages:
        if package != "base":
            build = "always" if force or arguments else "auto"
            references.append(ensure_image(client, package, build=build, arguments=arguments))
    _show(client, references)


def _package(name: str) -> str:
    """Return the package that is meant: ``atari`` is short for ``atari_env``."""
    if name in ("base", "gymnasium") or not name.isidentifier() or name.endswith("_env"):
        return name
    longer = f"{name}_env"
    return longer if importlib.util.find_spec(longer) else name


def _present(client: Any) -> list[str]:
    """Return the names of all images that hold this library, whichever version."""
    # While another process builds, there are some without a name ("<none>:<none>").
    found = client.api.images(filters={"label": VERSION_LABEL, "dangling": False})
    return sorted(tag for facts in found for tag in facts["RepoTags"] or ())


def _show(client: Any, references: Iterable[str]) -> None:
    rows = [("image", "size", "licence", "")]
    for reference in references:
        facts = inspect(client, reference)
        if facts is None:  # removed since it was listed
            continue
        labels = (facts.get("Config") or {}).get("Labels") or {}
        version = labels.get(VERSION_LABEL)
        package = str(labels.get(SOURCE_LABEL, "")).partition("@")[0]
        state = f"version {version}" if version != __version__ else ""
        if not state and reference != BaseImages().run:
            status = find_image(client, package, image=reference) if package else None
            state = status.state if status and status.state != "current" else ""
        size = f"{facts.get('Size', 0) / 1e6:.0f} MB"
        rows.append((reference, size, str(labels.get(_LICENCE_LABEL, "?")), state))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, size, licence, state in rows:
        print(f"{name:{widths[0]}}  {size:>{widths[1]}}  {licence:{widths[2]}}  {state}".rstrip())
    print(f"The base is part of each of the others, and on disk once. Version {__version__}.")


if __name__ == "__main__":
    sys.exit(main())
