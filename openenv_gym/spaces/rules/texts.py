"""Rule for texts."""

from __future__ import annotations

import string

from gymnasium import spaces

from openenv_gym.spaces.constraints import Limits
from openenv_gym.spaces.describe import Notes
from openenv_gym.spaces.patterns import form_of
from openenv_gym.spaces.readers import sample_reader
from openenv_gym.spaces.rules.rule import Field, Mapped, Mapper, same


__all__ = ["TextField"]

_MAX_TEXT = 4096


class TextField:
    """``str``: Text of printable ASCII, or of what its pattern allows."""

    def apply(self, field: Field, mapper: Mapper) -> Mapped | None:
        """Map the field."""
        if field.annotation is not str:
            return None
        limits = Limits.of(field.metadata)
        shortest, longest, charset = limits.min_length, limits.max_length, string.printable
        for pattern in limits.patterns:
            form = form_of(pattern)
            if form is None:
                continue
            shortest = max(shortest, form.min_length)
            if form.max_length is not None:
                most = form.max_length
                longest = most if longest is None else min(longest, most)
            charset = form.charset
        if longest is None:
            longest = _MAX_TEXT
        if shortest > longest:
            raise field.fail(
                f"min_length {shortest} is above max_length {longest}", "Set `max_length`."
            )
        space = spaces.Text(longest, min_length=shortest, charset=charset)
        notes = Notes(pattern=limits.patterns[-1] if limits.patterns else "")
        return Mapped(space, same, sample_reader(space, field.name), notes)
