"""Where the server of a client is that was asked for by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from openenv_gym import errors
from openenv_gym.openenv.auto.hub import HubRepo, reach_space
from openenv_gym.openenv.auto.names import Named
from openenv_gym.openenv.launching import ForeignServer, Launch, launch_image


__all__ = ["Place", "choose_place"]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a server is, or how it comes to be.

    Attributes:
        url: It runs there.
        launch: Starts it, or finds it.
        locate: Finds its URL, for clients that take nothing else.
        options: What the environment is made with.
        foreign: It belongs to somebody else, on the Hub.
    """

    url: str | None = None
    launch: Launch | None = None
    locate: Callable[[], str] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    foreign: bool = False


def choose_place(
    found: Named,
    *,
    base_url: str | None,
    image: str | None,
    provider: Any,
    wait_s: float,
    env_vars: Mapping[str, str] | None,
) -> Place:
    """Return where the server is to be.

    Args:
        found: What the name stands for.
        base_url: The server, where it is told.
        image: Image of a container to start.
        provider: Starts the server.
        wait_s: How long it may take.
        env_vars: Environment variables for a container.

    Raises:
        InvalidOptionError: They contradict each other.
    """
    options = _options_of(found)
    starts = {"docker_image": image, "container_provider": provider, "env_vars": env_vars}
    named = [name for name, value in starts.items() if value]
    url = base_url or found.url
    if url is not None:
        if named:
            raise errors.InvalidOptionError(
                f"{named[0]} says how to start a server, and {url!r:.120} is one that runs.",
                field=named[0],
                hint="Leave one of them out.",
            )
        return Place(url=url, options=options)
    if hasattr(provider, "start_container"):
        return Place(launch=_container(found, image, provider, wait_s, env_vars), options=options)
    if env_vars:
        raise errors.InvalidOptionError(
            "env_vars are for a container_provider with OpenEnv's start_container.",
            field="env_vars",
            hint="Environments here take options={...} of the client.",
        )
    if image is not None:
        return Place(launch=launch_image(image, provider), options=options)
    if found.repo is not None and provider is None:
        return _space(found.repo, wait_s)
    return Place(launch=_server(found, provider), options=options)


def _options_of(found: Named) -> dict[str, Any]:
    if found.entry is None:
        return {}
    from openenv_gym.registration.make import session_options

    return session_options(found.entry, None, dict(found.entry.kwargs))


def _space(repo: HubRepo, wait_s: float) -> Place:
    reach = functools.partial(reach_space, repo, wait_s)
    return Place(launch=reach, locate=lambda: str(reach().address), foreign=True)


def _server(found: Named, provider: Any) -> Launch:
    """Return what starts a server of a package that is known here."""
    from openenv_gym.registration import known_environments
    from openenv_gym.registration.starting import start

    entry, info = found.entry, found.info
    if entry is None and info is not None:
        entries = known_environments().values()
        entry = next((each for each in entries if each.package == info.package), None)
    if entry is None:
        what = found.repo or (info and info.package)
        raise errors.InvalidOptionError(
            f"There is no server of {what} that this library could start.",
            field="container_provider" if found.repo else "name",
            hint="Pass base_url= of a server that runs already"
            + (f", such as that of `{found.repo.run_command}`." if found.repo else "."),
        )
    return functools.partial(start, entry, provider)


def _container(
    found: Named,
    image: str | None,
    provider: Any,
    wait_s: float,
    env_vars: Mapping[str, str] | None,
) -> Launch:
    """Return what has an object with OpenEnv's methods start a container."""
    if image is None and found.repo is not None:
        image = f"registry.hf.space/{found.repo.subdomain}:latest"
    if image is None and found.info is not None:
        image = found.info.image
    if image is None:
        raise errors.InvalidOptionError(
            "container_provider has no image to start.",
            field="docker_image",
            hint="Pass docker_image=.",
        )
    return lambda: ForeignServer(
        _Prepared(provider, image, wait_s, env_vars), "start_container", "stop_container"
    )


class _Prepared:
    """A provider of OpenEnv's that knows what to start."""

    def __init__(
        self, provider: Any, image: str, wait_s: float, env_vars: Mapping[str, str] | None
    ) -> None:
        self._provider = provider
        self._image = image
        self._wait_s = wait_s
        self._env_vars = dict(env_vars or {})

    def start_container(self) -> str:
        """Start it; return its URL."""
        return str(self._provider.start_container(self._image, env_vars=self._env_vars))

    def wait_for_ready(self, url: str) -> None:
        """Wait until it answers."""
        self._provider.wait_for_ready(url, self._wait_s)

    def stop_container(self) -> None:
        """Stop it."""
        self._provider.stop_container()
