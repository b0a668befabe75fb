"""A form sends what it shows: what stands there at first, what is typed, what is chosen for it."""

from __future__ import annotations

import enum
import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from openenv_gym.models import Action
from openenv_gym.web.filled import first_of, read_form, state_of
from openenv_gym.web.forms import form_of
from openenv_gym.web.kinds import kinds_of
from openenv_gym.web.parts import leaves
from openenv_gym.web.widgets import held_of, value_of


LARGE = 2**53 + 1  # which no float holds


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Walk(BaseModel):
    kind: Literal["walk"] = "walk"
    metres: int = 1
    note: str | None = None


class Talk(BaseModel):
    kind: Literal["talk"] = "talk"
    text: str


class Page:
    """A form as a browser has it."""

    def __init__(self, model: type[BaseModel]) -> None:
        self.form = form_of(model.model_json_schema())
        self.leaves = {leaf.key: leaf for leaf in leaves(self.form)}
        self.shown = {key: value_of(leaf, first_of(leaf)) for key, leaf in self.leaves.items()}

    def label(self, key: str) -> str:
        """Return what is chosen, as it is read."""
        chosen = held_of(self.leaves[key], self.shown[key])
        return next((name for name, value in self.leaves[key].choices if value == chosen), "")

    def choose(self, key: str, label: str) -> None:
        leaf = self.leaves[key]
        self.shown[key] = value_of(leaf, dict(leaf.choices).get(label))

    def fill(self, action: dict[str, Any]) -> None:
        """Choose something that is legal now."""
        for key, held in state_of(self.form, action).items():
            self.shown[key] = value_of(self.leaves[key], held)

    def send(self) -> tuple[dict[str, Any], dict[str, str]]:
        # All numbers of a browser are floats.
        shown = json.loads(json.dumps(self.shown), parse_int=float)
        held = {key: held_of(leaf, shown[key]) for key, leaf in self.leaves.items()}
        return read_form(self.form, held)

    def sent(self) -> dict[str, Any]:
        action, problems = self.send()
        assert not problems
        return action


# -- numbers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (str(LARGE), LARGE),
        (str(-LARGE), -LARGE),
        (f"{LARGE}.0", LARGE),
        ("1e3", 1000),
        ("1234567890123456789012345", 1234567890123456789012345),
    ],
)
def test_a_whole_number_is_sent_to_its_last_digit(text: str, number: int) -> None:
    class Typed(Action):
        number: int

    page = Page(Typed)
    page.shown["number"] = text
    assert page.sent() == {"number": number}


def test_numbers_at_first_are_those_of_the_model() -> None:
    class Defaults(Action):
        million: int = 1234567
        large: int = LARGE
        exact: float = 0.1 + 0.2
        small: float = 1e-9
        either: Literal[9007199254740993, 9007199254740992] = 9007199254740993

    page = Page(Defaults)
    assert page.shown["million"] == "1234567" and page.shown["large"] == str(LARGE)
    assert page.label("either") == str(LARGE)
    assert page.sent() == json.loads(Defaults().model_dump_json(exclude={"metadata"}))


def test_bounds_are_told_and_kept_to_the_last_digit() -> None:
    class Bounded(Action):
        number: int = Field(ge=0, le=1234567)
        large: int = Field(LARGE, ge=LARGE, le=2**60)

    page = Page(Bounded)
    page.shown |= {"number": "1234568", "large": str(LARGE - 1)}
    assert page.send()[1] == {
        "number": "1234568 is not from 0 to 1234567.",
        "large": f"{LARGE - 1} is not from {LARGE} to {2**60}.",
    }
    page.shown |= {"number": "1234567", "large": str(LARGE)}
    assert page.sent() == {"number": 1234567, "large": LARGE}


@pytest.mark.parametrize("text", ["1e999999999", "inf", "9" * 5000])
def test_a_number_that_nobody_means_is_refused(text: str) -> None:
    class Typed(Action):
        number: int

    page = Page(Typed)
    page.shown["number"] = text
    assert "no finite number" in page.send()[1]["number"]


# -- what may be left away ------------------------------------------------------------------


