"""Rubrics made of rubrics, whose parts answer at once or later."""

import asyncio
import copy
import inspect
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.errors import ConfigurationError
from openenv_gym.models import Observation
from openenv_gym.rubrics import Gate, Rubric, RubricDict, RubricList, Sequential, WeightedSum
from openenv_gym.server.scoring import score_step
from tests.rubrics.scores import Failing, Fixed, Later


SCORES = st.floats(-2, 2, allow_nan=False)


def value_of(found):
    async def wait():
        return await found

    return asyncio.run(wait()) if inspect.isawaitable(found) else found


def parts_of(scores, later):
    return [(Later if late else Fixed)(score) for score, late in zip(scores, later, strict=True)]


@given(st.lists(st.tuples(st.one_of(st.just(0.0), SCORES), st.booleans()), max_size=4))
def test_a_sequence_ends_at_the_first_zero(parts):
    rubrics = parts_of(*zip(*parts, strict=True)) if parts else []
    scores = [score for score, _ in parts]
    first = next((index for index, score in enumerate(scores) if score == 0), None)
    rubric = Sequential(*rubrics)
    assert value_of(rubric(None, None)) == (scores or [1.0])[-1 if first is None else first]
    ran = len(scores) if first is None else first + 1
    assert [each.calls for each in rubrics] == [1] * ran + [0] * (len(scores) - ran)


@given(st.lists(st.tuples(SCORES, st.booleans(), st.integers(1, 9)), min_size=1, max_size=5))
def test_a_weighted_sum_is_that_sum_however_its_parts_answer(parts):
    scores, later, shares = zip(*parts, strict=True)
    weights = [share / sum(shares) for share in shares]
    rubric = WeightedSum(parts_of(scores, later), weights)
    found = rubric(None, None)
    assert inspect.isawaitable(found) == any(later)
    expected = sum(score * weight for score, weight in zip(scores, weights, strict=True))
    assert value_of(found) == pytest.approx(expected)
    assert [each.last_score for each in rubric.children()] == list(scores)


@pytest.mark.parametrize("kind", [Fixed, Later])
@pytest.mark.parametrize(
    ("score", "threshold", "expected"),
    [(0.5, 0.5, 0.5), (0.4, 0.5, 0.0), (1.0, None, 1.0), (0.9, None, 0.0), (-0.5, -1.0, -0.5)],
)
def test_a_gate_lets_through_what_reaches_its_threshold(kind, score, threshold, expected):
    gate = Gate(kind(score)) if threshold is None else Gate(kind(score), threshold)
    assert value_of(gate(None, None)) == expected == gate.last_score


def test_asynchronous_parts_run_together():
    meeting = asyncio.Event()

    class Arriving(Rubric):
        async def forward(self, action, observation):
            meeting.set()
            return 1.0

    class Awaiting(Rubric):
        async def forward(self, action, observation):
            await asyncio.wait_for(meeting.wait(), 60)
            return 0.0

    assert value_of(WeightedSum([Awaiting(), Gate(Arriving())], [0.5, 0.5])(None, None)) == 0.5


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_failure_ends_what_runs_beside_it(order):
    ended = []

    class Endless(Rubric):
        async def forward(self, action, observation):
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(self)

    parts = [Failing(), Endless(), Gate(Endless())]
    rubric = WeightedSum([parts[index] for index in order], [0.5, 0.25, 0.25])
    with pytest.raises(KeyError, match="nothing there"):
        value_of(rubric(None, None))
    assert len(ended) == order.index(0)  # those after it do not begin


def test_a_list_and_a_dict_are_for_a_rubric_that_chooses():
    class Choosing(Rubric):
        def __init__(self):
            self.listed = RubricList([Fixed(1), Fixed(2)])
            self.named = RubricDict({"reset": Fixed(3), "chess": Fixed(4)})

        def forward(self, action, observation):
            return self.listed[1](action, observation) + self.named["reset"](action, observation)

    rubric = Choosing()
    assert rubric(None, None) == 5
    assert [name for name, _ in rubric.named_rubrics()] == [
        "listed",
        "listed.rubric_0",
        "listed.rubric_1",
        "named",
        "named.reset",
        "named.chess",
    ]
    rubric.listed.append(Fixed(9))
    rubric.named.update({"go": Fixed(5)})
    del rubric.named["chess"]
    assert len(rubric.listed) == 3 and [each.score for each in rubric.listed] == [1, 2, 9]
    assert list(rubric.named) == list(rubric.named.keys()) == ["reset", "go"]
    assert "go" in rubric.named and [each.score for each in rubric.named.values()] == [3, 5]
    assert dict(rubric.named.items())["go"] is rubric.named["go"]
    rubric.reset()
    for each in (rubric.listed, rubric.named):
        with pytest.raises(NotImplementedError):
            each(None, None)


