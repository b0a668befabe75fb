"""What the option `rubric` stands for."""

import threading

import pytest

from openenv_gym.errors import InvalidOptionError
from openenv_gym.rubrics import Gate, load_rubric
from tests.rubrics import scores


HERE = "tests.rubrics.scores"


def test_none_is_the_default():
    default = scores.Fixed()
    assert load_rubric(None) is None
    assert load_rubric(None, default=default) is default


def test_each_environment_gets_a_rubric_of_its_own():
    given = Gate(scores.Fixed())
    first, second = load_rubric(given), load_rubric(given, default=scores.Failing())
    first(None, None)
    assert (first.rubric.calls, second.rubric.calls, given.rubric.calls) == (1, 0, 0)


@pytest.mark.parametrize(
    ("attribute", "score"), [("TEMPLATE", 0.25), ("Fixed", 1.0), ("make_fixed", 0.75)]
)
def test_text_names_a_rubric_a_class_or_a_function(attribute, score):
    first, second = load_rubric(f"{HERE}:{attribute}"), load_rubric(f"{HERE}:{attribute}")
    assert first(None, None) == score
    assert first is not second and second.calls == scores.TEMPLATE.calls == 0


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (3, "expected a rubric"),
        (scores.Fixed, "expected a rubric"),
        ("", "module:attribute"),
        ("tests.rubrics.scores", "module:attribute"),
        (":Fixed", "module:attribute"),
        (".scores:Fixed", "module:attribute"),
        ("no_such_module:Fixed", "no_such_module"),
        (f"{HERE}:nothing", "nothing"),
        (f"{HERE}:NUMBER", "is 3"),
        (f"{HERE}:make_unsaid", "return annotation"),
        (f"{HERE}:make_wrong", "returned 1"),
        (f"{HERE}:make_failing", "no weights"),
        ("os:abort", "return annotation"),
        ("builtins:int", "return annotation"),
        ("openenv_gym.rubrics:Gate", "cannot be made"),
    ],
)
def test_anything_else_is_refused(spec, message):
    with pytest.raises(InvalidOptionError, match=message) as caught:
        load_rubric(spec)
    assert caught.value.field == "rubric"


def test_a_rubric_that_cannot_be_copied_is_refused():
    rubric = scores.Fixed()
    rubric.lock = threading.Lock()
    with pytest.raises(InvalidOptionError, match="__deepcopy__"):
        load_rubric(rubric)
