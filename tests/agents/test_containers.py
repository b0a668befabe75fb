"""Agents whose code nobody vouches for: a container for each of them."""

from __future__ import annotations

import os
from typing import Any

import pytest

from openenv_gym.trl import environment
from tests.support.waiting import eventually


pytestmark = pytest.mark.container


def test_each_agent_runs_its_code_in_a_container_of_its_own(docker: Any) -> None:
    def containers() -> set[str]:
        # Those of others may be removed while they are listed.
        found = docker.containers.list(filters={"label": "openenv.owner"}, ignore_removed=True)
        mine = f"{os.getpid()}:"
        return {each.id for each in found if each.labels["openenv.owner"].startswith(mine)}

    before = containers()
    made = environment("openenv/Coding-v0", provider="docker", tools=["run_python"])
    try:
        members = [made() for _ in range(2)]
        assert [env.reset(seed=3) for env in members] == [members[0].reset(seed=3)] * 2
        assert len(containers() - before) == 2
        members[0].run_python(code="x = 20")
        assert '"result": "21"' in members[0].run_python(code="x + 1")
        assert "NameError" in members[1].run_python(code="x")
    finally:
        made.close()
    assert eventually(lambda: containers() <= before)
