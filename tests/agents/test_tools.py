"""What an environment lets an agent do, as tools and as functions."""

from __future__ import annotations

import inspect
import typing
from typing import Any, Literal

import pytest

from openenv_gym import errors
from openenv_gym.agents import Abilities, AgentTool, tool_function
from openenv_gym.agents.functions import hint_of
from tests.agents.worlds import Line, Vault


def described(environment: Any) -> dict[str, Any]:
    return environment.describe_actions()


def test_an_environments_tools_come_before_its_actions() -> None:
    assert [tool.name for tool in Abilities.of(described(Vault())).tools] == ["guess", "look"]
    (only,) = Abilities.of(described(Line())).tools
    assert only.name == "act"
    assert only.description == "A step along a line."
    assert only.schema["properties"]["by"]["description"] == "How far (at least -3, at most 3)"
    assert only.payload({"by": 2}) == {"by": 2}


def test_tools_are_chosen_by_name() -> None:
    abilities = Abilities.of(described(Vault()), ["look"])
    assert [tool.name for tool in abilities.tools] == ["look"]
    with pytest.raises(errors.InvalidOptionError, match="no 'fly', only act, guess, look"):
        Abilities.of(described(Vault()), ["fly"])
    with pytest.raises(errors.InvalidOptionError, match="or a list of names"):
        Abilities.of(described(Vault()), "look")
    with pytest.raises(errors.InvalidOptionError, match="none of these"):
        Abilities.of(described(Line()), "tools")


def test_what_is_no_name_of_pythons_is_renamed_or_refused() -> None:
    def named(*names: str, argument: str = "x") -> dict[str, Any]:
        schema = {"type": "object", "properties": {argument: {"type": "string"}}}
        return {"tools": [{"name": n, "description": "", "input_schema": schema} for n in names]}

    renamed = Abilities.of(named("files.read", "reset", "get_reward", "observe", "import", "2nd"))
    assert [tool.name for tool in renamed.tools] == [
        "files_read",
        "reset_tool",
        "get_reward_tool",
        "observe_tool",
        "import_tool",
        "tool_2nd",
    ]
    assert renamed.tool("files_read").payload({"x": "a"})["tool_name"] == "files.read"
    with pytest.raises(errors.InvalidOptionError, match="'a-b' and 'a.b' would both be 'a_b'"):
        Abilities.of(named("a-b", "a.b"))
    with pytest.raises(errors.InvalidOptionError, match="argument 'from' of the tool 'send'"):
        Abilities.of(named("send", argument="from"))


def test_labels_of_actions_are_told() -> None:
    kind = {
        "name": "MoveAction",
        "schema": {"properties": {"action": {"type": "integer"}}, "required": ["action"]},
        "fields": {"action": {"low": 0, "high": 1, "labels": ["left", "right"]}},
    }
    (tool,) = Abilities.of({"actions": [kind]}).tools
    assert tool.schema["properties"]["action"]["description"] == "(0 left, 1 right)"


def test_kinds_of_actions_are_told_apart_by_their_constants() -> None:
    def kind(name: str) -> dict[str, Any]:
        properties = {"kind": {"const": name.lower()}, "metadata": {}, "far": {"type": "integer"}}
        return {"name": f"{name}Action", "schema": {"properties": properties, "required": ["far"]}}

    abilities = Abilities.of({"actions": [kind("GoLeft"), kind("Jump")]})
    assert [tool.name for tool in abilities.tools] == ["go_left", "jump"]
    assert abilities.tools[1].payload({"far": 2}) == {"kind": "jump", "far": 2}
    assert abilities.speech is None


@pytest.mark.parametrize(
    ("text", "arguments"), [("2", {"by": 2}), ('{"by": -1}', {"by": -1}), ('"x"', {"by": "x"})]
)
def test_what_is_said_is_read_as_an_action(text: str, arguments: dict[str, Any]) -> None:
    speech = Abilities.of(described(Line())).speech
    assert speech is not None
    assert speech.read(text) == arguments


def test_what_is_no_action_is_refused_with_words_for_a_model() -> None:
    speech = Abilities.of(described(Line())).speech
    assert speech is not None
    with pytest.raises(errors.InvalidActionError, match="'go on' is no action. Answer with"):
        speech.read("go on")


# -- functions ----------------------------------------------------------------------------------

TOOL = AgentTool(
    "move",
    "Move.\n\nReturns:\n    Where you are.",
    {
        "properties": {
            "how": {"enum": ["walk", "run"], "description": "How,\nand how: fast"},
            "far": {"type": "number", "default": 1.5},
            "to": {"$ref": "#/$defs/Place"},
            "then": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        },
        "required": ["to", "how"],
        "$defs": {"Place": {"type": "object", "properties": {"at": {"$ref": "#/$defs/Place"}}}},
    },
)


class Mover:
    move = tool_function(TOOL, lambda self, tool, arguments: (tool.name, arguments))


def test_a_function_has_signature_hints_and_docstring() -> None:
    assert inspect.isfunction(Mover.move)
    assert Mover.move.__name__ == "move"
    hints = typing.get_type_hints(Mover.move)
    assert hints == {
        "to": dict,
        "how": Literal["walk", "run"],
        "far": float,
        "then": list[int] | None,
        "return": str,
    }
    signature = inspect.signature(Mover().move)
    assert list(signature.parameters) == ["how", "to", "far", "then"]
    assert signature.parameters["far"].default == 1.5
    assert signature.parameters["then"].default is None
    assert Mover.move.__doc__ == (
        "Move.\n\nArgs:\n    how: How, and how: fast\n    to: The to.\n    far: The far.\n"
        "    then: The then.\n"
    )


def test_only_arguments_that_were_given_are_passed_on() -> None:
    assert Mover().move("run", to={}) == ("move", {"how": "run", "to": {}})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"how": "run"}, "missing a required argument: 'to'. It takes how, to, far, then."),
        ({"how": "run", "to": {}, "up": 1}, "unexpected keyword argument 'up'"),
    ],
)
def test_wrong_arguments_are_told_in_words_for_a_model(arguments: Any, text: str) -> None:
    with pytest.raises(errors.InvalidActionError, match=text.replace(".", r"\.")):
        Mover().move(**arguments)


def test_a_schema_that_holds_itself_has_a_hint() -> None:
    tree = {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
    assert "list" in str(hint_of(tree, {"Tree": tree}))


def test_a_function_is_found_by_both_ways_in_which_trl_looks() -> None:
    found = dict(inspect.getmembers(Mover, inspect.isfunction))  # 1.16
    assert set(found) == {"move"}
    assert set(dict(inspect.getmembers(Mover(), inspect.ismethod))) == {"move"}  # before
