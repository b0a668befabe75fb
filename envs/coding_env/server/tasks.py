"""Tasks: a prompt, and hidden tests that are judged outside of the agent's interpreter."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coding_env.models import MAX_OUTPUT, MAX_PROMPT, MAX_TESTS
from coding_env.server.expected import Expected
from coding_env.server.output import clean
from openenv_gym.errors import InvalidOptionError


__all__ = ["EXAMPLES", "Call", "Program", "Task", "TaskSet", "load_tasks"]

EXAMPLES = Path(__file__).with_name("example_tasks") / "tasks.jsonl"
"""Tasks that come with this package."""


class ProgramTest(BaseModel):
    """A hidden test of a whole program.

    Attributes:
        stdin: What it finds on its standard input.
        stdout: What it must write, but for white space at the ends of lines and of all of it.
    """

    model_config = ConfigDict(extra="forbid")

    stdin: str = Field(default="", max_length=1 << 20)
    stdout: str = Field(max_length=MAX_OUTPUT // 2)


class TaskModel(BaseModel):
    """A line of a file of tasks.

    Attributes:
        id: Its name.
        prompt: What the agent is told.
        tests: What it is not told: assertions as text, or tests of a whole program.
        split: Which tasks it belongs to.
    """

    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1, max_length=200)
    prompt: str = Field(min_length=1, max_length=MAX_PROMPT)
    tests: list[str | ProgramTest] = Field(min_length=1, max_length=MAX_TESTS)
    split: Literal["train", "validation", "test"] = "train"


@dataclass(frozen=True)
class Call:
    """A hidden test of what a program defines.

    Attributes:
        expression: What is evaluated where the program has run.
        expected: The value that it must have, which never gets there.
    """

    expression: str
    expected: Expected


@dataclass(frozen=True)
class Program:
    """A hidden test of a whole program; see `ProgramTest`."""

    stdin: str
    stdout: str


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: Its name.
        prompt: What the agent is told.
        tests: Hidden tests.
        split: Which tasks it belongs to.
    """

    name: str
    prompt: str
    tests: tuple[Call | Program, ...]
    split: str

    def public(self) -> dict[str, Any]:
        """Return what everybody may know."""
        return {
            "id": self.name,
            "prompt": self.prompt,
            "split": self.split,
            "num_tests": len(self.tests),
        }


class TaskSet:
    """Tasks by split: what OpenEnv calls a task provider. It tells no hidden test.

    Args:
        tasks: All of them.
        path: The file that they are from, which no program shall read.
    """

    def __init__(self, tasks: Sequence[Task], path: str | None = None) -> None:
        self.path = path
        self._splits: dict[str, list[Task]] = {}
        for task in tasks:
            self._splits.setdefault(task.split, []).append(task)

    def list_splits(self) -> list[str]:
        """Return the names of the splits."""
        return list(self._splits)

    def of(self, split: str) -> list[Task]:
        """Return the tasks of a split.

        Raises:
            InvalidOptionError: There is no such split.
        """
        if split not in self._splits:
            raise InvalidOptionError(
                f"split={split!r:.80}: expected one of {', '.join(self._splits)}.", field="split"
            )
        return self._splits[split]

    def find(self, split: str, which: object) -> Task:
        """Return a task by its name, or by its number in the split, from 0.

        Raises:
            InvalidOptionError: There is no such task.
        """
        tasks = self.of(split)
        if type(which) is int and 0 <= which < len(tasks):
            return tasks[which]
        for task in tasks:
            if task.name == which:
                return task
        raise InvalidOptionError(
            f"task={which!r:.80}: expected a name, or a number from 0 to {len(tasks) - 1}, of the "
            f"tasks of the split {split!r}.",
            field="task",
        )


def load_tasks(source: object) -> TaskSet:
    """Read tasks.

    Args:
        source: ``"examples"``; the path of a file with a task as JSON in each line (JSONL); a
            sequence of such tasks; or a `TaskProvider` whose tasks are such.

    Raises:
        InvalidOptionError: It is none of these, or a task is none.
    """
    if isinstance(source, str | Path):
        path = EXAMPLES if source == "examples" else Path(source).absolute()
        return TaskSet(_check(_lines(path)), str(path))
    if isinstance(source, Sequence):
        return TaskSet(_check([(f"tasks[{i}]", each) for i, each in enumerate(source)]))
    if callable(getattr(source, "list_splits", None)) and hasattr(source, "list_tasks"):
        found = []
        provider: Any = source
        for split in provider.list_splits():
            name = split["name"] if isinstance(split, Mapping) else str(split)
            for i, each in enumerate(provider.list_tasks(name)):
                found.append((f"{name}[{i}]", each))
        return TaskSet(_check(found))
    raise _refusal(
        f"tasks={source!r:.80}: expected None, 'examples', the path of a JSONL file, or a list of "
        "tasks."
    )


def _lines(path: Path) -> list[tuple[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:  # it is no UTF-8, or no file can be called that
        raise _refusal(f"{str(path)!r:.200} cannot be read: {error}.") from error
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append((f"line {number}", json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise _refusal(f"{path}, line {number}: no JSON: {error}.") from error
    return found


def _check(found: Sequence[tuple[str, Any]]) -> list[Task]:
    tasks = [_task(where, data) for where, data in found]
    names = [task.name for task in tasks]
    if not tasks:
        raise _refusal("There is no task.")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise _refusal(f"Several tasks are called {', '.join(twice)}.")
    return tasks


def _task(where: str, data: Any) -> Task:
    try:
        model = TaskModel.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise _refusal(f"{where}: {name}: {first['msg']}.") from error
    tests = tuple(_test(f"{where}: tests[{i}]", test) for i, test in enumerate(model.tests))
    return Task(model.id, clean(model.prompt)[:MAX_PROMPT], tests, model.split)


def _test(where: str, test: str | ProgramTest) -> Call | Program:
    if isinstance(test, ProgramTest):
        return Program(test.stdin, lines_of(clean(test.stdout)))
    try:
        (statement,) = ast.parse(test).body
        if not isinstance(statement, ast.Assert):
            raise ValueError
        return _call(statement.test)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise _refusal(
            f"{where}: {test!r:.120} is no assertion that can be judged from outside; expected "
            "`assert EXPRESSION == LITERAL`, `assert EXPRESSION is None`, `assert EXPRESSION` or "
            "`assert not EXPRESSION`."
        ) from error


def _call(asserted: ast.expr) -> Call:
    match asserted:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            return Call(ast.unparse(left), Expected.of(ast.literal_eval(right)))
        case ast.Compare(left=left, ops=[ast.Is()], comparators=[ast.Constant() as right]):
            return Call(ast.unparse(left), Expected.of(right.value))
        case ast.Compare() | ast.BoolOp():
            raise ValueError
        case ast.UnaryOp(op=ast.Not()):
            return Call(ast.unparse(asserted), Expected.of(True))
        case _:
            # Whether it is true, as `assert` asks; unlike `bool`, `not` is no name that a program
            # could give to something else.
            return Call(ast.unparse(_negated(_negated(asserted))), Expected.of(True))


def _negated(expression: ast.expr) -> ast.UnaryOp:
    return ast.UnaryOp(ast.Not(), expression)


def lines_of(text: str) -> str:
    """Return a text without the white space at the ends of its lines, and of itself."""
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())


def _refusal(message: str) -> InvalidOptionError:
    return InvalidOptionError(message, field="tasks")
