"""What regular expressions say about texts."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openenv_gym.spaces.patterns import form_of


@pytest.mark.parametrize(
    ("pattern", "charset", "shortest", "longest"),
    [
        ("^a$", "a", 1, 1),
        ("^[a-c]{3}$", "abc", 3, 3),
        ("^[a-c]{2,5}$", "abc", 2, 5),
        ("^[a-c]{2,}$", "abc", 2, None),
        ("^[a-c]*$", "abc", 0, None),
        ("^[a-c]+$", "abc", 1, None),
        ("^[ca-b_-]?$", "-_abc", 0, 1),
        (r"^\d{4}-\d\d$", "-0123456789", 7, 7),
        (r"^[\w.]+$", "".join(sorted("." + string.digits + string.ascii_letters + "_")), 1, None),
        (r"^[\]\\]$", "\\]", 1, 1),
        (r"^\.\$$", "$.", 2, 2),
        ("^[äß]$", "ßä", 1, 1),
        ("^[^ -~]$", "\t\n\x0b\x0c\r", 1, 1),
        ("^[a-h][1-8][a-h][1-8][qrbn]?$", "12345678abcdefghnqr", 4, 5),
    ],
)
def test_a_simple_pattern_tells_characters_and_lengths(
    pattern: str, charset: str, shortest: int, longest: int | None
) -> None:
    form = form_of(pattern)
    assert form is not None
    assert (form.charset, form.min_length, form.max_length) == (charset, shortest, longest)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "^$",
        "abc",
        "^abc",
        "abc$",
        r"^abc\$",
        "^(a|b)$",
        "^a|b$",
        "^(?i)a$",
        "^a*?$",
        "^a{2}{3}$",
        "^a{3,2}$",
        "^[a-$",
        "^[b-a]$",
        "^[a&&b]$",
        "^[[:alpha:]]$",
        r"^\D$",
        r"^\bx$",
        r"^[\D]$",
        r"^[\d-z]$",
        "^a^b$",
        "^[\\x00-\\xff]$",
    ],
)
def test_nothing_is_said_of_others(pattern: str) -> None:
    assert form_of(pattern) is None


atoms = st.sampled_from(["a", "[b-d]", "[^a-zA-Z]", r"\d", r"\.", r"[\w-]", ".", "-"])
counts = st.sampled_from(["", "?", "*", "+", "{2}", "{1,3}", "{2,}"])


@settings(max_examples=200, deadline=None)
@given(data=st.data(), parts=st.lists(st.tuples(atoms, counts), min_size=1, max_size=4))
def test_what_matches_has_that_form(data: st.DataObject, parts: list[tuple[str, str]]) -> None:
    pattern = "^" + "".join(atom + count for atom, count in parts) + "$"
    form = form_of(pattern)
    assert form is not None
    alphabet = st.sampled_from(string.printable)
    text = data.draw(
        st.from_regex(re.compile(pattern, re.ASCII), alphabet=alphabet, fullmatch=True)
    )
    assert set(text) <= set(form.charset)
    assert form.min_length <= len(text)
    assert form.max_length is None or len(text) <= form.max_length
