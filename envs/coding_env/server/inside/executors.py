"""What runs a program: Python itself, or smolagents' interpreter of a part of Python."""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
import os
import sys
import traceback
import types
from typing import Any, Protocol

from coding_env.server.inside.canonical import canonical


__all__ = [
    "Executor",
    "PythonExecutor",
    "SmolagentsExecutor",
    "make_executor",
    "preload",
    "restore_builtins",
]

# Programs share these with us: what they assign to the module of builtins is taken back.
restore_builtins = functools.partial(vars(builtins).update, dict(vars(builtins)))

MAX_VALUE = 4096
"""Longest text of a last expression's value, in characters; the middle is cut out."""


class Executor(Protocol):
    """Runs programs, one after the other, and keeps their variables."""

    def run(self, code: str) -> tuple[int, str | None]:
        """Run a program; return its exit code, and the text of its last expression's value.

        The text is None where the last statement is no expression, or has the value None.
        """

    def evaluate(self, expression: str) -> tuple[int, str | None]:
        """Return 0 and the canonical text of an expression's value, or 1 and None."""


class PythonExecutor:
    """The interpreter itself: all of Python, in the module ``__main__``."""

    def __init__(self) -> None:
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        self._names: dict[str, Any] = module.__dict__
        self._runs = 0

    def run(self, code: str) -> tuple[int, str | None]:
        """See `Executor`."""
        self._runs += 1
        name = f"<step {self._runs}>"
        value = None
        try:
            # Tracebacks show the lines of a file whose lines are known.
            linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
            # All of it is compiled before any of it runs.
            tree = ast.parse(code, name)
            last, expression = tree.body[-1] if tree.body else None, None
            if isinstance(last, ast.Expr):
                tree.body.pop()
                expression = compile(ast.Expression(last.value), name, "eval", dont_inherit=True)
            exec(compile(tree, name, "exec", dont_inherit=True), self._names)
            if expression is not None:
                value = eval(expression, self._names)
                restore_builtins()
            return 0, None if value is None else _shorten(repr(value))
        except BaseException as error:
            restore_builtins()
            return _exit_code(error), None

    def evaluate(self, expression: str) -> tuple[int, str | None]:
        """See `Executor`."""
        try:
            value = eval(compile(expression, "<test>", "eval", dont_inherit=True), self._names)
            return 0, canonical(value)
        except BaseException:
            return 1, None


class SmolagentsExecutor:
    """smolagents' `LocalPythonExecutor`, which walks over the syntax tree itself.

    Args:
        imports: Modules that programs may import beside those that smolagents allows.
    """

    def __init__(self, imports: list[str]) -> None:
        from smolagents.local_python_executor import LocalPythonExecutor

        # Time is bounded from outside, which holds for all code.
        self._executor = LocalPythonExecutor(imports, timeout_seconds=None)
        self._executor.send_tools({})

    def run(self, code: str) -> tuple[int, str | None]:
        """See `Executor`; what was printed is printed when the program has ended."""
        value = None
        code_, error_ = 0, ""
        try:
            value = self._executor(code).output
        except SystemExit as error:
            code_ = _status(error)
        except BaseException as error:
            code_, error_ = 1, f"{type(error).__name__}: {error}\n"
        os.write(1, str(self._executor.state.get("_print_outputs", "")).encode("utf-8", "replace"))
        os.write(2, error_.encode("utf-8", "replace"))
        return code_, None if value is None else _shorten(repr(value))

    def evaluate(self, expression: str) -> tuple[int, str | None]:
        """See `Executor`."""
        try:
            return 0, canonical(self._executor(expression).output)
        except BaseException:
            return 1, None


def preload(name: str) -> None:
    """Load what an executor needs, so that each fork has it already.

    Raises:
        ImportError: It is not installed.
    """
    if name == "smolagents":
        import smolagents.local_python_executor  # noqa: F401  (for the forks)


def make_executor(name: str, imports: list[str]) -> Executor:
    """Make an executor: ``"python"`` or ``"smolagents"``."""
    return SmolagentsExecutor(imports) if name == "smolagents" else PythonExecutor()


def _exit_code(error: BaseException) -> int:
    """Show an exception as Python does, and return the exit code that it stands for."""
    if isinstance(error, SystemExit):
        if isinstance(error.code, str):
            _complain(f"{error.code}\n")
        return _status(error)
    trace = error.__traceback__
    error.__traceback__ = trace.tb_next if trace is not None else None  # without our own frame
    _complain("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    return 1


def _status(error: SystemExit) -> int:
    if error.code is None:
        return 0
    return error.code & 0xFF if isinstance(error.code, int) else 1


def _complain(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except BaseException:  # whatever the program has put there
        os.write(2, text.encode("utf-8", "backslashreplace"))


def _shorten(text: str) -> str:
    if len(text) <= MAX_VALUE:
        return text
    note = f" [... {len(text)} characters ...] "
    half = (MAX_VALUE - len(note)) // 2
    return text[:half] + note + text[-half:]
