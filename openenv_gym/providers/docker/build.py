"""Building and pulling images through the daemon's own interface: no `docker` command is needed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from openenv_gym import errors
from openenv_gym.providers.docker.contexts import Context


__all__ = ["Say", "build_context", "inspect", "narrate", "pull", "push", "remove_unused"]

Say = Callable[[str], None]
"""Takes a line of progress; one that begins with a blank is worth seeing only until the next."""

_LOG_LINES = 30
_PASSED_ON = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")

_STEP = re.compile(r"Step (\d+/\d+) : (.*)")
_SHOWN_STEPS = ("ADD", "COPY", "FROM", "RUN")
_DOWNLOAD = re.compile(r"Downloading ([^-\s]+-[^-\s]+)\S* (\(.*\))")
_FROM = re.compile(r"FROM\s+\S+(?:\s+AS\s+(\S+))?", re.IGNORECASE)
_LAYER = re.compile(r" ---> ([0-9a-f]{12})$")


def narrate(text: str) -> None:
    """Print a line of progress to standard error, where passing ones replace each other."""
    stream = sys.stderr
    if not stream.isatty():
        print(f"openenv: {text}", file=stream, flush=True)  # a log keeps them all
        return
    passing = text.startswith(" ")
    line = text[: shutil.get_terminal_size().columns - 10] if passing else text
    print(f"\r\x1b[Kopenenv: {line}", end="" if passing else "\n", file=stream, flush=True)


def inspect(client: Any, reference: str) -> dict[str, Any] | None:
    """Return what the daemon knows of an image; None where it has none of this name.

    Raises:
        InvalidOptionError: No image can be called that.
    """
    from docker.errors import APIError, ImageNotFound, NotFound

    try:
        return dict(client.api.inspect_image(reference))
    except (ImageNotFound, NotFound):
        return None
    except APIError as error:
        if error.status_code != HTTPStatus.BAD_REQUEST:
            raise
        raise errors.InvalidOptionError(
            f"No image can be called {reference!r}.",
            field="image",
            hint="Expected [registry/]name[:tag] in lower case, name@sha256:digest, or an id.",
        ) from error


def build_context(
    client: Any,
    context: Context,
    reference: str,
    *,
    arguments: Mapping[str, str],
    labels: Mapping[str, str] | None = None,
    target: str | None = None,
    keep_stage: str | None = None,
    cache: bool = True,
    say: Say = narrate,
) -> None:
    """Build an image, and leave nothing else behind.

    Args:
        client: docker-py's client.
        context: What to build.
        reference: Name with a tag.
        arguments: Build arguments, beside those that tell pip where to look.
        labels: Labels of the image.
        target: The stage to build; by default the last one.
        keep_stage: Name to keep the stage ``build`` under, so that a later build can go on from
            it; by default nothing is kept of stages before the last.
        cache: Take steps from earlier builds where nothing has changed.
        say: Takes lines of progress.

    Raises:
        ImageBuildError: The build failed.
        OutOfDiskError: There was no space for it.
    """
    before = inspect(client, reference)
    progress = _Progress(reference, say)
    try:
        with context.archive() as archive:
            events = client.api.build(
                fileobj=archive,
                custom_context=True,
                dockerfile=context.dockerfile,
                tag=reference,
                buildargs={**_passed_on(), **arguments},
                labels=dict(labels or {}),
                target=target or "",
                nocache=not cache,
                rm=True,
                forcerm=True,
                decode=True,
            )
            progress.follow(events)
    except BaseException as error:
        for leaf in progress.leaves.values():
            remove_unused(client, leaf)
        # Whatever docker-py, requests or urllib3 raise: the answer is the same.
        if isinstance(error, Exception) and not isinstance(error, errors.OpenEnvGymError):
            raise progress.failure(_reason_of(error)) from error
        raise
    # What a stage before the last left is nameless, and would stay for ever.
    *stages, _ = progress.leaves.items()
    for stage, leaf in stages:
        if stage == "build" and keep_stage is not None:
            _tag(client, leaf, keep_stage)
        remove_unused(client, leaf)
    if before is not None:
        remove_unused(client, before["Id"])


def pull(client: Any, reference: str, *, say: Say = narrate) -> None:
    """Fetch an image from its registry.

    Raises:
        ImageNotFoundError: The registry does not answer, or does not have it.
        OutOfDiskError: There is no space for it.
    """
    name, tag = _split(reference)
    say(f"pulling {reference} ...")
    reason = ""
    try:
        for event in client.api.pull(name, tag=tag, stream=True, decode=True):
            reason = str(event.get("error", "")) or reason
            if "status" in event:
                say(f"  {event['status']} {event.get('progress', '')}".rstrip())
    except Exception as error:
        reason = _reason_of(error)
    if reason:
        data = {"image": reference}
        _check_space(reason, reference, reason)
        raise errors.ImageNotFoundError(
            f"The image {reference} is not here and cannot be pulled: {_sentence(reason)}",
            hint="Expected an image that its registry lets this machine have; see to its name and "
            "`docker login`, or load it (docker load).",
            data=data,
        )


def push(client: Any, reference: str, *, say: Say = narrate) -> str:
    """Send an image to its registry; who may is what `docker login` has said.

    Returns:
        Its digest there, ``sha256:...``.

    Raises:
        ImageError: The registry does not answer, or does not take it.
    """
    name, tag = _split(reference)
    say(f"pushing {reference} ...")
    reason, digest = "", ""
    try:
        for event in client.api.push(name, tag=tag, stream=True, decode=True):
            reason = str(event.get("error", "")) or reason
            digest = str((event.get("aux") or {}).get("Digest", "")) or digest
            if "status" in event:
                say(f"  {event['status']} {event.get('progress', '')}".rstrip())
    except Exception as error:
        reason = _reason_of(error)
    if reason:
        raise errors.ImageError(
            f"{reference} cannot be pushed: {_sentence(reason)}",
            hint="Expected [registry/]name:tag of a registry that takes it from you; see to its "
            "name and `docker login`.",
            data={"image": reference},
        )
    return digest


def remove_unused(client: Any, image_id: str) -> None:
    """Remove an image unless it has a name, is used by a container or is part of another image."""
    facts = inspect(client, image_id)
    if facts is None or facts["RepoTags"] or facts.get("RepoDigests"):
        return
    # The daemon itself refuses where something uses it, or is built on it.
    with contextlib.suppress(Exception):
        client.api.remove_image(image_id)


class _Progress:
    """Reads what a build says.

    Attributes:
        leaves: The latest image of each stage, by the stage's name.
    """

    def __init__(self, reference: str, say: Say) -> None:
        self._reference = reference
        self._say = say
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._step = ""
        self._stage = ""
        self._stages = 0
        self.leaves: dict[str, str] = {}

    def follow(self, events: Iterator[dict[str, Any]]) -> None:
        """Read to the end.

        Raises:
            ImageBuildError: The build failed.
            OutOfDiskError: There was no space for it.
        """
        reason = ""
        for event in events:  # to the end, or the connection stays open
            for line in str(event.get("stream", "")).splitlines():
                self._read(line)
            reason = str(event.get("error", "")) or reason
        if reason:
            raise self.failure(reason)

    def failure(self, reason: str) -> errors.OpenEnvGymError:
        """Return the error that a failed build amounts to."""
        self._say(f"building {self._reference} failed")
        log = "\n".join([*self._log, reason])
        try:
            _check_space(log, self._reference, reason)
        except errors.OutOfDiskError as error:
            return error
        where = f" at step {self._step}" if self._step else ""
        return errors.ImageBuildError(
            f"Docker could not build {self._reference}{where}: {_sentence(reason)}",
            data={"image": self._reference, "log": log},
        )

    def _read(self, line: str) -> None:
        if line.strip():
            self._log.append(line.rstrip())
        if step := _STEP.match(line):
            number, instruction = step.groups()
            self._step = f"{number} ({instruction})"
            if stage := _FROM.match(instruction):
                self._stages += 1
                self._stage = stage[1] or str(self._stages)
            if instruction.startswith(_SHOWN_STEPS):
                self._say(f"  step {number}: {' '.join(instruction.split())[:70]}")
        elif layer := _LAYER.match(line):
            self.leaves[self._stage] = layer[1]
        elif download := _DOWNLOAD.match(line.strip()):
            self._say(f"  downloading {download[1]} {download[2]}")


def _passed_on() -> dict[str, str]:
    """Return where this machine's pip looks, as build arguments; paths mean nothing in there."""
    names: Iterable[str] = (*_PASSED_ON, *_PROXIES, *map(str.lower, _PROXIES))
    found = {name: os.environ[name] for name in names if os.environ.get(name)}
    return {name: value for name, value in found.items() if not value.startswith(("/", "file:"))}


def _reason_of(error: Exception) -> str:
    """Return what the daemon said, and give the connection back that docker-py keeps."""
    if (response := getattr(error, "response", None)) is not None:
        response.close()
    return str(getattr(error, "explanation", None) or error)


def _check_space(text: str, reference: str, reason: str) -> None:
    if "no space left on device" in text.lower():
        raise errors.OutOfDiskError(
            f"The disk is full where Docker keeps its images; {reference} needs more space than "
            f"is left. ({_sentence(reason)})",
            hint="Free some: `docker system df` shows what takes it, `docker system prune` "
            "removes what nothing uses.",
            data={"image": reference},
        )


def _tag(client: Any, image_id: str, reference: str) -> None:
    before = inspect(client, reference)
    name, tag = _split(reference)
    client.api.tag(image_id, name, tag)
    if before is not None:
        remove_unused(client, before["Id"])


def _split(reference: str) -> tuple[str, str | None]:
    """Split into name and tag; the name of what has a digest is the whole."""
    if "@" in reference:
        return reference, None
    name, colon, tag = reference.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (reference, "latest")


def _sentence(reason: str) -> str:
    reason = " ".join(reason.split())
    return reason if reason.endswith(".") else f"{reason}."
