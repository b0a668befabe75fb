"""`EnvClient` on our server in both protocols, and on a server that misbehaves."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openenv_gym import EnvClient, GenericAction, GenericEnvClient, errors
from openenv_gym.client.web_socket import WebSocketOptions
from tests.openenv.worlds import Mood, Move, OldStyleClient, Seen, Walk, WalkClient, WalkState
from tests.support.fake_openenv import FakeOpenEnv, counting, observation
from tests.support.serving import serving
from tests.support.worlds import CountingEnv


BOTH = pytest.mark.parametrize("protocol", ["binary", "json"])


@pytest.fixture
def url() -> Iterator[str]:
    with serving(Walk) as address:
        yield address


# -- episodes -----------------------------------------------------------------------------------


@BOTH
def test_an_episode_with_models(url: str, protocol: Any) -> None:
    async def play() -> None:
        async with WalkClient(base_url=url, protocol=protocol) as client:
            result = await client.reset(at=2)
            assert isinstance(result.observation, Seen)
            assert (result.observation.at, result.reward, result.done) == (2, None, False)
            assert result.metadata == result.observation.metadata == {"mood": "calm"}
            result = await client.step(Move(by=3, mood=Mood.CALM))
            assert (result.observation.at, result.reward, result.done) == (5, 3.0, False)
            assert result.observation.picture.dtype == np.float32
            assert result.observation.picture.tolist() == [[5, 5], [5, 5]]
            state = await client.state()
            assert isinstance(state, WalkState)
            assert (state.step_count, state.at) == (1, 5)
            await client.step({"by": 1, "mood": "wild"})
            for _ in range(3):
                result = await client.step(Move(by=0))
            assert (result.done, result.truncated, result.observation.terminated) == (
                True,
                True,
                False,
            )

    asyncio.run(play())


@BOTH
def test_seeds_and_episode_ids_count_and_other_arguments_are_refused(
    url: str, protocol: Any
) -> None:
    async def play() -> None:
        async with WalkClient(base_url=url, protocol=protocol) as client:
            places = [(await client.reset(seed=seed)).observation.at for seed in (1, 2, 3, 1, 2, 3)]
            assert places[:3] == places[3:] and len(set(places)) > 1
            await client.reset(episode_id="mine")
            assert (await client.state()).episode_id == "mine"
            with pytest.raises(errors.InvalidOptionError, match="unheard_of"):
                await client.reset(unheard_of=1)
            with pytest.raises(errors.InvalidOptionError, match="seed"):
                await client.reset(seed=-1)
            assert (await client.step(Move(by=0))).observation.at is not None

    asyncio.run(play())


@BOTH
def test_a_bad_action_and_an_exception_of_the_environment(url: str, protocol: Any) -> None:
    async def play() -> None:
        async with WalkClient(base_url=url, protocol=protocol) as client:
            await client.reset(at=0)
            with pytest.raises(errors.InvalidActionError, match="by") as caught:
                await client.step({"by": 77})
            assert caught.value.field == "by"
            with pytest.raises(errors.InvalidActionError, match="bye: Extra inputs"):
                await client.step({"bye": 1})
            with pytest.raises(errors.InvalidActionError, match="Expected Move or a mapping"):
                await client.step(3)  # type: ignore[arg-type]
            with pytest.raises(errors.EnvironmentFailedError, match="too wild"):
                await client.step(Move(by=3, mood=Mood.WILD))
            assert (await client.step(Move(by=1))).observation.at == 1
        async with GenericEnvClient(base_url=url, protocol=protocol) as client:
            await client.reset(at=0)
            with pytest.raises(errors.InvalidActionError, match="by") as caught:
                await client.step({"by": 77})
            assert caught.value.field == "by"
            assert (await client.step({"by": 1})).observation["at"] == 1

    asyncio.run(play())


@BOTH
def test_dictionaries_in_and_out(url: str, protocol: Any) -> None:
    async def play() -> None:
        async with GenericEnvClient(base_url=url, protocol=protocol) as client:
            result = await client.reset(at=1)
            assert result.observation["at"] == 1
            assert np.asarray(result.observation["picture"]).tolist() == [[1, 1], [1, 1]]
            result = await client.step(GenericAction(by=np.int64(2), mood=Mood.CALM))
            assert (result.observation["at"], result.reward) == (3, 2.0)
            assert (await client.state())["step_count"] == 1
        assert repr(GenericAction(by=2)) == "GenericAction(by=2)"

    asyncio.run(play())


@BOTH
def test_hooks_may_be_overridden(url: str, protocol: Any) -> None:
    with OldStyleClient(base_url=url, protocol=protocol).sync() as client:
        assert client.reset(at=4).observation == 4
        assert client.step(-2).observation == 2
        assert client.state() == 1


def test_one_websocket_decides_the_protocol(url: str) -> None:
    async def play(address: str, options: Any = None) -> EnvClient[Any, Any, Any]:
        async with GenericEnvClient(base_url=address, options=options) as client:
            await client.reset()
            return client

    asyncio.run(play(url, {"start": 3}))
    with FakeOpenEnv() as fake:
        asyncio.run(play(fake.url))
        assert fake.opened == 1
        with pytest.raises(errors.InvalidOptionError, match="start"):
            asyncio.run(play(fake.url, {"start": 3}))
        with pytest.raises(errors.NotAnOpenEnvServerError, match="json"):
            asyncio.run(GenericEnvClient(base_url=fake.url, protocol="binary").connect())


def test_what_the_environment_is_made_with(url: str) -> None:
    with WalkClient(base_url=url, options={"start": 7}).sync() as client:
        assert client.reset().observation.at == 7


# -- arguments --------------------------------------------------------------------------------


@BOTH
def test_tokens(protocol: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENENV_TOKEN", raising=False)
    with serving(Walk, token="right") as url:
        for wrong in ({}, {"token": "wrong"}, {"headers": {"Authorization": "Bearer wrong"}}):
            with pytest.raises(errors.UnauthorizedError):
                WalkClient(base_url=url, protocol=protocol, **wrong).sync().connect()
        for right in ({"token": "right"}, {"headers": {"authorization": "Bearer right"}}):
            with WalkClient(base_url=url, protocol=protocol, **right).sync() as client:
                client.reset()
        monkeypatch.setenv("OPENENV_TOKEN", "right")
        with WalkClient(base_url=url, protocol=protocol).sync() as client:
            client.reset()


def test_a_server_that_answers_no_ping_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    # It agrees to no close either.
    options = functools.partial(WebSocketOptions, close_timeout_s=0.1)
    monkeypatch.setattr("openenv_gym.openenv.env_client.WebSocketOptions", options)
    goes_on = threading.Event()

    def script(session: Any, message: dict[str, Any]) -> Any:
        if message["type"] == "step":
            assert goes_on.wait(100)  # the server's loop stands still
        return observation({"type": message["type"]})

    pings: dict[str, Any] = {"websocket_ping_interval_s": 0.1, "websocket_ping_timeout_s": 3.0}
    with FakeOpenEnv(script) as fake:
        with GenericEnvClient(base_url=fake.url, **pings).sync() as client:
            client.reset()
            with pytest.raises(errors.ConnectionLostError):
                client.step({})
            goes_on.set()
        goes_on.clear()
        pings["websocket_ping_timeout_s"] = None
        with GenericEnvClient(base_url=fake.url, **pings).sync() as client:
            client.reset()
            going_on = threading.Timer(1.0, goes_on.set)
            going_on.start()
            assert client.step({}).observation["type"] == "step"
            going_on.join()


def test_use_in_another_event_loop_is_told(url: str) -> None:
    client = WalkClient(base_url=url)
    asyncio.run(client.reset())
    with pytest.raises(errors.ConfigurationError, match="another event loop, which is over"):
        asyncio.run(client.reset())
    asyncio.run(client.connect())
    asyncio.run(client.close())

    async def mixed() -> None:
        with WalkClient(base_url=url).sync() as blocking:
            with pytest.raises(errors.ConfigurationError, match="another event loop"):
                await blocking.async_client.reset()
            blocking.reset()

    asyncio.run(mixed())


def test_a_call_that_was_not_awaited_is_told(url: str) -> None:
    async def play() -> None:
        async with WalkClient(base_url=url) as client:
            call = client.reset()
            with pytest.raises(errors.NotAwaitedError, match=r"await client\.reset"):
                call.observation  # type: ignore[attr-defined]  # noqa: B018
            assert "awaited" in repr(call)
            assert not hasattr(call, "observation")
            assert (await call).observation is not None

    asyncio.run(play())


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "base_url"),
        ({"base_url": "nowhere"}, "base_url"),
        ({"base_url": "http://h", "connect_timeout_s": 0}, "connect_timeout_s"),
        ({"base_url": "http://h", "message_timeout_s": float("nan")}, "message_timeout_s"),
        ({"base_url": "http://h", "max_message_size_mb": -1}, "max_message_size_mb"),
        ({"base_url": "http://h", "websocket_ping_interval_s": "x"}, "websocket_ping_interval_s"),
        ({"base_url": "http://h", "mode": "holiday"}, "mode"),
        ({"base_url": "http://h", "protocol": "xml"}, "protocol"),
        ({"provider": 3}, "provider"),
    ],
)
def test_arguments_are_checked(given: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.InvalidOptionError) as caught:
        EnvClient(**given)
    assert caught.value.field == field


@BOTH
def test_a_message_of_17_mebibytes(url: str, protocol: Any) -> None:
    def script(session: Any, message: dict[str, Any]) -> Any:
        return observation({"length": len(message["data"].get("text", ""))})

    with FakeOpenEnv(script, max_size=None) as fake, GenericEnvClient(fake.url).sync() as client:
        assert client.step({"text": "x" * (17 << 20)}).observation["length"] == 17 << 20
    with GenericEnvClient(base_url=url, protocol=protocol).sync() as client:
        client.reset(at=0)
        with pytest.raises(errors.InvalidActionError):
            client.step({"by": 1, "text": "x" * (17 << 20)})
        assert client.step({"by": 1}).observation["at"] == 1


def test_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(errors.ServerUnreachableError):
        WalkClient(base_url=f"unix://{tmp_path}/nobody").sync().connect()


def test_values_that_json_cannot_carry_are_refused_here() -> None:
    with FakeOpenEnv(counting) as fake, GenericEnvClient(base_url=fake.url).sync() as client:
        for value in (float("nan"), object(), b"\xff"):
            with pytest.raises(errors.EncodeError):
                client.step({"value": value})
        assert client.step({}).observation["count"] == 1


@BOTH
def test_a_gymnasium_environment_has_models_of_its_spaces(protocol: Any) -> None:
    with (
        serving(CountingEnv) as url,
        GenericEnvClient(base_url=url, protocol=protocol).sync() as client,
    ):
        assert np.asarray(client.reset(seed=1).observation["count"]).tolist() == [0, 1, 0]
        result = client.step({"action": np.int64(7)})
        assert np.asarray(result.observation["count"]).tolist() == [1, 1, 7]
        assert (result.reward, result.done) == (1.0, False)
