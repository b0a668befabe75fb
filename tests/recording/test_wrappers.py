"""`RecordRollout`: what it does to an environment (nothing), and the episodes in its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit

import openenv_gym
from openenv_gym import recording
from openenv_gym.errors import ConfigurationError

from ..protocol.codec.packets import strict_equal
from ..support.worlds import ThingsEnv


IDS = {"remote": "openenv/CartPole-v1", "local": "CartPole-v1"}


def make(kind: str, **how: Any) -> Any:
    return gymnasium.make(IDS[kind], **({"provider": "thread"} if kind == "remote" else {}), **how)


def make_vec(kind: str, num_envs: int, mode: str) -> Any:
    how: dict[str, Any] = {
        "vectorization_mode": "sync",
        "vector_kwargs": {"autoreset_mode": AutoresetMode(mode)},
    }
    if kind == "remote":
        how = {"provider": "thread", "autoreset_mode": mode}
    return gymnasium.make_vec(IDS[kind], num_envs=num_envs, **how)


@pytest.mark.parametrize("kind", IDS)
def test_episodes_of_an_environment(tmp_path: Path, kind: str) -> None:
    env = recording.RecordRollout(make(kind), tmp_path / "x", metadata={"who": "me"})
    played: list[dict[str, list[Any]]] = []
    for seed in (3, None, None):
        observation, info = env.reset(seed=seed, options={"low": -0.02} if seed else None)
        episode: dict[str, list[Any]] = {
            "observations": [observation],
            "actions": [],
            "rewards": [],
            "infos": [],
        }
        over = False
        while not over:
            action = int(observation[2] > 0) if len(played) == 1 else 1
            observation, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            for name, value in (
                ("observations", observation),
                ("actions", action),
                ("rewards", reward),
                ("infos", info),
            ):
                episode[name].append(value)
        played.append(episode)
    env.reset()
    env.step(0)
    env.close()
    with recording.open(tmp_path / "x") as file:
        assert [len(each) for each in file] == [*(len(each["actions"]) for each in played), 1]
        for episode, found in zip(played, file.episodes, strict=False):
            assert np.array_equal(found.observations, episode["observations"])
            assert found.observations.dtype == np.float32
            assert found.actions.tolist() == episode["actions"]
            assert found.rewards.tolist() == episode["rewards"]
            assert found.infos == episode["infos"] and found.reset_info == {}
            assert found.terminated and found.complete and not found.truncated
        first, second, *_, last = file.episodes
        assert (first.seed, first.options) == (3, {"low": -0.02})
        assert (second.seed, second.options) == (None, None)
        assert not last.complete and not last.terminated
        assert file.episodes[-1].number == 3 and len(file.episodes[1:3]) == 2
        with pytest.raises(IndexError, match="no episode 4 in 4"):
            file.episodes[4]
        assert file.metadata["environment"]["id"] == IDS[kind]
        assert file.metadata["user"] == {"who": "me"} and file.num_envs == 0
        assert file.observation_space == env.observation_space
        assert file.metadata["versions"]["openenv_gym"] == openenv_gym.__version__


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_episodes_of_a_vector_are_those_of_its_environments(
    tmp_path: Path, kind: str, mode: str
) -> None:
    envs = recording.RecordRollout(make_vec(kind, 3, mode), tmp_path / "x")
    assert isinstance(envs, recording.RecordVectorRollout)
    source = np.random.default_rng(5)
    envs.reset(seed=20)
    actions = []
    for _ in range(120):
        actions.append(source.integers(2, size=3))
        *_, terminated, truncated, _ = envs.step(actions[-1])
        over = terminated | truncated
        if mode == "Disabled" and over.any():
            envs.reset(options={"reset_mask": over})
    envs.close()
    with recording.open(tmp_path / "x") as file:
        assert (file.num_envs, file.autoreset_mode) == (3, mode)
        assert len({each.sub_env for each in file}) == 3 and len(file.episodes) > 9
        for sub_env in range(3):
            episodes = [each for each in file if each.sub_env == sub_env]
            assert episodes[0].seed == 20 + sub_env and episodes[1].seed is None
            alone = gymnasium.make("CartPole-v1")
            for number, episode in enumerate(episodes):
                observation, _ = alone.reset(seed=20 + sub_env if number == 0 else None)
                expected = [observation]
                for at, action in enumerate(episode.actions):
                    assert action == actions[episode.first_step + at][sub_env]
                    observation, reward, terminated, _, info = alone.step(action)
                    expected.append(observation)
                    assert reward == episode.rewards[at] and info == {} == episode.infos[at]
                assert np.array_equal(episode.observations, expected)
                assert terminated == episode.terminated == episode.complete
                found = file.episodes.at(episode.first_step, sub_env)
                assert found is not None and found.number == episode.number


def test_infos_of_a_vector_and_what_is_left_out(tmp_path: Path) -> None:
    envs = gymnasium.vector.SyncVectorEnv(
        [lambda: RecordEpisodeStatistics(TimeLimit(make("local"), 5))] * 2,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    envs = recording.RecordRollout(envs, tmp_path / "x", leave_out="_none")
    envs.reset(seed=1)
    for _ in range(10):
        envs.step(np.zeros(2, np.int64))
    envs.close()
    with recording.open(tmp_path / "x") as file:
        episode = file.episodes[0]
        assert (len(episode), episode.truncated, episode.terminated) == (5, True, False)
        assert episode.infos[:4] == [{}] * 4 and episode.infos[4]["episode"]["r"] == 5.0
        assert file.episodes[2].reset_info == {}


class DelayedThings(ThingsEnv):
    """Counts, and tells in its infos what a recording leaves out."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(0)
        return observation, reward, terminated, truncated, {**info, "engine": object()}


