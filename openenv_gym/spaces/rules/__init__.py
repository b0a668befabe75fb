"""Rules that map one field of a Pydantic model to a Gymnasium space, tried in order."""

from __future__ import annotations

from openenv_gym.spaces.rules.keyed import DictField, SetField
from openenv_gym.spaces.rules.labels import LabelField
from openenv_gym.spaces.rules.lists import ListField, TupleField
from openenv_gym.spaces.rules.models import ModelField
from openenv_gym.spaces.rules.named import ArrayField, NamedSpace, SampleField
from openenv_gym.spaces.rules.rule import Field, Mapped, Mapper, Rule
from openenv_gym.spaces.rules.scalars import BoolField, FloatField, IntField
from openenv_gym.spaces.rules.texts import TextField
from openenv_gym.spaces.rules.unions import UnionField


__all__ = ["RULES", "Field", "Mapped", "Mapper", "Rule"]

RULES: tuple[Rule, ...] = (
    SampleField(),
    NamedSpace(),
    ArrayField(),
    BoolField(),
    IntField(),
    FloatField(),
    LabelField(),
    TextField(),
    ModelField(),
    ListField(),
    TupleField(),
    SetField(),
    DictField(),
    UnionField(),
)