class Optional(Action):
    flag: bool | None = None
    colours: set[Colour] | None = None
    colour: Colour | None = None
    deed: Walk | Talk | None = None
    word: str = "abc"
    maybe: int | None = 5
    preset: bool = True


def test_what_is_left_empty_is_not_given() -> None:
    page = Page(Optional)
    model = Optional.model_validate(page.sent())
    assert model == Optional()
    page.shown |= {"word": "", "maybe": "", "preset": False}
    model = Optional.model_validate(page.sent())
    assert (model.word, model.maybe, model.preset) == ("", None, False)


def test_an_optional_flag_has_three_states() -> None:
    page = Page(Optional)
    for label, value in (("yes", True), ("no", False), ("(nothing)", None)):
        page.choose("flag", label)
        assert Optional.model_validate(page.sent()).flag is value


def test_an_optional_choice_can_be_taken_back() -> None:
    page = Page(Optional)
    page.choose("colour", "blue")
    page.choose("deed?", "talk")
    page.shown["deed|1.text"] = "hello"
    model = Optional.model_validate(page.sent())
    assert (model.colour, model.deed) == (Colour.BLUE, Talk(text="hello"))
    page.choose("colour", "(nothing)")
    page.choose("deed?", "(nothing)")
    model = Optional.model_validate(page.sent())
    assert (model.colour, model.deed) == (None, None)


def test_an_optional_set_is_given_or_empty_or_not_given() -> None:
    page = Page(Optional)
    assert Optional.model_validate(page.sent()).colours is None
    for colours in ([], ["red"], ["red", "blue"]):
        page.fill({"colours": colours})
        assert page.sent()["colours"] == colours
    page.fill({"colours": []})
    page.shown["colours"] = [*page.shown["colours"], "0"]
    assert "(empty)" in page.send()[1]["colours"]


def test_a_choice_between_models_begins_with_its_default() -> None:
    class Preset(Action):
        deed: Walk | Talk = Talk(text="hi")

    page = Page(Preset)
    assert page.label("deed?") == "talk"
    assert page.sent() == {"deed": {"kind": "talk", "text": "hi"}}


def test_an_empty_text_can_be_chosen() -> None:
    class Chosen(Action):
        way: Literal["", "up"]

    assert Page(Chosen).sent() == {"way": ""}


def test_a_tool_may_have_an_argument_called_metadata() -> None:
    schema = {
        "type": "object",
        "properties": {"metadata": {"type": "string"}},
        "required": ["metadata"],
    }
    (kind,) = kinds_of({"tools": [{"name": "tag", "input_schema": schema}]})
    values, problems = read_form(kind.form, {"metadata": "x"})
    assert not problems and kind.action_of(values)["arguments"] == {"metadata": "x"}


# -- what is legal now ----------------------------------------------------------------------


class Legal(Action):
    deed: Walk | Talk
    amount: int | list[int] | str = 0
    again: bool | None = None
    comment: str = "none"
    must: int


@pytest.mark.parametrize(
    "action",
    [
        {"deed": {"kind": "talk", "text": "a"}, "amount": "b", "again": True, "must": 3},
        {"deed": {"kind": "walk", "metres": 7, "note": "n"}, "amount": 4, "must": 3},
        {"deed": {"kind": "walk", "metres": 7, "note": None}, "amount": [1, 2], "must": LARGE},
    ],
)
def test_what_is_legal_is_sent_as_it_is(action: dict[str, Any]) -> None:
    page = Page(Legal)
    # Whatever was there before.
    before = {"deed": {"kind": "walk", "metres": 99, "note": "x"}, "amount": [9], "again": False}
    page.fill({**before, "comment": "long", "must": 1})
    page.fill(action)
    assert Legal.model_validate(page.sent()) == Legal.model_validate(action)


def test_of_a_legal_action_that_says_a_part_what_is_needed_stays() -> None:
    page = Page(Legal)
    page.shown["must"] = "8"
    page.fill({"deed": {"kind": "talk", "text": "a"}})
    assert page.sent()["must"] == 8


def test_a_legal_action_that_the_form_does_not_know_is_not_taken_for_another() -> None:
    page = Page(Legal)
    page.fill({"deed": {"kind": "swim"}, "must": 1})
    assert page.send()[1] == {"deed?": "Choose one."}
