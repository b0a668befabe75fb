"""Rule for models inside models."""

from __future__ import annotations

from pydantic import BaseModel

from openenv_gym.spaces.rules.rule import Field, Mapped, Mapper, is_subclass


__all__ = ["ModelField"]


class ModelField:
    """A nested model: Dict of its fields."""

    def apply(self, field: Field, mapper: Mapper) -> Mapped | None:
        """Map the field."""
        kind = field.annotation
        return mapper.map_model(kind, field) if is_subclass(kind, BaseModel) else None
