"""What an environment saves: a model of its own, so that nothing else is ever restored.

::

    class SavedWalk(SavedState):
        place: int = Field(ge=0, lt=100)

    class Walk(Environment):
        def save_state(self):
            return SavedWalk.of(self, {"length": 100}, place=self._place)

        def restore_state(self, saved):
            state = SavedWalk.read(saved, {"length": 100})
            self._place = state.place
            state.apply(self)
"""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from openenv_gym.errors import InvalidOptionError, ProtocolError
from openenv_gym.protocol.generators import generator_state, make_generator
from openenv_gym.server.environment import Environment


__all__ = ["SavedState"]

SavedT = TypeVar("SavedT", bound="SavedState")

_HINT = "Pass what save_state() of an environment with the same options returned."


class SavedState(BaseModel):
    """What every environment saves; a subclass adds fields of its own, with bounds.

    Saved data is plain and goes through JSON. It may have been anywhere, so all of it is checked
    before anything of the environment is changed.

    Attributes:
        options: The options that decide what a state means, as JSON. Only an environment that
            was made with the same ones takes the state.
        episode_id: Name of the episode.
        step_count: Steps taken in it.
        np_random: State of the random generator; None where there is none yet.
        np_random_seed: Its seed, likewise.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    options: str = Field(max_length=1 << 20)
    episode_id: str | None = Field(max_length=255)
    step_count: int = Field(ge=0, le=(1 << 63) - 1)
    np_random: dict[str, Any] | None
    np_random_seed: int | None

    @classmethod
    def of(
        cls, environment: Environment[Any, Any, Any], options: Mapping[str, Any], **fields: Any
    ) -> dict[str, Any]:
        """Return the present state of an environment as plain data.

        Args:
            environment: The environment.
            options: What it was made with, as far as it matters; plain data.
            **fields: The subclass's own.

        Raises:
            pydantic.ValidationError: A field is not what the model says.
        """
        generator = environment._np_random
        state = cls(
            options=_text(options),
            episode_id=environment._episode_id,
            step_count=environment._step_count,
            np_random=None if generator is None else dict(generator_state(generator) or {}),
            np_random_seed=environment._np_random_seed,
            **fields,
        )
        return state.model_dump()

    @classmethod
    def read(cls: type[SavedT], saved: Any, options: Mapping[str, Any]) -> SavedT:
        """Check what is to be restored; nothing is changed yet.

        Args:
            saved: What `of` returned, wherever it has been since.
            options: What the environment was made with, as for `of`.

        Raises:
            InvalidOptionError: It is no such state, or one of other options.
        """
        try:
            state = cls.model_validate(saved)
            if state.np_random is not None:
                make_generator(state.np_random)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise cls.refusal(f"{place}: {first['msg']}" if place else first["msg"]) from None
        except ProtocolError as error:
            raise cls.refusal(error.message) from None
        if state.options != _text(options):
            raise cls.refusal(f"it is one of {state.options:.200}, and this is {_text(options)}")
        return state

    @classmethod
    def refusal(cls, why: str) -> InvalidOptionError:
        """Return the error for data that is no saved state."""
        return InvalidOptionError(
            f"This is not a saved state: {why.rstrip('.')}.", field="saved", hint=_HINT
        )

    def apply(self, environment: Environment[Any, Any, Any]) -> None:
        """Give an environment the episode, the number of steps and the generator."""
        environment._episode_id = self.episode_id
        environment._step_count = self.step_count
        environment._np_random = None if self.np_random is None else make_generator(self.np_random)
        environment._np_random_seed = self.np_random_seed


def _text(options: Mapping[str, Any]) -> str:
    return json.dumps(options, sort_keys=True)
