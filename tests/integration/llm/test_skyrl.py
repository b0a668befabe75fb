"""SkyRL's gym: environments made and played as its generator does it. Its trainer is not run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.agents.worlds import Line
from tests.support.serving import serving


pytestmark = [
    pytest.mark.llm,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("default"),  # those of other people's libraries
]


@pytest.fixture(scope="module")
def name() -> Iterator[str]:
    import openenv_gym.skyrl

    with serving(Line) as url:
        openenv_gym.skyrl.register(
            "line", "openenv/Remote-v0", base_url=url, unfinished_reward=-5.0
        )
        yield "line"


def make(name: str, **row: Any) -> Any:
    import skyrl_gym

    return skyrl_gym.make(name, env_config={}, extras=row)


def test_an_episode(name: str) -> None:
    from skyrl_gym.envs.base_text_env import BaseTextEnv

    env = make(name, seed=3)
    assert isinstance(env, BaseTextEnv)
    prompt = [{"role": "system", "content": "Be quick."}, {"role": "user", "content": "Go. "}]
    messages, _ = env.init(prompt)
    assert messages[1]["content"].startswith("Go. Walk to 0.\nat: ")
    assert prompt[1]["content"] == "Go. "
    came = env.step("2")
    assert (came["reward"], came["done"]) == (-1.0, False)
    assert came["observations"][0]["role"] == "user"
    refused = env.step("fly")
    assert refused["metadata"]["refused"]
    assert "no action" in refused["observations"][0]["content"]
    env.step("0")
    came = env.step("0")
    assert (came["observations"], came["done"]) == ([], True)
    assert env.get_metrics() == {"turns": 4, "refused": 1}
    env.close()
    env.close()


def test_groups_begin_alike_and_sessions_are_used_again(name: str) -> None:
    members = [make(name, seed=8) for _ in range(4)]
    assert len({str(env.init([])) for env in members}) == 1
    pool = members[0]._pool
    for env in members:
        env.close()
    before = len(pool._sessions)
    again = make(name, seed=9)
    again.init([])
    assert len(pool._sessions) == before
    again.close()


def test_an_episode_that_is_cut_off_pays_for_it(name: str) -> None:
    env = make(name, seed=3, max_turns=2)
    env.init([])
    assert env.step("0")["reward"] == -1.0
    came = env.step("0")
    assert (came["reward"], came["done"]) == (-6.0, True)
    env.close()
