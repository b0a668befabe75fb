"""Worker processes in a container: as hardened as a server without them."""

from __future__ import annotations

from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.providers import DockerProvider, ServerTarget
from openenv_gym.providers.docker import DockerServer
from tests.providers.docker.conftest import Attack


pytestmark = pytest.mark.container

_WHO = """
import os
with open("/proc/self/status") as file:
    status = dict(line.split(":", 1) for line in file)
result = os.getpid(), os.getuid(), int(status["CapBnd"], 16)
"""


@pytest.mark.parametrize("reach", ["socket", "exec"])
def test_workers_in_a_container(attacker_image: str, reach: str) -> None:
    provider = DockerProvider(image=attacker_image, build="never", workers=2, reach=reach)
    server = provider.start(ServerTarget("attacker:app", num_envs=2))
    assert isinstance(server, DockerServer)
    sessions = [Attack(server) for _ in range(4)]
    found = [session.run(_WHO) for session in sessions]
    assert len({pid for pid, _, _ in found}) == 2
    assert all(user >= 20_000 and rights == 0 for _, user, rights in found)
    with pytest.raises((errors.SessionLostError, errors.ConnectionLostError)):
        sessions[0].run("import os\nos._exit(3)")
    survivors = [
        session for session, who in zip(sessions, found, strict=True) if who[0] != found[0][0]
    ]
    assert len(survivors) == 2
    for session in survivors:
        session.connection._drop()
        assert session.run("result = 'alive'") == "alive"
    for session in sessions:
        session.connection.close()
    Attack.opened.clear()
    server.stop()


@pytest.mark.parametrize("workers", [0, "2", True])
def test_a_wrong_number_of_workers_is_told(workers: Any) -> None:
    with pytest.raises(errors.InvalidOptionError, match="workers=.*: expected an integer"):
        DockerProvider(workers=workers)
