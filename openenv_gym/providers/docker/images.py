"""Images of environments: what they are called, whether they are fit to run, how to get them.

An image that this library builds says in two labels what it holds: ``openenv.version``, the
library's version, and ``openenv.source``, whose source it was built from, with a digest. Where
that source is on this machine too, an image of another one is stale.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.providers.docker.build import (
    Say,
    build_context,
    inspect,
    narrate,
    pull,
)
from openenv_gym.providers.docker.contexts import (
    Context,
    context_of,
    image_stem,
    is_checkout,
    library_context,
)
from openenv_gym.providers.docker.one_builder import one_builder


__all__ = [
    "BASE_IMAGE_VARIABLE",
    "BUILD_CHOICES",
    "OFFICIAL_BASE",
    "SOURCE_LABEL",
    "VERSION_LABEL",
    "BaseImages",
    "ImageStatus",
    "build_base",
    "build_image",
    "ensure_base",
    "ensure_image",
    "find_image",
    "image_name",
    "image_package",
]

VERSION_LABEL = "openenv.version"
SOURCE_LABEL = "openenv.source"
_PYTHON_LABEL = "openenv.python"

BASE_IMAGE_VARIABLE = "OPENENV_BASE_IMAGE"
"""Environment variable that names the image with Python to build on."""

OFFICIAL_BASE = "python:3.11-slim"

BUILD_CHOICES = ("auto", "never", "always")

State = Literal["current", "stale", "missing", "unlabelled", "other version"]


@dataclass(frozen=True)
class BaseImages:
    """The two images that those of environments are made of.

    Attributes:
        run: What an environment's image begins with: Python, and this library.
        build: What environments are installed with: pip, and what the library depends on.
        python: What both begin with; by default what `OPENENV_BASE_IMAGE` says, what the base
            was last built on, or `OFFICIAL_BASE`.
    """

    run: str = f"openenv-gym-base:{__version__}"
    build: str = f"openenv-gym-build:{__version__}"
    python: str | None = None

    @classmethod
    def on(cls, python: str) -> BaseImages:
        """Return those on an image with Python of one's own, beside the usual ones."""
        tag = f"{__version__}-{re.sub(r'[^A-Za-z0-9_.-]+', '-', python)}"[:128]  # Docker's limit
        return cls(f"openenv-gym-base:{tag}", f"openenv-gym-build:{tag}", python)


@dataclass(frozen=True)
class ImageStatus:
    """What is known of an image without building anything.

    Attributes:
        reference: Its whole name.
        state: ``"current"`` is fit to run; ``"stale"`` was built from another source than is
            here; ``"unlabelled"`` does not say which version of this library it holds.
        version: Version of this library that it holds, where it says so.
        own: Its name is the environment's own, so that it is built here where it is missing;
            one with a tag, a digest or a registry is somebody's, and is pulled instead.
    """

    reference: str
    state: State
    version: str | None = None
    own: bool = True


def image_name(package: str, image: str | None = None) -> str:
    """Return the whole name of an environment's image.

    Args:
        package: Import name of the environment package, or ``gymnasium``.
        image: Another name; with a tag or a digest it stays as it is.
    """
    name = image or f"openenv-gym-{image_stem(package)}"
    tagged = "@" in name or ":" in name.rpartition("/")[2]
    return name if tagged else f"{name}:{__version__}"


def find_image(client: Any, package: str, *, image: str | None = None) -> ImageStatus:
    """Look for an image, without building or pulling it.

    Args:
        client: docker-py's client.
        package: Import name of the environment package, or ``gymnasium``.
        image: Name of its image, where it is not the usual one.
    """
    reference = image_name(package, image)
    own = image in (None, "", reference.rpartition(":")[0]) and "/" not in reference
    own = own or reference == image_name(package)
    facts = inspect(client, reference)
    if facts is None:
        return ImageStatus(reference, "missing", own=own)
    labels: Mapping[str, str] = (facts.get("Config") or {}).get("Labels") or {}
    version = labels.get(VERSION_LABEL)
    state: State = "current"
    if version is None:
        state = "unlabelled"
    elif version != __version__:
        state = "other version"
    elif own:
        name, _, digest = labels.get(SOURCE_LABEL, "").partition("@")
        # A label of another name was inherited: somebody built this one by hand.
        if name == package and digest != (_source_digest(package) or digest):
            state = "stale"
    return ImageStatus(reference, state, version, own)


