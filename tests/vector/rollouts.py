"""Rollouts of vector environments beside each other, compared to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from tests.vector.worlds import same


def play(theirs: Any, ours: VectorEnv[Any, Any, Any], *more: Any, steps: int) -> int:
    """Compare some with Gymnasium's own; return how many episodes ended.

    Args:
        theirs: What says how it ought to be; it is moved once, however many are compared with it.
        ours: What is compared.
        more: Others that are compared, too.
        steps: How long the rollout is.
    """
    every = (ours, *more)
    _each("reset", theirs.reset(seed=11), [env.reset(seed=11) for env in every])
    theirs.action_space.seed(3)
    ended = 0
    for number in range(steps):
        actions = theirs.action_space.sample()
        if isinstance(actions, dict) and "what" in actions:
            actions["what"][:] = 0  # `WorldEnv` fails where it is told to
        expected = theirs.step(actions)
        _each(f"step {number}", expected, [env.step(actions) for env in every])
        over = np.logical_or(expected[2], expected[3])
        ended += int(over.sum())
        if theirs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and over.any():
            _each(
                f"reset after step {number}",
                theirs.reset(options={"reset_mask": over.copy()}),
                [env.reset(options={"reset_mask": over.copy()}) for env in every],
            )
    for env in every:
        same(env.np_random_seed, theirs.np_random_seed)
        for one, other in zip(env.np_random, theirs.np_random, strict=True):
            assert one.bit_generator.state == other.bit_generator.state
    return ended


def _each(when: str, expected: Any, found: list[Any]) -> None:
    for place, each in enumerate(found):
        try:
            same(each, expected)
        except AssertionError as error:
            raise AssertionError(f"{when}, number {place} of {len(found)}: {error}") from error


def infos_of(infos: dict[str, Any], index: int) -> dict[str, Any]:
    """Return what infos say about one sub-environment."""
    return {
        key: infos_of(value, index) if isinstance(value, dict) else value[index]
        for key, value in infos.items()
        if not key.startswith("_") and infos[f"_{key}"][index]
    }


def same_for(indices: Any, ours: Any, theirs: Any) -> None:
    """Compare the steps of some sub-environments to the bit."""
    for index in indices:
        for column in range(4):
            same(ours[column][index], theirs[column][index])
        same(infos_of(ours[4], index), infos_of(theirs[4], index))
