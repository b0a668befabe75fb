"""`gymnasium.make_vec` with our ids."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import openenv_gym
from openenv_gym import RemoteVectorEnv, errors
from openenv_gym.providers import ServerTarget, get_provider
from openenv_gym.providers.thread import ThreadProvider
from openenv_gym.registration import lookup
from openenv_gym.registration.make_vector import make_vector_env


class Recording:
    """The thread provider, and what it was asked for."""

    name = "recording"
    isolates = True

    def __init__(self) -> None:
        self.targets: list[ServerTarget] = []
        self.servers: list[Any] = []

    def start(self, target: ServerTarget) -> Any:
        self.targets.append(target)
        self.servers.append(ThreadProvider().start(target))
        return self.servers[-1]

    def __deepcopy__(self, memo: Any) -> Recording:
        return self  # `make_vec` copies the arguments that it was given


def make(name: str = "openenv/CartPole-v1", **kwargs: Any) -> RemoteVectorEnv:
    kwargs.setdefault("provider", "thread")
    env = gymnasium.make_vec(name, **kwargs)
    assert isinstance(env.unwrapped, RemoteVectorEnv)
    return env.unwrapped


def test_every_id_has_a_vector_entry_point() -> None:
    spec = gymnasium.spec("openenv/CartPole-v1")
    assert spec.vector_entry_point == "openenv_gym.registration.vector_creators:CartPole-v1"
    for each in gymnasium.registry.values():
        if each.namespace == "openenv":
            assert each.vector_entry_point is not None


def test_defaults() -> None:
    provider = Recording()
    # Of an environment of which nobody knows how long a step takes.
    env = gymnasium.make_vec(
        "openenv/Gymnasium-v0", env_id="CartPole-v1", num_envs=3, provider=provider
    )
    cores = min(os.cpu_count() or 1, 3)
    assert len(provider.targets) == cores
    assert {target.num_servers for target in provider.targets} == {cores}
    assert sum(target.num_envs for target in provider.targets) == 3
    assert repr(env) == "RemoteVectorEnv(openenv/Gymnasium-v0, num_envs=3)"
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    env.close()
    assert all(server.why_lost() is not None for server in provider.servers)
    assert make().num_envs == 1


@pytest.mark.parametrize(("num_envs", "expected"), [(1, 1), (64, 1), (150, 2)])
def test_no_more_servers_than_pay(num_envs: int, expected: int) -> None:
    provider = Recording()
    env = make(num_envs=num_envs, provider=provider)
    assert len(provider.targets) == min(expected, os.cpu_count() or 1)
    env.close()


def test_never_more_servers_than_sub_environments() -> None:
    provider = Recording()
    env = make(num_envs=2, num_servers=5, provider=provider)
    assert len(provider.targets) == 2
    env.close()


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("Atari-v0", {"preprocess": True}, 1),
        ("Atari-v0", {}, os.cpu_count() or 1),
        ("CartPole-v1", {"engine": "native"}, 1),
    ],
)
def test_one_server_is_enough_where_its_engine_has_threads(
    name: str, options: dict[str, Any], expected: int
) -> None:
    for more, servers in (({}, min(expected, 4)), ({"num_servers": 2}, 2)):
        provider = Recording()
        env = gymnasium.make_vec(
            f"openenv/{name}", num_envs=4, provider=provider, **options, **more
        )
        assert len(provider.targets) == servers
        env.close()


UNTRUSTED = dataclasses.replace(lookup("openenv/CartPole-v1"), untrusted=True)


class Pretending(Recording):
    """Takes sessions that are to be kept apart, and does not keep them apart."""

    separates_sessions = True

    def start(self, target: ServerTarget) -> Any:
        super().start(dataclasses.replace(target, isolate_sessions=False))
        self.targets[-1] = target
        return self.servers[-1]


def test_untrusted_code_gets_a_server_for_each() -> None:
    provider = Recording()
    env = make_vector_env(UNTRUSTED, num_envs=4, provider=provider)
    assert [target.isolate_sessions for target in provider.targets] == [False] * 4
    assert len(env._fleet.members) == 4
    env.close()
    with pytest.raises(errors.IsolationError):
        make_vector_env(UNTRUSTED, num_envs=2, provider="thread")
    with pytest.raises(errors.IsolationError, match="'recording' does not separate sessions"):
        make_vector_env(UNTRUSTED, num_envs=2, num_servers=1, provider=Recording())


def test_untrusted_code_that_shares_servers_has_a_session_for_each() -> None:
    provider = Pretending()
    env = make_vector_env(UNTRUSTED, num_envs=5, num_servers=2, provider=provider)
    assert [target.num_envs for target in provider.targets] == [3, 2]
    assert all(target.isolate_sessions and target.untrusted for target in provider.targets)
    assert [member.num_envs for member in env._fleet.members] == [1] * 5
    assert sorted(len(server.server.sessions) for server in provider.servers) == [2, 3]
    theirs = gymnasium.make_vec("CartPole-v1", num_envs=5, vectorization_mode="sync")
    assert np.array_equal(env.reset(seed=3)[0], theirs.reset(seed=3)[0])
    theirs.close()
    # A server stays as long as somebody has a session there.
    *first, second = env._fleet.members[:3]
    for member in first:
        member.discard()
        member.discard()
    assert provider.servers[0].why_lost() is None
    second.discard()
    assert provider.servers[0].why_lost() is not None
    assert provider.servers[1].why_lost() is None
    env.close()
    assert provider.servers[1].why_lost() is not None


def test_untrusted_code_shares_as_before_where_the_user_says_so() -> None:
    provider = Recording()
    env = make_vector_env(
        UNTRUSTED, num_envs=4, num_servers=1, provider=provider, allow_unisolated=True
    )
    assert [member.num_envs for member in env._fleet.members] == [4]
    assert not provider.targets[0].isolate_sessions
    env.close()


def test_members_of_a_lost_server_move_to_one_other() -> None:
    provider = Pretending()
    env = make_vector_env(
        UNTRUSTED, num_envs=4, num_servers=2, provider=provider, on_failure="restart"
    )
    env.reset(seed=1)
    provider.servers[0].stop()
    truncations = env.step(np.zeros(4, int))[3]
    assert truncations.tolist() == [True, True, False, False]
    assert len(provider.servers) == 3
    assert len(provider.servers[2].server.sessions) == 2
    env.close()
    assert all(server.why_lost() is not None for server in provider.servers)


def test_nothing_stays_where_a_shared_server_opens_no_session() -> None:
    provider = Pretending()
    with pytest.raises(errors.EnvironmentFailedError, match="unexpected keyword argument 'nope'"):
        make_vector_env(UNTRUSTED, num_envs=4, num_servers=2, provider=provider, nope=1)
    assert len(provider.servers) == 2
    assert all(server.why_lost() is not None for server in provider.servers)


@pytest.mark.parametrize("mode", [*AutoresetMode, *(mode.value for mode in AutoresetMode)])
def test_a_spec_makes_an_equal_one(mode: Any) -> None:
    env = make(num_envs=3, num_servers=2, autoreset_mode=mode, copy=False)
    assert env.spec is not None
    text = env.spec.to_json()
    assert json.loads(text)["kwargs"]["vectorization_mode"] == "vector_entry_point"
    for spec in (env.spec, EnvSpec.from_json(text)):
        twin = gymnasium.make_vec(spec)
        assert twin.spec == env.spec
        assert twin.num_envs == 3
        assert twin.metadata == env.metadata
        assert twin.unwrapped.copy is False
        twin.close()
    env.close()


def lengths(env: Any, steps: int) -> list[int]:
    """Return after how many steps the first sub-environment's episodes were truncated."""
    env.reset(seed=0)
    return [number for number in range(steps) if env.step(np.zeros(env.num_envs, int))[3][0]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"max_episode_steps": 3}, [2, 6]),
        ({"max_episode_steps": 1}, [0, 2, 4, 6]),
        ({"max_episode_steps": np.int64(3)}, [2, 6]),
    ],
)
def test_the_time_limit_is_applied_once(arguments: dict[str, Any], expected: list[int]) -> None:
    env = make(num_envs=2, **arguments)
    assert lengths(env, 8) == expected
    assert env.spec is not None and env.spec.kwargs["max_episode_steps"] == expected[0] + 1
    env.close()


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("openenv/MountainCar-v0", {}, [199]),
        ("openenv/MountainCar-v0", {"max_episode_steps": -1}, []),
        ("openenv/MountainCar-v0", {"max_episode_steps": None}, []),
        ("openenv/MountainCar-v0", {"max_episode_steps": 150}, [149]),
        ("openenv/Gymnasium-v0", {"env_id": "MountainCar-v0"}, [199]),
        ("openenv/Gymnasium-v0", {"env_id": "MountainCar-v0", "hosted_time_limit": False}, []),
        ("openenv/Gymnasium-v0", {"env_id": "MountainCar-v0", "max_episode_steps": 9}, [8, 18]),
    ],
)
def test_where_the_time_limit_comes_from(
    name: str, arguments: dict[str, Any], expected: list[int]
) -> None:
    env = make(name, num_envs=1, **arguments)
    assert lengths(env, 220 if expected != [8, 18] else 20) == expected
    env.close()


