"""Removing what others have left, while they may be removing it themselves: no daemon is needed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.providers import DockerProvider
from openenv_gym.providers.docker import provider
from openenv_gym.providers.docker.daemon import MOUNT_POINT, OWNER_LABEL
from openenv_gym.providers.guardian import make_mount
from openenv_gym.providers.inventory import Item


ITEM = Item("docker", "container", "abc")


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    return Path(make_mount(str(tmp_path / "openenv-0")))


@pytest.fixture
def refuse(mount: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have the daemon list a container, and refuse to remove it with a status."""
    docker_errors = pytest.importorskip("docker.errors")

    def refuse_with(status: int) -> None:
        def remove_container(*_: Any, **__: Any) -> None:
            response = SimpleNamespace(status_code=status)
            raise docker_errors.APIError("no", response, explanation="not now")

        mounts = [{"Destination": MOUNT_POINT, "Source": str(mount)}]
        container = {"Id": "abcdef", "Labels": {OWNER_LABEL: "1:1:here"}, "Mounts": mounts}
        api = SimpleNamespace(containers=lambda **_: [container], remove_container=remove_container)
        client = SimpleNamespace(api=api)
        monkeypatch.setattr(provider, "connect_daemon", lambda **_: client)

    return refuse_with


@pytest.mark.parametrize("status", [404, 409])
def test_a_container_that_somebody_else_removes_is_removed(
    refuse: Any, mount: Path, status: int
) -> None:
    refuse(status)
    DockerProvider().remove(ITEM)
    assert not mount.parent.exists()


def test_a_daemon_that_refuses_is_told(refuse: Any, mount: Path) -> None:
    refuse(500)
    with pytest.raises(errors.ProviderError, match="remove the container abc: not now"):
        DockerProvider().remove(ITEM)
    assert mount.exists()
