"""`MCPEnvironment`: tools by `step`, their schemas, names, modes and time limits."""

from __future__ import annotations

import gc
import re
import threading

import numpy as np
import pytest

from openenv_gym.errors import ConfigurationError, InvalidActionError, InvalidOptionError
from openenv_gym.models import CallToolAction, CallToolObservation, ListToolsAction
from openenv_gym.server import MCPEnvironment, Mode, tool
from openenv_gym.server.adapter import TypedEnv
from openenv_gym.server.mcp.text import ToolResultText
from tests.server.mcp.rooms import Room, Walk
from tests.support.waiting import eventually


@pytest.fixture
def room():
    environment = Room()
    environment.reset()
    yield environment
    environment.close()


def call(environment, name, /, **arguments) -> CallToolObservation:
    return environment.step(CallToolAction(tool_name=name, arguments=arguments))


def tool_threads() -> int:
    return sum(thread.name == "openenv-tool" for thread in threading.enumerate())


def test_an_agent_lists_tools_with_their_schemas(room):
    tools = {one.name: one for one in room.step(ListToolsAction()).tools}
    assert list(tools)[:3] == ["move", "where.am-I", "go_to"]
    assert tools["move"].description == "Walk.\n\nThen stop."
    assert tools["move"].input_schema == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "steps": {"type": "integer", "description": "How many steps, counted from one."},
            "direction": {
                "type": "string",
                "enum": ["on", "back"],
                "default": "on",
                "description": "Where to.",
            },
        },
        "required": ["steps"],
    }
    assert tools["where.am-I"].description == "Where this is."
    assert tools["go_to"].input_schema["required"] == ["place"]
    assert tools["mean"].input_schema["properties"]["values"]["shape"] == [2]
    assert room.state.step_count == 0


def test_calls_act_on_the_environment_and_count_as_steps(room):
    assert call(room, "move", steps=3).result == 3
    room.step(Walk(steps=2))
    assert call(room, "where.am-I").result == {"x": 5, "y": 1.0}
    assert call(room, "move", steps=1, direction="back").result == 4
    assert call(room, "go_to", place={"x": 1}, then=[{"x": 7}]).result == {"x": 7}
    assert call(room, "mean", values=[1, 2]).result == 1.5
    assert call(room, "nothing").result is None
    assert np.array_equal(call(room, "picture").result, np.full((2, 3, 3), 7, np.uint8))
    assert room.state.step_count == 8


def test_judge_rewards_and_ends(room):
    first = call(room, "move", steps=3)
    assert (first.reward, first.done) == (3.0, False)
    assert call(room, "move", steps=60).done
    assert call(room, "nothing").reward is None


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "says"),
    [
        ("nope", {}, "tool_not_found", "'nope'; there are move"),
        ("move", {}, "invalid_args", "steps: missing"),
        ("move", {"steps": "x"}, "invalid_args", "steps: .*integer"),
        ("move", {"steps": 1, "far": 1}, "invalid_args", "far: no such argument"),
        ("go_to", {"place": {"y": 1}}, "invalid_args", "place.x"),
        ("fail", {}, "execution_error", "out of luck"),
        ("fail", {"how": "exit"}, "execution_error", "exit status 3"),
        ("fail", {"how": "return"}, "execution_error", "no form"),
    ],
)
def test_failures_are_observations(room, name, arguments, kind, says):
    observation = call(room, name, **arguments)
    assert observation.error.error_type.value == kind
    assert observation.result is None
    assert re.search(says, observation.error.message)
    assert call(room, "move", steps=1).result == 1


def test_a_result_that_looks_like_one_on_the_wire_stays_what_it_is(room):
    assert call(room, "fail", how="look").result["is_error"] is True


def test_a_call_that_takes_too_long_is_given_up(room):
    observation = call(room, "dawdle", wait_s=60.0)
    assert observation.error.error_type.value == "timeout"
    assert not room.ended.is_set()
    room.hurry.set()
    assert call(room, "move", steps=1).result == 1
    assert room.ended.wait(60)


def test_a_coroutine_that_takes_too_long_is_cancelled(room):
    late = room.step(CallToolAction(tool_name="wait", arguments={"wait_s": 30}), timeout_s=0.05)
    assert late.error.error_type.value == "timeout"
    assert room.ended.wait(60)
    assert call(room, "wait", wait_s=0).result == "waited in openenv-tool"