def test_gymnasiums_own_modes() -> None:
    for mode, kind in (("sync", SyncVectorEnv), ("async", AsyncVectorEnv)):
        env = gymnasium.make_vec(
            "openenv/CartPole-v1", num_envs=2, vectorization_mode=mode, provider="process"
        )
        assert type(env) is kind
        env.reset(seed=0)
        assert env.step(np.zeros(2, int))[1].tolist() == [1, 1]
        env.close()
    env = gymnasium.make_vec(
        "openenv/CartPole-v1",
        num_envs=2,
        vectorization_mode="sync",
        provider="thread",
        wrappers=[gymnasium.wrappers.TimeAwareObservation],
    )
    assert env.observation_space.shape == (2, 5)
    env.close()


def test_options_and_rendering() -> None:
    # In processes: pygame does not draw in several threads at once.
    env = gymnasium.make_vec(
        "openenv/CartPole-v1",
        num_envs=2,
        provider="process",
        render_mode="rgb_array",
        sutton_barto_reward=True,
    )
    env.reset(seed=0)
    frames = env.render()
    assert frames is not None and frames[1].shape[-1] == 3
    assert env.step([0, 0])[1].tolist() == [0, 0]
    env.close()
    with pytest.raises(errors.InvalidOptionError, match="HumanRendering"):
        make(render_mode="human")
    with pytest.raises(TypeError, match="nonsense"):
        make(nonsense=1)
    make(num_envs=1, disable_env_checker=True).close()


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"num_envs": 0}, "num_envs"),
        ({"num_envs": 2.0}, "num_envs"),
        ({"num_servers": 0}, "num_servers"),
        ({"max_episode_steps": 0}, "max_episode_steps"),
        ({"max_episode_steps": 2.5}, "max_episode_steps"),
        ({"engine": "fast"}, "engine"),
        ({"autoreset_mode": "Never"}, "autoreset_mode"),
        ({"on_failure": "hope"}, "on_failure"),
        ({"base_url": "http://x:1"}, "base_url"),
        ({"base_url": [], "provider": None}, "base_url"),
        ({"base_url": (), "provider": None, "num_servers": 2}, "base_url"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.InvalidOptionError) as caught:
        make(**arguments)
    assert caught.value.field == field


