"""Recordings played again: to the bit, or the first difference by its name."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner, Result
from gymnasium import spaces
from gymnasium.wrappers import FrameStackObservation, RecordEpisodeStatistics
from gymnasium.wrappers.vector import RecordEpisodeStatistics as RecordVectorStatistics

from openenv_gym import recording
from openenv_gym.cli.main import main
from openenv_gym.errors import RecordingError

from .files import Row, changed


@pytest.fixture(autouse=True)
def _in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_PROVIDER", "thread")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def record(path: Path, env_id: str = "CartPole-v1", *, num_envs: int = 3, **how: Any) -> Path:
    envs = gymnasium.make_vec(f"openenv/{env_id}", num_envs=num_envs, **how)
    envs.action_space.seed(1)
    envs = recording.RecordRollout(envs, path, max_lost_s=3600.0)  # one chunk, however slow it is
    envs.reset(seed=7)
    for _ in range(60):
        envs.step(envs.action_space.sample())
    envs.close()
    return path


def record_one(path: Path, env: Any, steps: int = 60) -> Path:
    env = recording.RecordRollout(env, path)
    env.action_space.seed(2)
    env.reset(seed=7)
    for _ in range(steps):
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    env.close()
    return path


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Taxi-v4", "Blackjack-v1"])
def test_a_vector_is_the_same_as_a_vector_and_one_by_one(
    tmp_path: Path, env_id: str, mode: str
) -> None:
    with recording.open(record(tmp_path / "x", env_id, autoreset_mode=mode)) as file:
        assert file.episodes[0].sub_env == 0
        result = recording.replay(file)
        assert (result.exact, result.steps, result.episodes) == (True, 60, len(file.episodes))
        for sub_env in range(3):
            alone = recording.replay(file, sub_env=sub_env)
            assert alone.difference is None and alone.exact
            assert alone.episodes == sum(each.sub_env == sub_env for each in file)


def test_it_is_played_elsewhere(tmp_path: Path) -> None:
    path = record(tmp_path / "x")
    done = run("replay", path, "--provider", "process")
    assert done.exit_code == 0, done.output
    assert "bit-exact" in done.stdout and "60 the same, 1 resets" in done.stdout
    assert "info episode.t" in done.stdout


def _observation(row: Row) -> Row:
    if isinstance(row, recording.Step) and row.number == 40:
        observation = row.observation.copy()
        observation[1, 2] = np.nextafter(observation[1, 2], np.float32(9))
        return row._replace(observation=observation)
    return row


def _reward(row: Row) -> Row:
    if isinstance(row, recording.Step) and row.number == 9:
        return row._replace(reward=np.array([1.0, 1.0, 1.0 + 2**-52]))
    return row


def _flag(row: Row) -> Row:
    if isinstance(row, recording.Step) and row.number == 3:
        return row._replace(terminated=np.array([False, True, False]))
    return row


def _info(row: Row) -> Row:
    if isinstance(row, recording.Step) and row.number == 5:
        return row._replace(info={"lives": np.array([1, 2, 3])})
    return row


def _action(row: Row) -> Row:
    if isinstance(row, recording.Step) and row.number == 2:
        return row._replace(action=1 - row.action)
    return row


def _kind(row: Row) -> Row:
    if isinstance(row, recording.Step) and row.number == 4:
        return row._replace(reward=row.reward.astype(np.float32))
    return row


def _reset(row: Row) -> Row:
    if isinstance(row, recording.Reset):
        return row._replace(seed=8)
    return row


@pytest.mark.parametrize(
    ("change", "path", "step", "sub_env"),
    [
        (_observation, "observation[1, 2]", 40, 1),
        (_reward, "reward[2]", 9, 2),
        (_flag, "terminated[1]", 3, 1),
        (_info, "info['lives']", 5, None),
        (_action, "observation[0, 1]", 2, 0),
        (_kind, "reward.dtype", 4, None),
        (_reset, "observation[0, 0]", 0, 0),
    ],
)
def test_what_was_tampered_with_is_named(
    tmp_path: Path, change: Callable[[Row], Row], path: str, step: int, sub_env: int | None
) -> None:
    tampered = changed(record(tmp_path / "x"), tmp_path / "y", change)
    with recording.open(tampered) as file:
        difference = recording.replay(file).difference
        assert difference is not None
        assert (difference.path, difference.step, difference.sub_env) == (path, step, sub_env)
        assert difference.of_reset == (change is _reset)
        if sub_env is not None and not difference.of_reset:
            episode = file.episodes[difference.episode or 0]
            assert episode.sub_env == sub_env
            assert episode.first_step + (difference.episode_step or 0) == step
    done = run("replay", tampered, "--json")
    facts = json.loads(done.stdout)
    assert done.exit_code == 1 and not facts["exact"]
    assert facts["difference"]["path"] == path and path in facts["difference"]["text"]
    shown = run("replay", tampered)
    assert shown.exit_code == 1 and f"{path} was" in shown.stdout


def test_one_environment_with_wrappers(tmp_path: Path) -> None:
    env = gymnasium.make("openenv/CartPole-v1", max_episode_steps=9)
    env = FrameStackObservation(RecordEpisodeStatistics(env), 2)
    with recording.open(record_one(tmp_path / "x", env)) as file:
        assert {len(each) for each in file.episodes[:-1]} == {9}
        result = recording.replay(file)
        assert result.difference is None and result.steps == 60 and result.ignored == ("episode.t",)
        info = file.episodes[0].infos[-1]
        assert info["episode"]["l"] == 9 and "t" in info["episode"]


class Doubled(gymnasium.RewardWrapper):  # type: ignore[type-arg]
    def reward(self, reward: Any) -> Any:
        return reward * 2


def make_doubled() -> Any:
    return Doubled(gymnasium.make("CartPole-v1"))


def test_what_a_file_cannot_make_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = record_one(tmp_path / "x", make_doubled())
    done = run("replay", path)
    assert done.exit_code == 1 and "Doubled" in done.stderr and "--make" in done.stderr
    assert "Traceback" not in done.stderr
    done = run("replay", path, "--make", f"{__name__}:make_doubled")
    assert done.exit_code == 0, done.output
    done = run("replay", path, "--make", f"{__name__}:nothing")
    assert done.exit_code == 2 and "cannot be imported" in done.stderr
    with recording.open(path) as file:
        file.metadata["environment"]["id"] = "os:system-v0"
        with pytest.raises(RecordingError, match=r"'os:system-v0' is not registered"):
            recording.replay(file)


class Halved(gymnasium.vector.VectorWrapper):  # type: ignore[type-arg]
    def step(self, actions: Any) -> Any:
        observations, rewards, *rest = self.env.step(actions)
        return observations, rewards / 2, *rest


def make_halved() -> Any:
    return Halved(gymnasium.make_vec("openenv/CartPole-v1", num_envs=2))


def test_wrappers_of_a_vector_are_named(tmp_path: Path) -> None:
    envs = recording.RecordRollout(RecordVectorStatistics(make_halved()), tmp_path / "x")
    envs.reset(seed=1)
    for _ in range(20):
        envs.step(np.ones(2, np.int64))
    envs.close()
    for more in ((), ("--sub-env", "1")):
        done = run("replay", tmp_path / "x", *more)
        assert done.exit_code == 1 and "Halved" in done.stderr and "--make" in done.stderr
        assert "different" not in done.stdout
    with recording.open(tmp_path / "x") as file:
        wrappers = file.metadata["environment"]["wrappers"]
        assert [each["entry_point"].rpartition(":")[2] for each in wrappers] == [
            "Halved",
            "RecordEpisodeStatistics",
        ]
        made = RecordVectorStatistics(make_halved())
        assert recording.replay(file, env=made).exact
        made.close()


def test_a_wrapper_that_only_watches_is_none(tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    path, film = tmp_path / "x", tmp_path / "film.mp4"
    done = run("rollout", "CartPole-v1", "--steps", "9", "--out", path, "--video", film)
    assert done.exit_code == 0, done.output
    assert film.exists() and run("replay", path).exit_code == 0


def test_what_nobody_can_play_again(tmp_path: Path) -> None:
    env = recording.RecordRollout(
        gymnasium.make("CartPole-v1"), tmp_path / "x", seed_first_reset=False
    )
    env.reset()
    env.step(0)
    env.close()
    done = run("replay", tmp_path / "x")
    assert done.exit_code == 1 and "begins without a seed" in done.stderr
    envs = gymnasium.make_vec("openenv/CartPole-v1", num_envs=2)
    envs = recording.RecordRollout(envs, tmp_path / "list", seed_first_reset=False)
    envs.reset(seed=[3, None])
    envs.close()
    done = run("replay", tmp_path / "list")
    assert done.exit_code == 1 and "begins without a seed" in done.stderr
    assert run("replay", tmp_path / "list", "--sub-env", "0").exit_code == 0
    done = run("replay", record(tmp_path / "y"), "--sub-env", "3")
    assert done.exit_code == 1 and "no sub-environment 3 among 3" in done.stderr


def test_infos_that_are_left_out(tmp_path: Path) -> None:
    def add(row: Row) -> Row:
        if isinstance(row, recording.Step):
            times = {"ms": np.array([1, 2, 3]), "_ms": np.ones(3, np.bool_)}
            return row._replace(info={**row.info, **times, "deep": {"s": 1.0}})
        return row

    path = changed(record(tmp_path / "x"), tmp_path / "y", add)
    assert run("replay", path).exit_code == 1
    assert run("replay", path, "--ignore", "ms").exit_code == 1
    done = run("replay", path, "--ignore", "ms", "--ignore", "deep")
    assert done.exit_code == 0 and "info ms, info deep" in done.stdout


class Parts(gymnasium.Env[Any, Any]):
    """Observes some numbers, in a tuple in a dict in a tuple."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Tuple(
        [spaces.Discrete(9), spaces.Dict(pair=spaces.Tuple([spaces.Text(3), spaces.Discrete(9)]))]
    )

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        return self.observe(), 0.0, False, False, {"deep": {"text": "x", "number": 1}}

    def observe(self) -> Any:
        return int(self.np_random.integers(9)), {"pair": ("a", int(self.np_random.integers(9)))}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("observation", lambda at: at[0]),
        ("observation", lambda at: at[1]["pair"][0]),
        ("observation", lambda at: at[1]["pair"][1]),
        ("info", lambda at: at["deep"]["text"]),
        ("info", lambda at: at["deep"]["number"]),
    ],
    ids=["number", "text", "deep", "info-text", "info-number"],
)
@pytest.mark.parametrize("sub_env", [0, 2])
def test_the_sub_environment_is_named_wherever_the_difference_is(
    tmp_path: Path, name: str, change: Any, sub_env: int
) -> None:
    def tamper(row: Row) -> Row:
        if not isinstance(row, recording.Step) or row.number != 3:
            return row
        batch = copy.deepcopy(getattr(row, name))
        rows = change(batch)
        if isinstance(rows, tuple):  # texts
            texts = (*rows[:sub_env], "b", *rows[sub_env + 1 :])
            batch = batch[0], {"pair": (texts, batch[1]["pair"][1])}
        else:
            rows[sub_env] = "b" if rows.dtype == object else rows[sub_env] ^ 1
        return row._replace(**{name: batch})

    envs = recording.RecordRollout(gymnasium.vector.SyncVectorEnv([Parts] * 3), tmp_path / "x")
    envs.reset(seed=1)
    for _ in range(6):
        envs.step(np.zeros(3, np.int64))
    envs.close()
    with recording.open(changed(tmp_path / "x", tmp_path / "y", tamper)) as file:
        env = gymnasium.vector.SyncVectorEnv([Parts] * 3)
        difference = recording.replay(file, env=env).difference
        env.close()
        assert difference is not None and (difference.step, difference.sub_env) == (3, sub_env)


