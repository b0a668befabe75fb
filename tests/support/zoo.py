"""PettingZoo's own tests, which warn while they are imported, and what they warn of."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from typing import Any

import pytest


pytest.importorskip("pettingzoo")

with warnings.catch_warnings():
    # They import modules that PettingZoo's registry has replaced.
    warnings.simplefilter("ignore")
    from pettingzoo import test as zoo
    from pettingzoo.test import state_test
    from pettingzoo.test.example_envs import (
        generated_agents_env_v0,
        generated_agents_parallel_v0,
    )

__all__ = [
    "generated_agents_env_v0",
    "generated_agents_parallel_v0",
    "state_test",
    "warned",
    "zoo",
]


def warned(test: Callable[..., Any], *arguments: Any, **options: Any) -> set[str]:
    """Run a test of PettingZoo, without its prints; return what it warns of.

    Of what an earlier test has left open, the interpreter may warn at any time.
    """
    with (
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("always")
        test(*arguments, **options)
    return {str(each.message) for each in caught if each.category is not ResourceWarning}
