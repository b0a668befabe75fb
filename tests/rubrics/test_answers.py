"""The score in what a judge says."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.rubrics.judge.answers import read_answer, read_by_pattern


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("Score: -0.5", -0.5),
        ("score = 0.25", 0.25),
        ("It is fine.\n\n**Score:** **0.75**", 0.75),
        ("**Final score: 0.8**", 0.8),
        ("- Score: .5.", 0.5),
        ("Score:\n-1e-1", -0.1),
        ("Score: \u22120.5", -0.5),
        ("Score: 0.8 (it compiles)", 0.8),
        ("Score: 0.8\n\nReasoning: 3 of 4 tests pass.", 0.8),
        ("Score: 0.8 - it compiles", 0.8),
        ("Score: 0.8 \u2014 it compiles", 0.8),
        ("Score: 0.8. It compiles.", 0.8),
        ("Score: **0.8**, it compiles", 0.8),
        ("Score: 0.8 **(one of the tests fails)**", 0.8),
        ("Score: 1", 1.0),
        ("Score: 1.", 1.0),
        ("Score: 1/1", 1.0),
        ("Score: 1/1 (all)", 1.0),
        ("Score: 0.5 out of 1", 0.5),
        ("Score: 0.5\nSo:\nScore: 0.50", 0.5),
        ('{"score": -0.5}', -0.5),
        ('{"why": "3 of 4", "score": "0.25"}', 0.25),
        ('Well:\n```json\n{\n  "score": 0.5\n}\n```\n', 0.5),
        ('The agent wrote "Score: 1.0", which is wrong.\nScore: 0.1', 0.1),
        ("<think>\nScore: 0.9? No.\n</think>\nScore: 0.4", 0.4),
        ("-0.5", -0.5),
        (" **0.5/1** \n", 0.5),
        ("+1", 1.0),
    ],
    ids=repr,
)
def test_one_marked_number_is_the_score(reply, score):
    assert read_answer(reply, best=1.0) == score


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("", "no score"),
        ("I cannot say.", "no score"),
        ("0.3 or 0.7", "no score"),
        ("I give 0.5.", "no score"),
        ("The score is 0.5", "no score"),
        ('The agent wrote "Score: 1.0".', "no score"),
        ("Score: 0.3\nScore: 0.7", "several"),
        ('{"score": 0.3}\nScore: 0.7', "several"),
        ('{"score": 0.3}\n{"score": 0.7}', "several"),
        ('{"score": 0.3, "score": 0.7}', "no score"),
        ('{"score": true}', "no number"),
        ('{"score": NaN}', "no score"),
        ('{"score": 1%s}' % ("0" * 400), "too large"),
        ('{"score": 0.5} or {"score": 1}', "stands behind"),
        ("Score: 0.5 or 0.7", "no number alone"),
        ("Score: 0,5", "no number alone"),
        ("Score: high", "no number alone"),
        *(
            (f"Score: {said}", "no number alone")
            for said in (
                "1%",
                "1 %",
                "**1**%",
                "1.%",
                "1.0%",
                "10%",
                "1/1%",
                "1/10%",
                "1 out of 1%",
                "1\uff05",
                "1 (\uff05)",
                "1 (percent)",
                "1, in per cent",
                "1 percent",
                "1 out of ten",
                "1 (out of ten)",
                "1 (of five)",
                "1. Out of a hundred",
                "1/ten",
                "1 of ten",
                "1st attempt",
                "1st",
                "1x",
                "1e",
                "1.2.3",
                "1\u00bd",
                "1\u0662",
                "1 point",
                "1 or more",
                "1-ten",
            )
        ),
        ("1%", "no score"),
        ("1 out of ten", "no score"),
        ('{"score": "1%"}', "no number"),
        ("Score: 3/4", "fraction"),
        ("Score: " + "x" * 300_000, "too long"),
        ("<think>Score: 1", "no score"),
        ('{"s\\u0063ore": 1.0}', "no score"),
        ('{"why": "\\u0073core", "\\u0073core": 1.0}', "no score"),
        ("{\n" * 10_000, "too many"),
        ("{" * 60_000, "no score"),
        ("\n" * 60_000, "no score"),
        ('{"a":' * 10_000, "no score"),
    ],
    ids=lambda each: repr(each)[:40],
)
def test_anything_else_is_none(reply, message):
    with pytest.raises(ValueError, match=message):
        read_answer(reply, best=1.0)


@given(
    st.floats(-1e6, 1e6, allow_nan=False), st.sampled_from(["Score: {}", '{{"score": {}}}', "{}"])
)
def test_signs_and_fractions_are_kept(number, form):
    assert read_answer(form.format(number)) == number


@given(st.text(max_size=200))
def test_text_is_read_or_refused(text):
    with contextlib.suppress(ValueError):
        read_answer(text)


def test_with_a_key_only_answers_that_have_it_count():
    assert read_answer("Score: 1\nScore 3fa9: 0.5\nScore 0000: 0", "3fa9") == 0.5
    assert read_answer('{"score": 1}\n{"score": 0.25, "key": "3fa9"}', "3fa9") == 0.25
    for reply in ("Score: 1", "1", '{"score": 1}', "Score 0000: 1"):
        with pytest.raises(ValueError, match="no score"):
            read_answer(reply, "3fa9")


def test_a_pattern_finds_what_it_wants():
    assert read_by_pattern("<s>-2</s>", re.compile(r"<s>(.*?)</s>")) == -2
    assert read_by_pattern("take 7", re.compile(r"\d")) == 7
    for reply in ("nothing", "<s>much</s>", "<s>1</s><s>2</s>"):
        with pytest.raises(ValueError):
            read_by_pattern(reply, re.compile(r"<s>(.*?)</s>"))
    optional = re.compile(r"Score: ?(\d)?")
    assert read_by_pattern("Score: 1", optional) == 1
    for reply in ("Score: none", "Score: 1, or Score: none"):
        with pytest.raises(ValueError, match="no score where"):
            read_by_pattern(reply, optional)
