"""Every type of a field that has a space, nested in every way: values come back, spaces work."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openenv_gym.errors import InvalidActionError
from openenv_gym.spaces import ModelMapping, check_action, space_from_data, space_to_data

from .compare import assert_same_space
from .strategies import seeds
from .typed import Typed, action, assert_equal, types


# Gymnasium's Sequence takes the elements of a stack of numbers for Python's numbers.
pytestmark = pytest.mark.filterwarnings("ignore:.*Casting input x")

thorough = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@thorough
@given(typed=types(), data=st.data())
def test_a_value_becomes_a_sample_and_comes_back(typed: Typed, data: st.DataObject) -> None:
    model = action(typed.annotation)
    mapping = ModelMapping.of(model)
    instance: Any = model(field=data.draw(typed.values))
    sample = mapping.to_sample(instance)
    assert mapping.space.contains(sample)
    check_action(mapping.space, sample)
    back: Any = mapping.to_model(sample)
    assert_equal(back.field, instance.field)
    assert mapping.space.contains(mapping.to_sample(back))


@thorough
@given(typed=types(), seed=seeds)
def test_a_sample_becomes_a_value_whose_sample_lies_in_the_space(typed: Typed, seed: int) -> None:
    mapping = ModelMapping.of(action(typed.annotation))
    space = copy.deepcopy(mapping.space)
    space.seed(seed)
    for _ in range(3):
        try:
            instance: Any = mapping.to_model(space.sample())
        except InvalidActionError:
            continue  # the model knows more than the space can say
        sample = mapping.to_sample(instance)
        assert space.contains(sample)
        again: Any = mapping.to_model(sample)
        assert_equal(again.field, instance.field)


@thorough
@given(typed=types())
def test_the_space_can_be_sent(typed: Typed) -> None:
    space = ModelMapping.of(action(typed.annotation)).space
    assert_same_space(space_from_data(space_to_data(space)), space)


@thorough
@given(typed=types(), data=st.data())
def test_vectors_can_be_made_of_the_space(typed: Typed, data: st.DataObject) -> None:
    model = action(typed.annotation)
    mapping = ModelMapping.of(model)
    samples = [mapping.to_sample(model(field=data.draw(typed.values))) for _ in range(2)]
    out: Any = create_empty_array(mapping.space, 2)
    batch = concatenate(mapping.space, samples, out)
    parts = list(iterate(batch_space(mapping.space, 2), batch))
    assert len(parts) == 2
    for part, sample in zip(parts, samples, strict=True):
        first: Any = mapping.to_model(part)
        second: Any = mapping.to_model(sample)
        assert_equal(first.field, second.field)


@thorough
@given(typed=types())
def test_it_can_be_described(typed: Typed) -> None:
    described = ModelMapping.of(action(typed.annotation)).describe()
    assert json.loads(json.dumps(described, allow_nan=False)) == described
