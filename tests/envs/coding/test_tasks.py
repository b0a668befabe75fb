"""Tasks, their hidden tests, and programs that try to pass without solving them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coding_env.models import CodeAction, CodeObservation
from coding_env.rubrics import CodeRubric, OpenEnvRubric
from coding_env.server.coding_environment import CodingEnvironment
from coding_env.server.expected import Expected
from coding_env.server.interpreter import Interpreter, Run
from coding_env.server.tasks import EXAMPLES, Call, Program, load_tasks
from openenv_gym.errors import InvalidOptionError, ResetNeededError
from openenv_gym.models import CallToolAction, ListToolsAction
from openenv_gym.server.adapter import TypedEnv

from .conftest import Make, hurried, run
from .solutions import SOLUTIONS


SQUARE = {
    "id": "square",
    "prompt": "Write `square(n)`.",
    "tests": [
        "assert square(2) == 4",
        "assert square(-3) == 9",
        "assert square(0.5) == 0.25",
        "assert square(10**10) == 100000000000000000000",
    ],
}
GOOD = "def square(n):\n    return n * n"


def score(environment: CodingEnvironment, code: str) -> float:
    """Return the reward, as the server would compute it."""
    seen = run(environment, code)
    assert environment.rubric is not None
    reward = environment.rubric(CodeAction(code=code), seen)
    assert isinstance(reward, float)
    return reward


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_examples_can_be_solved(make: Make, split: str) -> None:
    environment = make(tasks="examples", split=split)
    tasks = environment.list_tasks(split)
    for number, task in enumerate(tasks):
        seen = environment.reset(task=number)
        assert seen.prompt == task["prompt"]
        assert (seen.tests_passed, seen.tests_total) == (0, task["num_tests"])
        seen = run(environment, SOLUTIONS[task["id"]])
        assert (seen.tests_passed, seen.done, seen.truncated) == (task["num_tests"], True, False)
        environment.reset(task=task["id"])
        assert score(environment, "pass") < 1.0
    with pytest.raises(ResetNeededError):
        run(environment, "1")


def test_reward_is_the_fraction_passed(make: Make) -> None:
    environment = make(tasks=[SQUARE], attempts=3)
    environment.reset()
    assert score(environment, "def square(n): return abs(2 * n)") == 0.25
    assert environment.state.attempts_left == 2
    assert score(environment, "def square(n): return abs(2 * n)") == 0.0  # no better
    seen = run(environment, GOOD)
    assert (seen.tests_passed, seen.done) == (4, True)
    assert seen.metadata["best_before"] == 1
    assert environment.rubric(CodeAction(code=GOOD), seen) == 0.75


def test_attempts_are_counted(make: Make) -> None:
    environment = make(tasks=[SQUARE], attempts=2)
    environment.reset()
    assert [run(environment, "1").done for _ in range(2)] == [False, True]
    environment.reset()
    assert environment.state.attempts_left == 2


def test_a_seed_chooses_the_task(make: Make) -> None:
    first, second = make(tasks="examples"), make(tasks="examples")
    drawn = [[each.reset(seed=s).prompt for s in range(8)] for each in (first, second)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) > 1


# -- faking ---------------------------------------------------------------------------------------

FAKES = {
    "an object that equals everything": (
        "class Any(int):\n    def __eq__(self, other): return True\n    __hash__ = None\n"
        "def square(n): return Any()"
    ),
    "a subclass with another text": (
        "class Text(str):\n    def __repr__(self): return '4'\n    __str__ = __repr__\n"
        "def square(n): return Text()"
    ),
    "an exit": "import sys; sys.exit(0)",
    "an exit in a test": "import os\ndef square(n): os._exit(0)",
    "patched builtins": (
        "import builtins\nfor name in ('repr', 'str', 'type', 'format', 'isinstance'):\n"
        "    setattr(builtins, name, lambda *a: '4')\ndef square(n): return object()"
    ),
    "patched judge": (
        "import sys\nfor name, module in list(sys.modules.items()):\n"
        "    if 'coding_env' in name:\n"
        "        for each in ('canonical', 'REPLY'):\n"
        "            if hasattr(module, each): setattr(module, each, lambda value: '4')\n"
        "def square(n): return None"
    ),
    "an endless loop": "while True: pass",
    "an endless loop in a test": "def square(n):\n    while True: pass",
}


@pytest.mark.parametrize("name", FAKES)
def test_a_fake_passes_no_more_than_it_can_guess(make: Make, name: str) -> None:
    environment = make(tasks=[SQUARE])
    environment.reset()
    with hurried(environment):
        seen = run(environment, FAKES[name])
    # It may say 4 of everything, which is right once.
    assert seen.tests_passed <= 1
    environment.reset()
    assert run(environment, GOOD).tests_passed == 4


def test_what_is_expected_never_reaches_a_program(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    request = Interpreter._request

    def spied(self: Interpreter, kind: int, text: str, wall_s: float) -> Run:
        sent.append(text)
        return request(self, kind, text, wall_s)

    monkeypatch.setattr(Interpreter, "_request", spied)
    tests: list[Any] = ["assert f(1) == 'xylophone'", {"stdin": "2", "stdout": "xylophone"}]
    environment = make(tasks=[{"id": "t", "prompt": "p", "tests": tests}])
    seen = environment.reset()
    assert "xylophone" not in seen.model_dump_json()
    code = "def f(n): return 'xylo' + 'phone'\nprint(f(1))"
    seen = run(environment, code)
    assert seen.tests_passed == 2
    assert sent == [code, code, "f(1)", code]


def test_the_file_of_tasks_cannot_be_read(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(SQUARE))
    environment = make(tasks=str(path), attempts=2)
    environment.reset()
    if "landlock" not in environment.state.isolation:
        pytest.skip("the kernel has no Landlock")
    for hidden in (path, EXAMPLES):
        seen = run(environment, f"open({str(hidden)!r}).read()")
        assert "PermissionError" in seen.stderr
        environment.reset()


def test_an_attempt_leaves_nothing_to_the_next(make: Make) -> None:
    environment = make(tasks=[SQUARE], attempts=5)
    environment.reset()
    spy = (
        "import os\n"
        "def square(n):\n"
        "    open('seen', 'a').write(str(n))\n"
        "    return os.path.getsize('seen') > 0 and n * n\n"
    )
    assert run(environment, spy + "print(os.listdir('.'))").stdout == "[]\n"
    environment.reset()
    assert run(environment, "import os; os.listdir('.')").result == "[]"
    assert run(environment, "square").exit_code == 1


# -- forms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expression", "expected"),
    [
        ("assert f(1) == [1, 2.5, 'a']", "f(1)", [1, 2.5, "a"]),
        ("assert f(1) == -1", "f(1)", -1),
        ("assert f(1) is None", "f(1)", None),
        ("assert f(1)", "not not f(1)", True),
        ("assert not f(1)", "not f(1)", True),
        ("assert (lambda: f(1))() if g else 2", "not not ((lambda: f(1))() if g else 2)", True),
        ("assert f(x=(1, 2)) == {'b': {1, 2}, 'a': ()}", "f(x=(1, 2))", {"a": (), "b": {1, 2}}),
    ],
)
def test_assertions(text: str, expression: str, expected: Any) -> None:
    (task,) = load_tasks([{"id": "a", "prompt": "p", "tests": [text]}]).of("train")
    assert task.tests == (Call(expression, Expected.of(expected)),)


def test_a_program_is_judged_by_what_it_prints(make: Make) -> None:
    tests = [{"stdin": "3\n", "stdout": "9 \n\n"}, {"stdin": "日\n", "stdout": "日"}]
    (task,) = load_tasks([{"id": "a", "prompt": "p", "tests": tests}]).of("train")
    assert task.tests[0] == Program("3\n", "9")
    environment = make(tasks=[{"id": "a", "prompt": "p", "tests": tests}], attempts=3)
    environment.reset()
    assert run(environment, "print(int(input()) ** 2)").tests_passed == 1
    assert run(environment, "print(input())").tests_passed == 1
    assert run(environment, "x = input(); print(9 if x == '3' else x)").tests_passed == 2


@pytest.mark.parametrize(
    "tasks",
    [
        [],
        "missing.jsonl",
        5,
        [{"id": "a", "prompt": "p", "tests": []}],
        [{"id": "a", "prompt": "p"}],
        [{"id": "a", "prompt": "p", "tests": ["f(1) == 1"]}],
        [{"id": "a", "prompt": "p", "tests": ["assert f(1) == g(1)"]}],
        [{"id": "a", "prompt": "p", "tests": ["assert f(1) < 3"]}],
        [{"id": "a", "prompt": "p", "tests": ["import os"]}],
        [{"id": "a", "prompt": "p", "tests": ["assert ("]}],
        [{"id": "a", "prompt": "p", "tests": [{"stdin": "a"}]}],
        [{"id": "a", "prompt": "p", "tests": ["assert f()"], "split": "dev"}],
        [{"id": "a", "prompt": "p", "tests": ["assert f()"]}] * 2,
        ["text"],
    ],
)
def test_what_is_no_task(make: Make, tasks: Any) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        make(tasks=tasks)
    assert caught.value.field == "tasks"


def test_task_provider(make: Make) -> None:
    environment = make(tasks="examples")
    assert environment.list_splits() == ["train", "validation", "test"]
    assert environment.num_tasks("test") == 2
    assert environment.get_task("test", 0)["id"] == "tally"
    assert [each["id"] for each in environment.get_task_range("test", 1)] == ["ledger"]
    assert all("tests" not in each for each in environment.list_tasks("train"))
    copied = make(tasks=Provider(), split="validation")
    assert copied.num_tasks("validation") == 1
    with pytest.raises(InvalidOptionError, match="split"):
        environment.list_tasks("other")
    with pytest.raises(NotImplementedError):
        make().list_splits()


class Provider:
    def list_splits(self) -> list[Any]:
        return [{"name": "validation", "type": "validation"}]

    def list_tasks(self, split: str) -> list[Any]:
        return [{**SQUARE, "split": split}]


@pytest.mark.parametrize("options", [{"task": 99}, {"task": "no"}, {"task": True}, {"level": 1}])
def test_wrong_options_of_a_reset(make: Make, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError):
        make(tasks="examples").reset(options=options)


def test_a_task_is_asked_for_where_there_is_none(make: Make) -> None:
    with pytest.raises(InvalidOptionError, match="without tasks"):
        make().reset(task=0)


# -- rewards and tools ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = 1", 0.1),
        ("x = 1" + " + 1" * 50, 0.0),
        ("import os", -0.9),
        ("open('f')", -0.9),
        ("print('import os')", 0.1),
        ("def f(:", -0.1),
        ("1/0", 0.1),
    ],
)
def test_openenv_rubric(code: str, expected: float) -> None:
    rubric = OpenEnvRubric()
    assert rubric(CodeAction(code=code), CodeObservation()) == pytest.approx(expected)
    assert [name for name, _ in rubric.named_children()] == ["safety", "brevity", "syntax"]


def test_default_rubric_without_a_task(make: Make) -> None:
    environment = make()
    assert isinstance(environment.rubric, CodeRubric)
    environment.reset()
    assert score(environment, "1") == 0.0
    assert score(environment, "1 / 0") == -0.1
    action = CallToolAction(tool_name="run_python", arguments={"code": "1 / 0"})
    assert environment.rubric(action, environment.step(action)) == -0.1
    assert isinstance(make(rubric="openenv").rubric, OpenEnvRubric)
    with pytest.raises(InvalidOptionError, match="rubric"):
        make(rubric="nothing")


def test_tools(make: Make) -> None:
    environment = make(tasks=[SQUARE], attempts=2)
    environment.reset()
    names = [each.name for each in environment.step(ListToolsAction()).tools]
    assert sorted(names) == ["read_task", "run_python", "submit_solution"]

    def call(name: str, **arguments: Any) -> Any:
        action = CallToolAction(tool_name=name, arguments=arguments)
        seen = environment.step(action)
        return seen, environment.rubric(action, seen)

    assert call("read_task")[0].result == SQUARE["prompt"]
    seen, reward = call("run_python", code="x = 20\nx + 1")
    assert (seen.result["result"], seen.done, reward) == ("21", False, 0.0)
    assert environment.state.attempts_left == seen.result["attempts_left"] == 2
    seen, reward = call("run_python", code="1 / 0")  # no attempt, so it costs nothing
    assert (seen.result["exit_code"], reward) == (1, 0.0)
    seen, reward = call("submit_solution", code="def square(n): return 4")
    assert (seen.result["tests_passed"], seen.done, reward) == (1, False, 0.25)
    seen, reward = call("submit_solution", code=GOOD)
    assert (seen.result["tests_passed"], seen.done, reward) == (4, True, 0.75)
    assert call("run_python", code="1")[0].error is not None
    environment.reset()
    assert call("run_python", code="x" * 40_000)[0].error is not None
    assert "submit_solution" not in [each.name for each in make().list_tools().tools]


def test_observations_of_a_task_lie_in_their_space(make: Make) -> None:
    for fields in ("all", "openenv"):
        typed = TypedEnv(make(tasks="examples", fields=fields))
        observation, info = typed.reset(seed=3)
        assert observation in typed.observation_space
        assert info["task"]
        observation, _, terminated, _, info = typed.step("x = 1")
        assert observation in typed.observation_space
        assert terminated
        assert info["attempts_left"] == 0
    assert set(observation) == {"stdout", "stderr", "exit_code"}
    assert info["tests_total"] > 0
    assert info["result"] == ""
