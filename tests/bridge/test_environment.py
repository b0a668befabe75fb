"""`openenv/Remote-v0` on a server that speaks OpenEnv's JSON and nothing else."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Annotated, Any, Literal

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import openenv_gym
from openenv_gym import errors
from openenv_gym.models import Action, Observation
from tests.bridge.worlds import SCHEMA, corridor, lying
from tests.support.fake_openenv import FakeOpenEnv, Gate, observation
from tests.support.waiting import eventually


assert openenv_gym

LEFT, RIGHT = 0, 1


def make(server: FakeOpenEnv, **options: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make("openenv/Remote-v0", base_url=server.url, **options)


def fake(script: Any = corridor, **options: Any) -> FakeOpenEnv:
    return FakeOpenEnv(script, schema=SCHEMA, **options)


def test_an_episode() -> None:
    with fake() as server:
        env = make(server)
        assert env.action_space == spaces.Discrete(2)
        assert list(env.observation_space.spaces) == ["place", "share"]
        seen, info = env.reset(seed=13, options={"episode_id": "e", "level": 2})
        assert (seen["place"], seen["share"]) == (3, 0.3)
        assert info["asked"] == {"seed": 13, "episode_id": "e", "level": 2}
        assert info["anything"] == [3, None]  # there is no space for it
        assert env.step(LEFT)[1:4] == (-0.5, False, False)
        for _ in range(7):
            env.step(RIGHT)
        seen, reward, terminated, truncated, info = env.step(RIGHT)
        assert (seen["place"], reward, terminated, truncated) == (10, 1, True, False)
        assert info == {"anything": [10, None]}
        sent = [request["data"] for request in server.requests if request["type"] == "step"]
        assert sent[:2] == [{"direction": "LEFT"}, {"direction": "RIGHT"}]
        state = env.unwrapped.openenv.state()
        assert state["step_count"] == 9
        env.close()
        assert eventually(lambda: server.requests[-1] == {"type": "close"})  # has no reply


def test_an_episode_that_is_cut_off_says_so_in_its_metadata() -> None:
    with fake() as server:
        env = make(server)
        env.reset(options={"start": 0})
        ends = [env.step(LEFT)[2:4] for _ in range(20)]
        assert ends[-2:] == [(False, False), (False, True)]
        env.close()


@pytest.mark.parametrize("where", ["TimeLimit.truncated", "observation", "field"])
def test_the_other_ways_to_say_so(where: str) -> None:
    def change(reply: Any) -> None:
        data = reply["data"]
        data["done"] = True
        if where == "TimeLimit.truncated":
            data["metadata"] = {where: True}
        elif where == "observation":
            data["observation"]["metadata"] = {"truncated": True}
        else:
            data["observation"]["truncated"] = True

    with fake(lying(change)) as server:
        env = make(server)
        env.reset()
        assert env.step(LEFT)[2:4] == (False, True)
        env.close()


def test_no_reward_is_none() -> None:
    def change(reply: Any) -> None:
        reply["data"]["reward"] = None

    with fake(lying(change)) as server:
        env = make(server)
        env.reset()
        assert env.step(LEFT)[1] == 0.0
        env.close()


@pytest.mark.filterwarnings("ignore:.*infinity. This is probably too")  # so says the schema
def test_gymnasium_checks_it() -> None:
    with fake() as server:
        env = make(server)
        check_env(env.unwrapped, skip_render_check=True)
        env.close()


def test_a_copy_is_another_session() -> None:
    with fake() as server:
        env = make(server)
        other = pickle.loads(pickle.dumps(env.unwrapped))
        other.reset(options={"start": 1})
        env.reset(options={"start": 2})
        assert other.step(RIGHT)[0]["place"] == 2
        other.close()
        env.close()


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("observation.place", lambda r: r["data"]["observation"].pop("place") and None),
        ("observation.place", lambda r: r["data"]["observation"].update(place="far")),
        ("observation.place", lambda r: r["data"]["observation"].update(place=[1])),
        ("observation.share", lambda r: r["data"]["observation"].update(share=None)),
        ("observation", lambda r: r["data"].update(observation=[1])),
        ("done", lambda r: r["data"].update(done="yes")),
        ("reward", lambda r: r["data"].update(reward="much")),
        ("reward", lambda r: r["data"].update(reward=10**400)),
        ("metadata", lambda r: r["data"].update(metadata=[1])),
        ("type", lambda r: r.update(type="surprise")),
    ],
)
def test_a_server_that_lies_is_told_where_and_the_session_lives(field: str, change: Any) -> None:
    with fake(lying(change)) as server:
        env = make(server)
        env.reset(options={"start": 5})
        with pytest.raises(errors.ProtocolError) as caught:
            env.step(LEFT)
        assert caught.value.field == field
        if field == "observation.share":
            assert "NaN" in str(caught.value)
        assert env.step(RIGHT)[0]["place"] == 5
        env.close()


@pytest.mark.parametrize("text", ["[1]", "{", '{"type":"observation"}', b"\xff"])
def test_what_is_no_message_is_told_and_the_session_lives(text: Any) -> None:
    with fake(lying(lambda reply: text)) as server:
        env = make(server)
        env.reset(options={"start": 5})
        with pytest.raises(errors.ProtocolError):
            env.step(LEFT)
        assert env.step(RIGHT)[0]["place"] == 5
        env.close()


def test_an_exception_there_is_one_here() -> None:
    def change(reply: Any) -> Any:
        return {"type": "error", "data": {"message": "on fire", "code": "EXECUTION_ERROR"}}

    with fake(lying(change)) as server:
        env = make(server)
        env.reset()
        with pytest.raises(errors.EnvironmentFailedError, match="on fire"):
            env.step(LEFT)
        env.step(RIGHT)
        env.close()


def test_a_seed_that_the_server_refuses_is_no_action() -> None:
    def script(session: Any, message: dict[str, Any]) -> Any:
        if message["type"] == "reset" and "seed" in message["data"]:
            wrong = [{"type": "value_error", "loc": ["seed"], "msg": "too large"}]
            data = {"message": "no", "code": "VALIDATION_ERROR", "errors": wrong}
            return {"type": "error", "data": data}
        return corridor(session, message)

    with fake(script) as server:
        env = make(server)
        with pytest.raises(errors.InvalidOptionError, match="too large") as caught:
            env.reset(seed=3)
        assert caught.value.field == "seed"
        env.reset()
        env.close()


@pytest.mark.parametrize("options", [{"x": float("nan")}, {"x": {"deep": float("inf")}}])
def test_what_json_cannot_carry_is_told(options: dict[str, Any]) -> None:
    with fake() as server:
        env = make(server)
        with pytest.raises(errors.EncodeError, match="JSON"):
            env.reset(options=options)
        env.reset()
        env.close()


def test_a_broken_connection_ends_the_episode_and_reset_begins_another() -> None:
    with fake() as server:
        env = make(server)
        env.reset(options={"start": 5})
        server.kill_connections()
        with pytest.raises((errors.ConnectionLostError, errors.SessionLostError)):
            env.step(RIGHT)
        with pytest.raises(errors.SessionLostError):
            env.step(RIGHT)
        assert env.reset(options={"start": 7})[0]["place"] == 7
        assert env.step(RIGHT)[0]["place"] == 8
        env.close()


def test_a_step_that_takes_too_long() -> None:
    gate = Gate(lambda data: data.get("direction") == "LEFT", corridor)
    with fake(gate) as server:
        env = make(server, timeout_s=3.0)
        env.reset()
        with pytest.raises(errors.DeadlineExceededError):
            env.step(LEFT)
        server.run(gate.open())
        assert eventually(lambda: _resets(env))
        env.close()


def _resets(env: Any) -> bool:
    try:
        return env.reset(options={"start": 7})[0]["place"] == 7
    except errors.DeadlineExceededError:
        return False


def test_one_place_is_enough_and_one_connection() -> None:
    with fake(max_sessions=1) as server:
        for _ in range(3):
            env = make(server)
            env.reset()
            env.close()
            assert eventually(lambda: server.active == 0)
        assert server.opened == 3


def later(condition: Callable[[], bool], action: Callable[[], None]) -> threading.Thread:
    """Do something in another thread as soon as a condition holds."""

    def wait() -> None:
        assert eventually(condition)
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_place_that_is_not_free_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv_gym.bridge.session._FREE_S", 60.0)
    with fake(max_sessions=1) as server:
        env = make(server)
        closing = later(lambda: server.opened > 1, env.close)
        other = make(server)
        other.reset()
        other.close()
        closing.join()


def test_a_full_server_says_so_and_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv_gym.bridge.session._FREE_S", 0.2)
    with fake(max_sessions=1) as server:
        env = make(server)
        with pytest.raises(errors.CapacityError) as caught:
            make(server)
        assert caught.value.data["capacity"] == 1
        refused = server.opened
        closing = later(lambda: server.opened > refused, env.close)
        other = make(server, wait_s=60)
        other.reset()
        other.close()
        closing.join()


def test_the_token_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake(token="secret") as server:
        monkeypatch.setenv("OPENENV_TOKEN", "wrong")
        with pytest.raises(errors.UnauthorizedError):
            make(server)
        monkeypatch.setenv("OPENENV_TOKEN", "secret")
        env = make(server)
        env.reset()
        assert server.headers["Authorization"] == "Bearer secret"
        env.close()


# -- models of one's own ------------------------------------------------------------------------


class Run(Action):
    """An action of the user's."""

    direction: Literal["RIGHT"] = "RIGHT"
    speed: Annotated[int, spaces.Discrete(3)] = 0


