"""The client's copy of the environment's random generator."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.utils import seeding


__all__ = ["RngMirror"]


class RngMirror:
    """Follows the generator on the server, and notices draws that are made here.

    Nothing is built before somebody looks: most trainers never touch ``env.np_random``, and a step
    then costs no more than keeping a reference.
    """

    def __init__(self) -> None:
        self._seed: int | None = None
        self._state: Any = None  # what the server has, as far as we know
        self._generator: np.random.Generator | None = None
        self._stale = False

    def update(self, wire: dict[str, Any]) -> None:
        """Take over what the server sent."""
        self._seed = wire.get("seed")
        self._state = wire.get("state")
        self._stale = True

    def changes(self) -> dict[str, Any] | None:
        """Return what the server must hear before its next operation, once."""
        if self._generator is None or self._stale:
            return None
        state = self._generator.bit_generator.state
        if self._state is not None and _equal(state, self._state):
            return None
        self._state = state
        return {"seed": self._seed, "state": state}

    @property
    def generator(self) -> np.random.Generator | None:
        """The generator in its present state; None where the environment has none yet.

        It stays the same object from step to step, as a local environment's does.
        """
        if self._stale and self._state is not None:
            name = self._state["bit_generator"]
            if self._generator is None or type(self._generator.bit_generator).__name__ != name:
                self._generator = np.random.Generator(getattr(np.random, name)())
            self._generator.bit_generator.state = self._state
            # As the generator itself would say it, so that comparing notices draws alone.
            self._state = self._generator.bit_generator.state
            self._stale = False
        return self._generator

    def get(self) -> np.random.Generator:
        """The generator, made from entropy where there is none (as `gymnasium.Env` does)."""
        generator = self.generator
        if generator is None:
            generator, self._seed = seeding.np_random()
            self._generator = generator
        return generator

    def replace(self, generator: np.random.Generator | None) -> None:
        """Use another generator, here and from the next request on there."""
        self._generator = generator
        self._seed = -1
        self._state = None
        self._stale = False

    @property
    def seed(self) -> int | None:
        """Gymnasium's ``np_random_seed``."""
        return self._seed

    @seed.setter
    def seed(self, value: int | None) -> None:
        self._seed = value


def _equal(a: Any, b: Any) -> bool:
    """Compare states, which hold arrays for some generators."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    return bool(a == b)