def test_the_native_engine() -> None:
    env = make(num_envs=4, num_servers=1, engine="native")
    assert env._fleet.members[0].connection.environment["vector"]["engine"] == "native"
    env.reset(seed=0)
    env.step(env.action_space.sample())
    env.close()


def test_a_shared_server() -> None:
    with openenv_gym.start_server("openenv/CartPole-v1", provider="thread") as server:
        env = make(num_envs=4, num_servers=2, provider=None, server=server)
        assert [member.num_envs for member in env._fleet.members] == [2, 2]
        env.reset(seed=0)
        assert env.step([0] * 4)[1].tolist() == [1] * 4
        env.close()
        other = gymnasium.make("openenv/CartPole-v1", server=server)
        other.reset()
        other.close()


@pytest.mark.parametrize("provider", ["thread", "process"])
def test_a_shared_server_is_not_shared_with_a_forked_child(provider: str) -> None:
    with openenv_gym.start_server("openenv/CartPole-v1", provider=provider) as server:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
            child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(60)
                gymnasium.make("openenv/CartPole-v1", server=server)
            except errors.ForkedSessionError as error:
                code = 0 if "base_url=" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        env = gymnasium.make("openenv/CartPole-v1", server=server)
        env.reset()
        env.close()


def test_servers_that_run_already(tmp_path: Any) -> None:
    from openenv_gym.server import Server, load_app

    servers, urls = [], []
    for number in range(2):
        server = Server(load_app("gymnasium"))
        server.listen_unix(str(tmp_path / f"s{number}"))
        server.start()
        servers.append(server)
        urls.append(f"unix://{tmp_path}/s{number}")
    for where, sessions in ((urls[0], [4]), (urls, [2, 2])):
        env = make(num_envs=4, provider=None, base_url=where)
        assert [member.num_envs for member in env._fleet.members] == sessions
        assert len(servers[0].sessions) == 1
        env.reset(seed=0)
        env.step([0] * 4)
        assert env.spec is not None and env.spec.to_json()
        env.close()
    env = make(num_envs=4, num_servers=4, provider=None, base_url=urls)
    assert [len(server.sessions) for server in servers] == [2, 2]
    env.close()
    for server in servers:
        server.stop()


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("num_servers", [1, 2])
@pytest.mark.parametrize(
    "batched",
    [gymnasium.spaces.Box(-9, 9, (2, 4), np.float64), gymnasium.spaces.Box(-9, 9, (8,))],
)
def test_a_batched_space_of_the_callers_own_changes_no_observation(
    batched: gymnasium.Space[Any], num_servers: int, copy: bool
) -> None:
    single = gymnasium.make("CartPole-v1").observation_space
    env = make(num_envs=2, num_servers=num_servers, observation_mode=(batched, single), copy=copy)
    theirs = make(num_envs=2, num_servers=1)
    assert env.observation_space is batched
    expected = theirs.reset(seed=1)[0]
    observations = env.reset(seed=1)[0]
    assert observations.dtype == expected.dtype and np.array_equal(observations, expected)
    env.close()
    theirs.close()


def test_what_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Recording()
    with pytest.raises(errors.OpenEnvGymError):
        make("openenv/Gymnasium-v0", num_envs=4, num_servers=3, env_id="No-v0", provider=provider)
    assert len(provider.servers) >= 1
    assert all(server.why_lost() is not None for server in provider.servers)


def test_a_restart_starts_a_server() -> None:
    provider = get_provider("process")
    env = make(num_envs=2, num_servers=2, provider=provider.name, on_failure="restart")
    env.reset(seed=0)
    first: Callable[..., Any] = env._fleet.members[0]._release
    first()
    _, _, _, truncations, infos = env.step([0, 0])
    assert truncations.tolist() == [True, False]
    assert infos["server_restarted"].tolist() == [1, 0]
    env.close()
