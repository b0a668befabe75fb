"""The client's copy of the environment's random generator."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.utils import seeding

from openenv_gym.protocol.generators import generator_state, same_state, set_state


__all__ = ["RngMirror"]


class RngMirror:
    """Follows the generator on the server, and notices draws that are made here.

    Nothing is built before somebody looks: most trainers never touch ``env.np_random``, and a step
    then costs no more than keeping a reference.
    """

    def __init__(self) -> None:
        self._seed: int | None = None
        self._known: Any = None  # state and seed that the server has
        self._generator: np.random.Generator | None = None
        self._stale = False

    def update(self, wire: dict[str, Any]) -> None:
        """Take over what the server sent."""
        self._seed = wire.get("seed")
        self._known = (wire.get("state"), self._seed)
        self._stale = self._known[0] is not None

    def changes(self) -> dict[str, Any] | None:
        """Return what the server must hear before its next operation.

        It counts as heard only when the server says so: the reply to a request that carries a
        state carries one, too (`update`). What did not arrive is thus sent again.
        """
        if self._generator is None or self._stale:
            return None
        state = generator_state(self._generator)
        if state is None or (self._known and same_state((state, self._seed), self._known)):
            return None
        return {"seed": self._seed, "state": state}

    @property
    def generator(self) -> np.random.Generator | None:
        """The generator in its present state; None where the environment has none yet.

        It stays the same object from step to step, as a local environment's does.
        """
        if self._stale:
            self._generator = set_state(self._generator, self._known[0])
            # As the generator itself would say it, so that comparing notices draws alone.
            self._known = (generator_state(self._generator), self._seed)
            self._stale = False
        return self._generator

    @generator.setter
    def generator(self, value: np.random.Generator | None) -> None:
        self._generator = value
        self._known = None
        self._stale = False

    def get(self) -> np.random.Generator:
        """The generator, made from entropy where there is none (as `gymnasium.Env` does)."""
        generator = self.generator
        if generator is None:
            self.generator, self._seed = seeding.np_random()
            assert self._generator is not None
            return self._generator
        return generator

    @property
    def seed(self) -> int | None:
        """Gymnasium's ``np_random_seed``."""
        return self._seed

    @seed.setter
    def seed(self, value: int | None) -> None:
        _ = self.generator  # not stale any more: a seed that is set here is news
        self._seed = value
