"""What a rubric is: its score, its parts, its hooks and its state."""

import asyncio
import copy
import pickle

import numpy as np
import pytest

from openenv_gym.errors import ConfigurationError, RubricError
from openenv_gym.rubrics import Gate, Rubric, Sequential, WeightedSum
from tests.rubrics.scores import Failing, Fixed, Later


class Pair(Rubric):
    """Parts by assignment; `__init__` calls no base's."""

    def __init__(self):
        self.first = Fixed(0.5)
        self.second = Gate(Fixed(2.0))

    def forward(self, action, observation):
        return self.first(action, observation) + self.second(action, observation)


def test_parts_are_found_by_dotted_names():
    pair = Pair()
    assert pair(None, None) == 2.5 == pair.last_score
    assert [name for name, _ in pair.named_children()] == ["first", "second"]
    assert list(pair.children()) == [pair.first, pair.second]
    assert [name for name, _ in pair.named_rubrics()] == ["first", "second", "second.rubric"]
    assert list(pair.rubrics()) == [pair.first, pair.second, pair.second.rubric]
    assert pair.get_rubric("second.rubric").last_score == 2.0
    with pytest.raises(KeyError, match="second.other"):
        pair.get_rubric("second.other")


def test_a_part_that_is_replaced_is_a_part_no_more():
    pair = Pair()
    pair.first = Fixed(7)
    assert pair.get_rubric("first").score == 7
    pair.first = None
    del pair.second
    assert list(pair.named_rubrics()) == []


def test_a_rubric_is_no_part_of_itself():
    gate = Gate(Pair())
    with pytest.raises(ConfigurationError, match="part of itself"):
        gate.rubric.first = gate
    with pytest.raises(ConfigurationError, match="part of itself"):
        gate.own = gate


def test_arguments_that_nobody_takes_are_refused():
    with pytest.raises(TypeError, match="argument"):
        Failing(0.5)


def test_hooks_surround_a_score():
    seen = []
    fixed = Fixed(0.5)
    fixed.register_forward_pre_hook(lambda *args: seen.append((*args, fixed.calls)))
    fixed.register_forward_hook(lambda *args: seen.append((*args, fixed.calls)))
    fixed("a", "o")
    assert seen == [(fixed, "a", "o", 0), (fixed, "a", "o", 0.5, 1)]


def test_an_asynchronous_hook_makes_the_score_one_to_be_awaited():
    seen = []

    async def note(*args):
        await asyncio.sleep(0)
        seen.append(args)

    fixed = Fixed(0.5)
    fixed.register_forward_pre_hook(note)
    fixed.register_forward_hook(note)
    assert asyncio.run(fixed("a", "o")) == 0.5
    assert seen == [(fixed, "a", "o"), (fixed, "a", "o", 0.5)]


@pytest.mark.parametrize(
    ("value", "score"), [(True, 1.0), (3, 3.0), (np.float32(0.5), 0.5), (np.array(-2), -2.0)]
)
def test_any_number_is_a_score(value, score):
    found = Fixed(value)(None, None)
    assert type(found) is float and found == score


@pytest.mark.parametrize(
    "value",
    [None, "1", float("nan"), float("inf"), -np.inf, 10**400, 1j, np.array([1.0]), [1.0]],
    ids=repr,
)
@pytest.mark.parametrize("kind", [Fixed, Later])
def test_what_is_no_finite_number_is_no_score(value, kind):
    rubric = kind(value)

    async def ask():
        found = rubric(None, None)
        return await found if kind is Later else found

    with pytest.raises(RubricError, match=rf"{kind.__name__} returned .*finite number"):
        asyncio.run(ask())
    assert rubric.last_score is None


def test_what_a_rubric_raises_arrives_as_it_is():
    with pytest.raises(KeyError, match="nothing there"):
        Sequential(Failing())(None, None)


def test_states_are_those_of_all_parts():
    rubric = Sequential(Gate(Fixed(), 0.5), parts=WeightedSum([Fixed(), Fixed()], [0.25, 0.75]))
    state = rubric.state_dict()
    assert state == {"rubric_0.threshold": 0.5, "parts.weights": [0.25, 0.75]}
    rubric.load_state_dict({"rubric_0.threshold": 0.25, "parts.weights": [0.5, 0.5]})
    assert (rubric[0].threshold, rubric[1].weights) == (0.25, [0.5, 0.5])
    rubric.load_state_dict(state)
    assert rubric.state_dict() == state


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"rubric_0.threshold": None}, "rubric_0.threshold"),
        ({"parts.threshold": 1.0}, "parts.threshold"),
        ({"other": 1.0}, "other"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(change, field):
    rubric = Sequential(Gate(Fixed(), 0.5), parts=WeightedSum([Fixed()], [1.0]))
    before = rubric.state_dict()
    state = {"rubric_0.threshold": 0.1, "parts.weights": [1.0], **change}
    state = {key: value for key, value in state.items() if value is not None}
    with pytest.raises(ConfigurationError, match=field) as caught:
        rubric.load_state_dict(state)
    assert caught.value.field == field and rubric.state_dict() == before


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])
def test_a_copy_is_a_tree_of_its_own(copied):
    rubric = Sequential(Gate(Fixed(0.5), 0.5))
    twin = copied(rubric)
    assert twin(None, None) == 0.5
    assert twin.get_rubric("rubric_0.rubric") is twin[0].rubric is not rubric[0].rubric
    assert (twin[0].rubric.calls, rubric[0].rubric.calls) == (1, 0)


def test_a_reset_reaches_all_parts():
    class Resettable(Fixed):
        def reset(self):
            self.calls = 0

    inner = Resettable()
    rubric = Sequential(Gate(inner))
    rubric(None, None)
    rubric.reset()
    assert inner.calls == 0
