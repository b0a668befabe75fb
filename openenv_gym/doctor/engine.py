"""Checks of the Docker daemon: whether it answers, what it can bound, which images it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from openenv_gym import errors
from openenv_gym.doctor.checks import Check, State


__all__ = ["check_engine"]

_AREA = "docker"
_BOUNDS = {
    # fact of the daemon: what it bounds
    "MemoryLimit": "memory",
    "SwapLimit": "swap",
    "CpuCfsQuota": "processors",
    "PidsLimit": "processes",
}


def check_engine() -> Iterator[Check]:
    """Look at the daemon that would be used, and at what it says of its machine."""
    from openenv_gym.providers.docker.daemon import connect_daemon, daemon_address, daemon_facts

    try:
        client = connect_daemon()
        facts = daemon_facts(client)
    except errors.ProviderError as error:
        yield Check(_AREA, "daemon", State.FAILED, error.message, error.hint or "")
        return
    version = f"{facts.get('ServerVersion')} (API {client.api.api_version})"
    yield Check(_AREA, "daemon", State.OK, f"{version} at {daemon_address()}")
    cgroups, driver = facts.get("CgroupVersion", "1"), facts.get("Driver")
    where = f"{facts.get('OperatingSystem')}, {facts.get('NCPU')} processors"
    memory = f"{(facts.get('MemTotal') or 0) / 1e9:.1f} GB"
    yield Check(_AREA, "its machine", State.OK, f"{where}, {memory}, cgroups version {cgroups}")
    yield Check(_AREA, "storage", State.OK, f"{driver} in {facts.get('DockerRootDir')}")
    yield _bounds(facts)
    yield _seccomp(facts)
    yield _runtimes(facts)
    yield _swarm(facts)
    yield from _images(client)


def _bounds(facts: Mapping[str, Any]) -> Check:
    missing = [what for name, what in _BOUNDS.items() if not facts.get(name)]
    if not missing:
        return Check(_AREA, "limits", State.OK, ", ".join(_BOUNDS.values()))
    fix = "Boot with cgroup_enable=memory swapaccount=1, or give the daemon these controllers."
    return Check(_AREA, "limits", State.FAILED, f"cannot bound {', '.join(missing)}", fix)


def _seccomp(facts: Mapping[str, Any]) -> Check:
    options = [str(each) for each in facts.get("SecurityOptions") or ()]
    text = "; ".join(each.replace("name=", "") for each in options)
    if any("seccomp" in each and "unconfined" not in each for each in options):
        return Check(_AREA, "seccomp", State.OK, text)
    fix = "Use a daemon with seccomp, and without --seccomp-profile=unconfined."
    return Check(_AREA, "seccomp", State.FAILED, text or "off", fix)


def _runtimes(facts: Mapping[str, Any]) -> Check:
    names = sorted(facts.get("Runtimes") or {})
    if "runsc" in names:
        return Check(_AREA, "gVisor", State.OK, ", ".join(names))
    fix = 'Only runtime="runsc" needs it: install runsc, and name it in daemon.json.'
    return Check(_AREA, "gVisor", State.ABSENT, f"not among {', '.join(names)}", fix)


def _swarm(facts: Mapping[str, Any]) -> Check:
    state = str((facts.get("Swarm") or {}).get("LocalNodeState") or "inactive")
    if state == "active":
        return Check(_AREA, "Swarm", State.OK, state)
    fix = 'Only provider="swarm" needs it: docker swarm init.'
    return Check(_AREA, "Swarm", State.ABSENT, state, fix)


def _images(client: Any) -> Iterator[Check]:
    from openenv_gym.providers.docker.contexts import environment_packages
    from openenv_gym.providers.docker.images import find_image

    for package in ["gymnasium", *environment_packages()]:
        status = find_image(client, package)
        name = f"image {status.reference}"
        if status.state == "current":
            yield Check(_AREA, name, State.OK, "fit to run")
        else:
            fix = f"python -m openenv_gym.providers.docker build {package}"
            yield Check(_AREA, name, State.ABSENT, status.state, fix)