def image_package(client: Any, image: str) -> str | None:
    """Return which environment package an image holds, by its label; None where it does not say.

    Args:
        client: docker-py's client.
        image: Its name; without a tag, of this version.

    Raises:
        ImageNotFoundError: There is no such image here.
    """
    tagged = "@" in image or ":" in image.rpartition("/")[2]
    for reference in (image,) if tagged else (f"{image}:{__version__}", image):
        facts = inspect(client, reference)
        if facts is not None:
            labels = (facts.get("Config") or {}).get("Labels") or {}
            name, at, _ = labels.get(SOURCE_LABEL, "").partition("@")
            return name if at else None
    raise errors.ImageNotFoundError(
        f"There is no image {image} here.",
        hint=f"Pull it (docker pull {image}), or build it.",
        data={"image": image},
    )


def ensure_image(
    client: Any,
    package: str,
    *,
    image: str | None = None,
    build: str = "auto",
    arguments: Mapping[str, str] | None = None,
    say: Say = narrate,
) -> str:
    """Return the name of an image that is fit to run, after building or pulling it if need be.

    Args:
        client: docker-py's client.
        package: Import name of the environment package, or ``gymnasium``.
        image: Name of its image. One with a tag, a digest or a registry is taken as it is, and
            pulled where it is missing; without a label that says which version of this library
            it holds, it is taken only by its digest or its id.
        build: ``"auto"`` builds an environment's own image where it is missing, holds another
            version of this library, or was built from another source than is here; ``"never"``
            and ``"always"`` do what they say.
        arguments: Further build arguments; an image does not become stale by them.
        say: Takes lines of progress.

    Raises:
        InvalidOptionError: ``build`` is none of these, or no image can be called ``image``.
        ImageNotFoundError: The image is missing, and was not to be built or cannot be.
        ImageVersionError: It holds another version of this library, or none.
        ImageBuildError: It could not be built.
        OutOfDiskError: There was no space for it.
    """
    if build not in BUILD_CHOICES:
        raise errors.InvalidOptionError(
            f"There is no build={build!r}.",
            field="build",
            hint="Expected " + ", ".join(f'"{choice}"' for choice in BUILD_CHOICES) + ".",
        )
    status = find_image(client, package, image=image)
    if status.state == "current" and build != "always":
        return status.reference
    if build == "never" or not status.own:
        if status.state == "missing" and not status.own and build != "never":
            pull(client, status.reference, say=say)
            status = find_image(client, package, image=image)
        _check_fit(status, package)
        return status.reference
    if status.state != "missing" and _source_digest(package) is None:
        # There is nothing to build it from, so what is wrong with the one that is there?
        _check_fit(status, package)
    with one_builder(say):
        # Another process may have built it meanwhile.
        status = find_image(client, package, image=image)
        if status.state == "current" and build != "always":
            return status.reference
        if status.state == "stale":
            say(f"{status.reference} was built from another source than is here; building anew")
        build_image(client, package, reference=status.reference, arguments=arguments, say=say)
    return status.reference


def ensure_base(client: Any, *, force: bool = False, say: Say = narrate) -> str:
    """Return the name of the image that those of environments begin with; build it if need be.

    Args:
        client: docker-py's client.
        force: Build it in any case.
        say: Takes lines of progress.

    Raises:
        ImageBuildError: It could not be built.
        OutOfDiskError: There was no space for it.
    """
    with one_builder(say):
        build_base(client, force=force, say=say)
    return BaseImages().run


def build_image(
    client: Any,
    package: str,
    *,
    reference: str | None = None,
    base: BaseImages | None = None,
    context: Context | None = None,
    arguments: Mapping[str, str] | None = None,
    cache: bool = True,
    say: Say = narrate,
) -> str:
    """Build an environment's image, and before it the base, where that is not current.

    Args:
        client: docker-py's client.
        package: Import name of the environment package, or ``gymnasium``.
        reference: Name of the image, where it is not the usual one.
        base: The images to build on.
        context: What to build, where it is not what the package that is installed here has.
        arguments: Further build arguments.
        cache: Take steps from earlier builds where nothing has changed.
        say: Takes lines of progress.

    Returns:
        The image's name.

    Raises:
        ImageNotFoundError: There is no such package here.
        ImageBuildError: It could not be built.
        OutOfDiskError: There was no space for it.
    """
    known = context is None
    context = context or context_of(package)
    base = base or BaseImages()
    reference = reference or image_name(package)
    # Before anything is read for a build: what is edited meanwhile makes the image stale.
    source = _digest_with_library(context)
    build_base(client, base, say=say)
    say(f"building {reference} ...")
    begin = time.monotonic()
    build_context(
        client,
        context,
        reference,
        arguments={
            "OPENENV_VERSION": __version__,
            "BASE_IMAGE": base.run,
            "BUILD_IMAGE": base.build,
            **(arguments or {}),
        },
        labels={
            VERSION_LABEL: __version__,
            SOURCE_LABEL: f"{package}@{source}",
        },
        # An edit of the library then installs nothing anew; an installed one is not edited.
        keep_stage=f"{base.build}-{image_stem(package)}" if known and is_checkout() else None,
        cache=cache,
        say=say,
    )
    size = (inspect(client, reference) or {}).get("Size", 0)
    say(f"{reference} is ready, {size / 1e6:.0f} MB, {time.monotonic() - begin:.1f} s")
    return reference