class Share(Observation):
    """An observation of the user's."""

    share: float


def test_models_of_ones_own_take_the_place_of_the_schema() -> None:
    with fake() as server:
        env = make(server, action_model=Run, observation_model=Share)
        assert list(env.action_space.spaces) == ["direction", "speed"]
        assert env.observation_space.shape == ()
        env.reset(options={"start": 5})
        seen, *_, info = env.step({"direction": np.int64(0), "speed": np.int64(2)})
        assert (seen, info["place"]) == (0.6, 6)
        assert server.requests[-1]["data"] == {"direction": "RIGHT", "speed": 2}
        env.close()


def test_a_schema_without_a_space_names_the_way_out() -> None:
    schema = {**SCHEMA, "observation": {"type": "object", "properties": {"any": {}}}}
    with FakeOpenEnv(corridor, schema=schema) as server:
        with pytest.raises(errors.SpaceError, match="observation_model="):
            make(server)
        assert eventually(lambda: server.active == 0)
        env = make(server, observation_model=Share)
        env.reset()
        env.close()


def test_what_reset_does_not_give_is_no_part_of_the_space() -> None:
    first = {"type": "object", "properties": {"place": {}}}
    with FakeOpenEnv(corridor, schema={**SCHEMA, "reset_observation": first}) as server:
        env = make(server)
        assert isinstance(env.observation_space, spaces.Discrete)
        assert env.reset(options={"start": 5})[1]["share"] == 0.5
        env.close()


