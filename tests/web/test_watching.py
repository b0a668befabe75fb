"""A session that somebody watches does what it does without, and tells what it does."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from openenv_gym import errors
from openenv_gym.client import Connection, UnixAddress, parse_base_url
from openenv_gym.client.watch import Watch
from openenv_gym.openenv import GenericEnvClient
from openenv_gym.server import Mode, Server, create_app, load_app
from openenv_gym.server.listening import Exposure
from tests.support.serving import serving
from tests.support.waiting import eventually
from tests.support.worlds import CountingEnv


STEPS = 120


def sessions(url: str, token: str | None = None) -> list[dict[str, Any]]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"{url}/sessions", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: list[dict[str, Any]] = json.load(answer)["sessions"]
    return found


@contextlib.contextmanager
def watching(url: str, session: str | None = None, **options: Any) -> Iterator[Watch]:
    name = session or sessions(url)[0]["session"]
    watch = Watch(parse_base_url(url), name, **options)
    try:
        yield watch
    finally:
        watch.close()


def play(env: gymnasium.Env[Any, Any], steps: int = STEPS) -> str:
    """Return a digest of a trajectory: observations, rewards, ends, infos and draws."""
    digest = hashlib.sha256()
    observation, info = env.reset(seed=5)
    env.action_space.seed(5)
    for _ in range(steps):
        digest.update(np.asarray(observation).tobytes() + repr(sorted(info)).encode())
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        digest.update(np.float64(reward).tobytes() + bytes([terminated, truncated]))
        if terminated or truncated:
            observation, info = env.reset()
    digest.update(env.unwrapped.np_random.bytes(16))
    return digest.hexdigest()


@pytest.mark.parametrize("render_mode", [None, "rgb_array"])
def test_a_trajectory_is_the_same_with_and_without_a_watcher(render_mode: str | None) -> None:
    def make() -> Any:
        return gymnasium.make(
            "openenv/Remote-v0",
            base_url=url,
            env_id="Acrobot-v1",
            render_mode=render_mode,
        )

    with serving(load_app("gymnasium")) as url:
        env = make()
        alone = play(env)
        env.close()
        env = make()
        seen: list[dict[str, Any]] = []
        with watching(url) as watch:
            over = threading.Event()

            def follow() -> None:
                while (each := watch.next(0.2)) is not None or not over.is_set():
                    if each is not None:
                        seen.append(each)

            thread = threading.Thread(target=follow)
            thread.start()
            assert play(env) == alone
            over.set()
            thread.join()
        env.close()
    assert seen[0]["op"] == "reset"
    assert sum(1 + each["skipped"] for each in seen) <= STEPS + 2
    assert all((each["frame"] is None) == (render_mode is None) for each in seen)
    if render_mode is not None:
        assert seen[0]["frame"].shape == (500, 500, 3)


def test_a_watcher_sees_what_the_trainer_gets() -> None:
    with serving(load_app("gymnasium")) as url:
        env = gymnasium.make("openenv/Remote-v0", base_url=url, env_id="CartPole-v1")
        with watching(url) as watch:
            assert watch.watched["environment"] == "CartPoleEnv"
            observation, _ = env.reset(seed=1)
            first = watch.next(60)
            assert first is not None and (first["observation"] == observation).all()
            observation, reward, *_ = env.step(1)
            second = watch.next(0.5)
            if second is None:  # it came too soon after the first, which is told later on
                observation, reward, *_ = env.step(1)
                second = watch.next(60)
            assert second is not None and (second["observation"] == observation).all()
            assert (second["action"], second["reward"], second["op"]) == (1, reward, "step")
            assert second["return"] == second["step"]
        env.close()


def test_one_of_several_environments_is_watched() -> None:
    with serving(load_app("gymnasium")) as url:
        envs = gymnasium.make_vec(
            "openenv/Remote-v0", num_envs=3, base_url=url, env_id="CartPole-v1"
        )
        assert sessions(url)[0]["num_envs"] == 3
        with watching(url, index=2) as watch:
            observations, _ = envs.reset(seed=1)
            seen = watch.next(60)
            assert seen is not None and (seen["observation"] == observations[2]).all()
        with watching(url, index=1) as watch:
            observations, rewards, *_ = envs.step(np.array([0, 1, 0]))
            seen = watch.next(60)
            assert seen is not None and (seen["observation"] == observations[1]).all()
            assert (seen["action"], seen["reward"]) == (1, rewards[1])
        with (
            pytest.raises(errors.InvalidOptionError, match="3 sub-environments"),
            watching(url, index=3),
        ):
            pass
        envs.close()


def test_who_speaks_openenvs_json_is_watched_too() -> None:
    with serving(load_app("echo_env")) as url, GenericEnvClient(url).sync() as client:
        client.reset()
        with watching(url) as watch:
            client.step({"message": "hello"})
            seen = watch.next(60)
        assert seen is not None
        assert seen["action"] == {"message": "hello"}
        assert seen["observation"]["echoed_message"] == "hello"


def test_a_watcher_is_told_the_end_and_can_do_nothing() -> None:
    with serving(CountingEnv) as url:
        env = gymnasium.make("openenv/Remote-v0", base_url=url)
        with watching(url) as watch:
            env.close()
            with pytest.raises(errors.SessionClosedError, match="has ended"):
                while True:
                    watch.next(60)
        with pytest.raises(errors.SessionLostError), watching(url, "0123456789abcdef"):
            pass


def test_a_session_without_watchers_has_none_to_tell() -> None:
    with serving(CountingEnv) as url:
        env = gymnasium.make("openenv/Remote-v0", base_url=url)
        with watching(url) as watch:
            assert sessions(url)[0]["watchers"] == 1
            env.reset()
            assert watch.next(60) is not None
        env.reset()
        assert eventually(lambda: sessions(url)[0]["watchers"] == 0)
        env.close()


def test_whoever_was_told_that_he_watches_is_counted(tmp_path: Path) -> None:
    server = Server(create_app(CountingEnv))
    server.listen_unix(str(tmp_path / "s"))
    server.start()
    connection = Connection(UnixAddress(str(tmp_path / "s")), {})
    (session,) = server.sessions.each()
    told, go = threading.Event(), threading.Event()

    class Slow:
        """A watcher between what he is told and when he watches."""

        def __init__(self, host: Any) -> None:
            told.set()
            assert go.wait(60)

        def end(self) -> None:
            pass

    with ThreadPoolExecutor(2) as pool:
        watched = pool.submit(session.watch, Slow)
        assert told.wait(60)
        described = pool.submit(session.describe)
        with contextlib.suppress(TimeoutError):
            described.result(0.2)  # it would be wrong
        go.set()
        assert watched.result(60) is not None
        assert described.result(60)["watchers"] == 1
    connection.close()
    server.stop()


# -- who may --------------------------------------------------------------------------------


def test_a_token_is_asked_for() -> None:
    with serving(CountingEnv, token="secret") as url:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            sessions(url)
        with pytest.raises(errors.UnauthorizedError), watching(url, "x"):
            pass
        connection = Connection(parse_base_url(url), {}, token="secret")
        (session,) = sessions(url, "secret")
        with watching(url, session["session"], token="secret") as watch:
            connection.call("reset", [None, None])
            assert watch.next(60) is not None
        connection.close()


def test_where_everybody_comes_in_nobody_sees_the_others() -> None:
    with serving(CountingEnv, exposure=Exposure.PUBLIC) as url:
        connection = Connection(parse_base_url(url), {})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            sessions(url)
        with (
            pytest.raises(errors.ForbiddenOperationError, match="Everybody"),
            watching(url, connection.session_name),
        ):
            pass
        connection.close()


def test_in_production_nobody_sees_an_agents_world() -> None:
    import dataclasses

    app = dataclasses.replace(load_app("echo_env"), mode=Mode.PRODUCTION)
    with serving(app) as url:
        with pytest.raises(urllib.error.HTTPError, match="403"):
            sessions(url)
        with pytest.raises(errors.ForbiddenOperationError, match="production"), watching(url, "x"):
            pass


@pytest.mark.parametrize("arguments", [("--workers", "2"), ("--isolate-sessions",)])
def test_sessions_in_other_processes_are_found_and_watched(
    serve: Any, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    server = serve(*arguments)
    connections = [server.connect() for _ in range(2)]
    names = {each.session_name for each in connections}
    # A process that does not answer soon is left out.
    assert eventually(lambda: {each["session"] for each in sessions(server.url)} == names)
    for connection in connections:
        watch = Watch(UnixAddress(server.path), connection.session_name)
        connection.call("reset", [None, None])
        seen = watch.next(60)
        assert seen is not None and seen["op"] == "reset"
        watch.close()