def build_base(
    client: Any, base: BaseImages | None = None, *, force: bool = False, say: Say = narrate
) -> None:
    """Build the images that those of environments are made of, where they are not current.

    Args:
        client: docker-py's client.
        base: What to call them, and what to build them on.
        force: Build them in any case.
        say: Takes lines of progress.

    Raises:
        ImageBuildError: They could not be built.
        OutOfDiskError: There was no space for them.
    """
    base = base or BaseImages()
    context = library_context()
    source = f"{context.name}@{context.digest()}"
    run, stage = inspect(client, base.run), inspect(client, base.build)
    labels: Mapping[str, str] = ((run or {}).get("Config") or {}).get("Labels") or {}
    if stage and not force and labels.get(SOURCE_LABEL) == source:
        return
    python = base.python or os.environ.get(BASE_IMAGE_VARIABLE)
    python = python or labels.get(_PYTHON_LABEL) or OFFICIAL_BASE
    _ensure_python(client, python, say)
    say(f"building {base.run} on {python} ...")
    begin = time.monotonic()
    arguments = {"PYTHON_IMAGE": python, "OPENENV_VERSION": __version__}
    build_context(client, context, base.build, arguments=arguments, target="build", say=say)
    labels = {VERSION_LABEL: __version__, SOURCE_LABEL: source, _PYTHON_LABEL: python}
    build_context(client, context, base.run, arguments=arguments, labels=labels, say=say)
    say(f"{base.run} is ready, {time.monotonic() - begin:.1f} s")


def _ensure_python(client: Any, python: str, say: Say) -> None:
    if inspect(client, python) is not None:
        return
    try:
        pull(client, python, say=say)
    except errors.ImageNotFoundError as error:
        raise errors.ImageBuildError(
            f"There is no image {python} with Python to build on: {error.message}",
            hint=f"Name one that is here in {BASE_IMAGE_VARIABLE}; where no registry can be "
            "reached, `python3 dev.py images` in a checkout makes one.",
            data={"image": python, "log": ""},
        ) from error


def _check_fit(status: ImageStatus, package: str) -> None:
    """Check an image that is not to be built.

    Raises:
        ImageNotFoundError: It is missing.
        ImageVersionError: It holds another version of this library, or another source of it.
    """
    reference = status.reference
    command = f"python -m openenv_gym.providers.docker build {package}"
    data = {"image": reference, "version": status.version, "expected": __version__}
    hint = f"Build it: {command}" if status.own else "Pull or load it (docker load)."
    if status.state == "missing":
        raise errors.ImageNotFoundError(
            f"The image {reference} is not here.", hint=hint, data={"image": reference}
        )
    hint = f"Build it anew: {command}" if status.own else "Name an image of this version."
    if status.state == "other version":
        raise errors.ImageVersionError(
            f"The image {reference} holds openenv-gym {status.version}, and {__version__} runs "
            "here.",
            hint=hint,
            data=data,
        )
    # Who names an image by its digest or its id has looked at it.
    pinned = "@" in reference or reference.startswith("sha256:")
    if status.state == "unlabelled" and not pinned:
        raise errors.ImageVersionError(
            f"The image {reference} does not say which openenv-gym it holds; expected the label "
            f"{VERSION_LABEL}={__version__}.",
            hint=f"{hint} One without the label is taken by its digest alone (name@sha256:...).",
            data=data,
        )
    if status.state == "stale":
        raise errors.ImageVersionError(
            f"The image {reference} was built from another source of {package} or of openenv-gym "
            "than is here.",
            hint=hint,
            data=data,
        )


def _source_digest(package: str) -> str | None:
    """Return the digest of all that is put into an image; None where it is not all here."""
    try:
        return _digest_with_library(context_of(package))
    except errors.ImageError:
        return None


def _digest_with_library(context: Context) -> str:
    digests = [context.digest(), library_context().digest()]
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:32]
