"""Observations in words."""

from __future__ import annotations

import numpy as np
import pytest

from openenv_gym.agents import observation_text, result_text


def test_an_only_text_stands_for_itself() -> None:
    assert observation_text({"prompt": "Go.", "done": False, "metadata": {}}) == "Go."
    assert observation_text({"prompt": "Go."}, {"prompt": "Go."}) == "Go."


def test_a_prompt_is_told_once_and_empty_fields_never() -> None:
    seen = {"prompt": "Rules.", "stdout": "1\n2", "exit_code": 0, "stderr": "", "left": []}
    assert observation_text(seen) == "Rules.\nstdout:\n1\n2\nexit_code: 0"
    assert observation_text(seen, {"prompt": "Rules."}) == "stdout:\n1\n2\nexit_code: 0"


def test_arrays_are_numbers_up_to_a_size() -> None:
    assert observation_text({"value": np.array([1.5, 2.0])}) == "[1.5, 2.0]"
    picture = np.zeros((210, 160, 3), np.uint8)
    assert (
        observation_text({"value": picture}) == '"an array of dtype uint8 and shape (210, 160, 3)"'
    )


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        ({"a": np.int64(1), "b": [np.zeros(2)]}, '{"a": 1, "b": [[0.0, 0.0]]}'),
        (b"\x00\x01", '"2 bytes"'),
        ("é", "é"),
        (["é"], '["é"]'),
    ],
)
def test_results_of_tools_are_text_or_json(result: object, text: str) -> None:
    assert result_text(result) == text