def test_not_too_many_are_left_behind(room):
    release = threading.Event()
    room.tool(release.wait, name="hang", timeout_s=0.01)
    kinds = [call(room, "hang").error for _ in range(9)]
    assert all(one.error_type.value == "timeout" for one in kinds)
    assert "still run" in kinds[-1].message
    release.set()
    assert eventually(lambda: call(room, "move", steps=0).error is None)


def test_without_a_limit_tools_run_in_the_thread_that_calls():
    class Pinned(MCPEnvironment):
        tool_timeout_s = None

        @tool
        def which(self) -> str:
            return threading.current_thread().name

    assert call(Pinned(), "which").result == threading.current_thread().name


def test_threads_end_with_the_environment():
    before = tool_threads()
    closed, dropped = Room(), Room()
    for one in (closed, dropped):
        assert call(one, "move", steps=1).error is None
    closed.close()
    del dropped, one
    gc.collect()
    assert eventually(lambda: tool_threads() <= before)


def test_modes(room):
    assert call(room, "secret").result == "simulation"
    room.mode = Mode.PRODUCTION
    assert call(room, "secret").result == "production"
    names = [one.name for one in room.step(ListToolsAction()).tools]
    assert names.count("secret") == 1


def test_tools_of_an_instance(room):
    @room.tool
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    assert call(room, "add", a=1).result == 2
    assert add(1, 2) == 3
    with pytest.raises(InvalidOptionError, match="two tools called 'add'"):
        room.tool(add)
    assert "add" not in [one.name for one in Room().list_tools().tools]


def test_subclasses_inherit_change_and_drop_tools():
    class Other(Room):
        @tool(description="Elsewhere.")
        def where(self) -> str:
            return "there"

        def nothing(self):
            return "no tool"

    names = [one.name for one in Other().list_tools().tools]
    assert "where" in names
    assert "where.am-I" not in names
    assert "nothing" not in names


@pytest.mark.parametrize("name", ["reset", "step", "state", "close"])
def test_reserved_names_are_refused(name):
    with pytest.raises(InvalidOptionError, match=f"{name!r}.*control") as caught:
        tool(name=name)(lambda: None)
    assert caught.value.field == "name"


def test_names_and_modes_that_there_are_not():
    with pytest.raises(InvalidOptionError, match="letters"):
        tool(name="two words")(lambda: None)
    with pytest.raises(InvalidOptionError, match="mode='test'"):
        tool(name="one", mode="test")(lambda: None)


def test_duplicates_are_refused_where_the_class_is_defined():
    with pytest.raises(InvalidOptionError, match="first and second are both the tool 'one'"):

        class Twice(MCPEnvironment):
            @tool(name="one")
            def first(self) -> None: ...

            @tool(name="one", mode="production")
            def second(self) -> None: ...


@pytest.mark.parametrize("signature", ["*values", "**values", "value, /"])
def test_arguments_that_have_no_name(signature):
    namespace: dict = {}
    exec(f"def odd({signature}): ...", namespace)
    with pytest.raises(ConfigurationError, match="cannot have the argument") as caught:
        Room().tool(namespace["odd"])
    assert caught.value.field in ("values", "value")


def test_an_argument_without_a_schema_is_named():
    def odd(fine: int, values: np.ndarray) -> None: ...

    with pytest.raises(ConfigurationError, match="'values' has a type without a JSON Schema"):
        Room().tool(odd)


def test_other_actions_need_act():
    class Tools(MCPEnvironment):
        action_model = Walk

    with pytest.raises(InvalidActionError, match="Walk"):
        Tools().step(Walk(steps=1))


def test_an_environment_of_tools_alone_is_text_to_gymnasium():
    class Notes(MCPEnvironment):
        def reset(self, *, seed=None, options=None):
            self.begin_episode(seed)
            self.lines = []
            return ToolResultText(text="An empty notebook.")

        @tool
        def write(self, line: str) -> int:
            self.lines.append(line)
            return len(self.lines)

    env = TypedEnv(Notes())
    assert env.reset(seed=0)[0] == "An empty notebook."
    observation, reward, *_ = env.step('{"tool_name": "write", "arguments": {"line": "a"}}')
    assert (observation, reward) == ("1", 0.0)
    assert env.step('{"tool_name": "wipe"}')[0].startswith("tool_not_found: Unknown tool")
    with pytest.raises(InvalidActionError, match="JSON of a call"):
        env.step("write a")
    env.close()