def test_infos_that_cannot_be_kept_are_left_out(tmp_path: Path) -> None:
    env = recording.RecordRollout(DelayedThings(), tmp_path / "x", leave_out=("engine",))
    env.reset(seed=1)
    assert "engine" in env.step(0)[4]
    env.close()
    with recording.open(tmp_path / "x") as file:
        assert "engine" not in file.step(0).info


def test_the_first_reset_gets_a_seed_and_no_other(tmp_path: Path) -> None:
    seeds = set()
    for number in range(3):
        env = recording.RecordRollout(make("local"), tmp_path / f"{number}")
        first, _ = env.reset()
        second, _ = env.reset()
        env.close()
        with recording.open(tmp_path / f"{number}") as file:
            seed = file.reset(0).seed
            assert file.reset(1).seed is None
        seeds.add(seed)
        same = make("local")
        assert np.array_equal(same.reset(seed=seed)[0], first)
        assert np.array_equal(same.reset()[0], second)
    assert len(seeds) == 3
    env = make("local")
    env.reset(seed=4)
    expected = env.reset()[0]
    env.reset(seed=4)
    kept = recording.RecordRollout(env, tmp_path / "kept", seed_first_reset=False)
    assert np.array_equal(kept.reset()[0], expected)
    kept.close()


class Stubborn(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Does not reset the first time."""

    refusals = 1

    def reset(self, **how: Any) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise ConnectionError("come back later")
        return super().reset(**how)


def test_a_first_reset_that_fails_takes_no_seed_with_it(tmp_path: Path) -> None:
    env = recording.RecordRollout(Stubborn(make("local")), tmp_path / "x")
    with pytest.raises(ConnectionError):
        env.reset()
    env.reset()
    env.step(0)
    env.close()
    with recording.open(tmp_path / "x") as file:
        assert file.resets == 1 and file.reset(0).seed is not None


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize(
    "seed", [[None, None], (None, None), np.array([None, None]), [3, None]], ids=str
)
def test_a_list_that_lacks_seeds_is_unseeded(tmp_path: Path, kind: str, seed: Any) -> None:
    envs = recording.RecordRollout(make_vec(kind, 2, "NextStep"), tmp_path / "x")
    envs.reset(seed=seed)
    envs.reset(seed=[None, None])
    for _ in range(5):
        envs.step(np.zeros(2, np.int64))
    envs.close()
    with recording.open(tmp_path / "x") as file:
        first = file.reset(0).seed
        assert first[0] == 3 and first[1] is not None if 3 in seed else type(first) is int
        assert list(file.reset(1).seed) == [None, None]
        assert recording.replay(file, provider="thread" if kind == "remote" else None).exact


@pytest.mark.parametrize(
    "call", ["step_async", "step_wait", "reset_async", "reset_wait", "send", "recv"]
)
def test_what_would_pass_the_recording_by_is_refused(tmp_path: Path, call: str) -> None:
    envs = recording.RecordRollout(make_vec("local", 1, "NextStep"), tmp_path / "x")
    with pytest.raises(ConfigurationError, match=rf"{call}\(\) would pass it by"):
        getattr(envs, call)(*[None] * (call in ("step_async", "send")))
    envs.close()


def test_a_wrapper_like_others(tmp_path: Path) -> None:
    env = recording.RecordRollout(make("remote"), tmp_path / "x")
    assert env.spec is not None and env.spec.additional_wrappers[-1].kwargs is not None
    env.unwrapped.gravity = 5.0
    assert env.unwrapped.gravity == 5.0 and env.action_space.n == 2
    observation, _ = env.reset(seed=1)
    kept = observation.copy()
    observation[:] = 0
    env.close()
    with recording.open(tmp_path / "x") as file:
        assert strict_equal(file.reset(0).observation, kept)


def test_frames(tmp_path: Path) -> None:
    env = recording.RecordRollout(
        make("remote", render_mode="rgb_array"), tmp_path / "x", frames=True
    )
    env.reset(seed=1)
    frames = [env.render()]
    for _ in range(3):
        env.step(1)
        frames.append(env.render())
    env.close()
    with recording.open(tmp_path / "x") as file:
        assert file.has_frames and strict_equal(file.episodes[0].frames, frames)
