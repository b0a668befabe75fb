"""States of NumPy's random generators as they travel (docs/protocol.md, section 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from openenv_gym.errors import ProtocolError


__all__ = ["generator_state", "make_generator", "same_state", "set_state"]

# The only names that are taken from the wire. (`numpy.random` has others, such as `seed`.)
_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        np.random.MT19937,
        np.random.PCG64,
        np.random.PCG64DXSM,
        np.random.Philox,
        np.random.SFC64,
    )
}

_TYPES = frozenset(_KINDS.values())

# Positions in a buffer of random words: NumPy takes any, and then reads beyond the buffer.
_MT19937_WORDS = 624
_PHILOX_WORDS = 4


def generator_state(generator: Any) -> Mapping[str, Any] | None:
    """Return a generator's state; None where it is none that can travel."""
    bits = getattr(generator, "bit_generator", None)
    if type(bits) not in _TYPES:
        return None
    state: Mapping[str, Any] = bits.state  # type: ignore[union-attr]  # its type was looked up
    return state


def make_generator(state: Any) -> np.random.Generator:
    """Return a new generator in a state that was received.

    Raises:
        ProtocolError: It is no state of a bit generator of NumPy's.
    """
    name = state.get("bit_generator") if isinstance(state, dict) else None
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ProtocolError(
            f"Expected the state of one of {', '.join(_KINDS)}, got {name!r:.40}.", field="rng"
        )
    try:
        if name == "MT19937":
            _check_position(state["state"]["pos"], _MT19937_WORDS)
        elif name == "Philox":
            _check_position(state["buffer_pos"], _PHILOX_WORDS)
        generator = np.random.Generator(kind(0))
        generator.bit_generator.state = state
    except Exception as error:
        raise ProtocolError(f"Not a generator state: {error!r:.200}.", field="rng") from error
    return generator


def set_state(generator: np.random.Generator | None, state: Any) -> np.random.Generator:
    """Bring a generator to a state that was received, or make one where it is of another kind.

    Raises:
        ProtocolError: As `make_generator`; the generator is then unchanged.
    """
    made = make_generator(state)
    if not isinstance(generator, np.random.Generator) or type(generator.bit_generator) is not type(
        made.bit_generator
    ):
        return made
    generator.bit_generator.state = made.bit_generator.state
    return generator


def same_state(a: Any, b: Any) -> bool:
    """Compare states (or tuples with some): MT19937 and Philox have arrays in theirs."""
    try:
        return bool(a == b)
    except ValueError:  # arrays somewhere in there
        pass
    if isinstance(a, dict):
        return (
            isinstance(b, dict)
            and a.keys() == b.keys()
            and all(same_state(a[key], b[key]) for key in a)
        )
    if isinstance(a, tuple):
        return isinstance(b, tuple) and all(map(same_state, a, b))
    return np.array_equal(a, b)


def _check_position(position: Any, words: int) -> None:
    if not 0 <= position <= words:
        raise ValueError(f"{position!r} is no position in {words} words")