@pytest.mark.parametrize(
    "make",
    [
        lambda part: WeightedSum({"a": part, "b": Fixed(0.0)}, [0.5, 0.5]),
        lambda part: Sequential(Fixed(1.0), a=part),
        lambda part: Sequential(Gate(Fixed(1.0)), a=part, b=Fixed(0.5)),
    ],
    ids=["sum", "last", "between"],
)
@pytest.mark.parametrize("copied", [lambda each: each, copy.deepcopy], ids=["itself", "a copy"])
def test_a_part_that_is_assigned_is_the_one_that_runs(make, copied):
    first, second = Fixed(0.0), Fixed(1.0)
    rubric = copied(make(first))
    rubric.a = second
    assert rubric.a is rubric.get_rubric("a") is second
    observation = Observation()
    score_step(rubric, None, observation)
    assert observation.reward in (0.5, 1.0) and second.calls == 1
    components = observation.metadata["reward_components"]
    assert components["a"] == 1.0 and first.calls == 0
    assert list(components) == [name for name, _ in make(first).named_rubrics()]


def test_a_part_that_is_deleted_runs_no_more():
    rubric = Sequential(a=Fixed(1.0), b=Fixed(0.25))
    del rubric.b
    assert rubric(None, None) == 1.0 and len(rubric) == 1
    assert [name for name, _ in rubric.named_rubrics()] == ["a"]
    for name in ("b", "c"):
        with pytest.raises(AttributeError, match=name):
            delattr(rubric, name)
    listed = RubricList([Fixed(1), Fixed(2), Fixed(3)])
    del listed.rubric_1
    listed.append(Fixed(4))
    listed.rubric_0 = Fixed(5)
    assert [each.score for each in listed] == [5, 3, 4] and listed[1].score == 3
    assert listed.get_rubric("rubric_3") is listed[2]


def test_a_sum_keeps_a_part_for_each_weight():
    rubric = WeightedSum({"a": Fixed(1.0), "weights": Fixed(0.5)}, [0.5, 0.5])
    for change in (lambda: delattr(rubric, "a"), lambda: setattr(rubric, "a", None)):
        with pytest.raises(ConfigurationError) as caught:
            change()
        assert caught.value.field == "a"
    with pytest.raises(TypeError):  # which is the attribute of all sums
        rubric.weights = Fixed(0.0)
    with pytest.raises(ConfigurationError, match="part of itself"):
        rubric.a = Gate(rubric)
    assert rubric(None, None) == 0.75 and rubric.get_rubric("a") is rubric.a


def test_a_dict_and_its_attributes_are_the_same_parts():
    rubric = RubricDict({"a": Fixed(1)})
    rubric.a = rubric.b = Fixed(2)
    assert rubric["a"] is rubric["b"] is rubric.a
    rubric["a"] = rubric["b"] = Fixed(3)
    assert rubric.a is rubric.b is rubric["a"]
    del rubric["a"]
    del rubric.b
    assert list(rubric) == [] and not hasattr(rubric, "a") and not hasattr(rubric, "b")
    rubric.note = "mine"
    rubric["note"] = Fixed(4)
    rubric.note = "still mine"  # no part of it, which an item of the same name is
    assert rubric["note"].score == 4 and rubric.note == "still mine"


def test_names_may_be_given():
    by_name = {"weights": Fixed(1.0), "style": Fixed(0.5)}
    rubric = WeightedSum(by_name, {"style": 0.5, "weights": 0.5})
    assert rubric(None, None) == 0.75 and rubric.weights == [0.5, 0.5]
    assert [name for name, _ in rubric.named_children()] == ["weights", "style"]
    assert Sequential(Fixed(), last=Fixed(0.5)).last.score == 0.5
    assert Sequential(Fixed(0.25)).rubric_0.score == 0.25
    with pytest.raises(AttributeError, match="rubric_7"):
        _ = rubric.rubric_7


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: WeightedSum([Fixed()], [0.5]), "weights"),
        (lambda: WeightedSum([Fixed()], [0.5, 0.5]), "weights"),
        (lambda: WeightedSum([Fixed(), Fixed()], [float("nan"), 1.0]), "weights"),
        (lambda: WeightedSum([Fixed()], ["1"]), "weights"),
        (lambda: WeightedSum({"a": Fixed()}, {"b": 1.0}), "weights"),
        (lambda: WeightedSum([1.0], [1.0]), "rubric_0"),
        (lambda: Sequential(Fixed), "rubric_0"),
        (lambda: Gate("rubric"), "rubric"),
        (lambda: Gate(Fixed(), "high"), "threshold"),
        (lambda: RubricList([None]), "rubric_0"),
        (lambda: RubricDict({"a.b": Fixed()}), "name"),
        (lambda: RubricDict({"a": 1}), "a"),
        (lambda: RubricDict({"_a": Fixed()}), "_a"),
        (lambda: RubricDict({3: Fixed()}), "3"),
    ],
)
def test_what_cannot_be_put_together_is_refused(make, field):
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert caught.value.field == field