# -- what is not taken --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"size": 3}, "size"),
        ({"render_mode": "rgb_array"}, "render_mode"),
        ({"action_model": int}, "action_model"),
        ({"observation_model": Run}, "observation_model"),
    ],
)
def test_options_that_are_none(options: dict[str, Any], field: str) -> None:
    with fake() as server:
        with pytest.raises(errors.InvalidOptionError) as caught:
            make(server, **options)
        assert caught.value.field == field
        assert eventually(lambda: server.active == 0)


def test_another_id_names_the_one_that_works() -> None:
    with fake() as server, pytest.raises(errors.OtherProtocolError, match="openenv/Remote-v0"):
        gymnasium.make("openenv/CartPole-v1", base_url=server.url)


def test_a_server_of_ours_tells_its_spaces_itself() -> None:
    from openenv_gym.server import Server, create_app

    server = Server(create_app(lambda: gymnasium.make("CartPole-v1").unwrapped))
    host, port = server.listen_tcp("127.0.0.1", 0)
    server.start()
    try:
        url = f"http://{host}:{port}"
        gymnasium.make("openenv/Remote-v0", base_url=url).close()
        with pytest.raises(errors.InvalidOptionError, match="tells its spaces itself"):
            gymnasium.make("openenv/Remote-v0", base_url=url, action_model=Run)
    finally:
        server.stop()


def test_large_numbers_and_strange_schemas_do_no_harm() -> None:
    schema = {**SCHEMA, "state": {"maximum": 10**400}}
    with FakeOpenEnv(corridor, schema=schema) as server:
        env = make(server)
        env.reset()
        env.close()


def test_an_observation_beyond_every_integer_is_told() -> None:
    def change(reply: Any) -> Any:
        return observation({"place": 10**30, "share": 0.0})

    with fake(lying(change)) as server:
        env = make(server)
        env.reset()
        with pytest.raises(errors.OpenEnvGymError):
            env.step(LEFT)
        env.step(RIGHT)
        env.close()