def test_a_server_that_was_started_anew_ends_the_comparison(tmp_path: Path) -> None:
    def restart(row: Row) -> Row:
        if isinstance(row, recording.Step) and row.number >= 30:
            row = row._replace(observation=row.observation * 0)
            if row.number == 30:
                mask = np.array([True, False, False])
                row = row._replace(info={"server_restarted": mask, "_server_restarted": mask})
        return row

    path = changed(record(tmp_path / "x"), tmp_path / "y", restart)
    done = run("replay", path)
    assert done.exit_code == 0 and "30 the same" in done.stdout
    assert "started anew in step 30" in done.stdout


def test_a_file_that_ends_early_is_played_as_far_as_it_goes(tmp_path: Path) -> None:
    path = record(tmp_path / "x")
    path.write_bytes(path.read_bytes()[:-30])
    done = run("replay", path)
    assert done.exit_code == 0 and "not completed" in done.stderr and "60 the same" in done.stdout
    data = bytearray(path.read_bytes())
    data[-1500] ^= 1  # in the only chunk of steps
    path.write_bytes(data)
    done = run("replay", path)
    assert done.exit_code == 1 and "damaged in chunk 1" in done.stderr


def test_the_command_records(tmp_path: Path) -> None:
    path = tmp_path / "x"
    arguments = ("rollout", "CartPole-v1", "--num-envs", "2", "--steps", "40", "--out", path)
    done = run(*arguments, "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["out"] == str(path)
    assert run("replay", path).exit_code == 0
    again = run(*arguments)
    assert again.exit_code == 1 and "exists already" in again.stderr
    assert run(*arguments, "--overwrite").exit_code == 0
    assert "--out" in run("rollout", "CartPole-v1", "--overwrite").stderr
    with recording.open(path) as file:
        assert file.steps == 40 and file.metadata["user"] == {"policy": "random"}
