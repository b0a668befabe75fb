"""What goes in and out of the coding environment."""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import string
from typing import Annotated, Any

from gymnasium.spaces import Text
from pydantic import Field

from openenv_gym.models import Action, Observation, State


__all__ = [
    "CHARACTERS",
    "MAX_CODE",
    "MAX_OUTPUT",
    "MAX_PROMPT",
    "MAX_RESULT",
    "MAX_TESTS",
    "CodeAction",
    "CodeObservation",
    "CodeState",
    "PlainCodeObservation",
    "facts_of",
]

MAX_CODE = 32_768
"""Longest program, in characters."""

MAX_OUTPUT = 16_384
"""Longest standard output or error of a step, in characters, with the note about what was cut."""

MAX_RESULT = 4_096
"""Longest text of a last expression's value, in characters."""

MAX_PROMPT = 16_384
"""Longest prompt of a task, in characters."""

MAX_TESTS = 1_000
"""Most hidden tests of a task."""

MAX_CUT_BYTES = (1 << 63) - 1

CHARACTERS = string.printable + "".join(
    chr(code)
    for first, last in (
        (0xA0, 0x5FF),  # Latin, Greek, Cyrillic, Armenian, Hebrew
        (0x2000, 0x2BFF),  # punctuation, arrows, mathematics, box drawing, symbols
        (0xFE0F, 0xFE0F),
        (0xFFFD, 0xFFFD),
        (0x1F300, 0x1FAFF),  # emoji
    )
    for code in range(first, last + 1)
)
"""What the texts of actions and observations are made of. Other characters are written as escapes
in observations; in a program that comes from Gymnasium they are no action."""


def _text(longest: int) -> Text:
    return Text(longest, min_length=0, charset=CHARACTERS)


class CodeAction(Action):
    """A program in Python; as a Gymnasium action, the string itself.

    Attributes:
        code: The program. Variables of earlier ones are there.
    """

    code: Annotated[str, _text(MAX_CODE)] = Field(
        max_length=MAX_CODE, description="Python code to run"
    )


class CodeObservation(Observation):
    """What became of a program.

    Attributes:
        stdout: What it wrote to its standard output: head and tail where that was too long.
        stderr: Likewise its standard error, with the traceback of an exception and with what the
            environment has to say.
        exit_code: 0 where it ended well; 1 after an exception; what it gave to `sys.exit`; 124
            where its time was over; 128 and the signal's number where a signal ended its
            interpreter.
        result: `repr` of the value of its last expression; empty where that is None, or where the
            last statement is no expression.
        timed_out: Its time was over.
        stdout_cut_bytes: Bytes of the standard output that are not in `stdout`.
        stderr_cut_bytes: Likewise of the standard error.
        prompt: The task, after a reset; empty where there is none, and after a step.
        tests_passed: Hidden tests that the program has passed.
        tests_total: Hidden tests of the task; 0 where there is none.
    """

    stdout: Annotated[str, _text(MAX_OUTPUT)] = Field(
        default="", max_length=MAX_OUTPUT, description="Standard output"
    )
    stderr: Annotated[str, _text(MAX_OUTPUT)] = Field(
        default="", max_length=MAX_OUTPUT, description="Standard error, with tracebacks"
    )
    exit_code: int = Field(default=0, ge=0, le=255, description="0 where it ended well")
    result: Annotated[str, _text(MAX_RESULT)] = Field(
        default="", max_length=MAX_RESULT, description="Value of the last expression, by `repr`"
    )
    timed_out: bool = Field(default=False, description="Its time was over")
    stdout_cut_bytes: int = Field(
        default=0, ge=0, le=MAX_CUT_BYTES, description="Bytes of stdout that were cut out"
    )
    stderr_cut_bytes: int = Field(
        default=0, ge=0, le=MAX_CUT_BYTES, description="Bytes of stderr that were cut out"
    )
    prompt: Annotated[str, _text(MAX_PROMPT)] = Field(
        default="", max_length=MAX_PROMPT, description="The task, after a reset"
    )
    tests_passed: int = Field(default=0, ge=0, le=MAX_TESTS, description="Hidden tests passed")
    tests_total: int = Field(default=0, ge=0, le=MAX_TESTS, description="Hidden tests in all")


class CodeState(State):
    """The episode.

    Attributes:
        last_exit_code: Exit code of the last program.
        task: Name of the task; None where there is none.
        attempts_left: Programs that may still be handed in; None where there is no task.
        isolation: What separates programs from the server: ``user``, ``landlock``, or neither.
    """

    last_exit_code: int = 0
    task: str | None = None
    attempts_left: int | None = None
    isolation: list[str] = Field(default_factory=list)


class PlainCodeObservation(Observation):
    """What became of a program, in the fields that OpenEnv's own client knows, and no others.

    Those of `CodeObservation` that are missing here are in `metadata`.

    Attributes:
        stdout: See `CodeObservation`, also for those that follow.
        stderr: Likewise.
        exit_code: Likewise.
    """

    stdout: Annotated[str, _text(MAX_OUTPUT)] = Field(
        default="", max_length=MAX_OUTPUT, description="Standard output"
    )
    stderr: Annotated[str, _text(MAX_OUTPUT)] = Field(
        default="", max_length=MAX_OUTPUT, description="Standard error, with tracebacks"
    )
    exit_code: int = Field(default=0, ge=0, le=255, description="0 where it ended well")


def facts_of(observation: Observation) -> dict[str, Any]:
    """Return what an observation says of a program, be it of a step or of a tool.

    Args:
        observation: One of the models above, or that of a tool that ran a program.

    Returns:
        The fields of a `CodeObservation`, and what stands in its metadata; empty for anything
        else.
    """
    if isinstance(observation, CodeObservation | PlainCodeObservation):
        return {**observation.metadata, **dict(observation)}
    result = getattr(observation, "result", None)
    return result if isinstance(result, dict) and "exit_code" in result else {}
