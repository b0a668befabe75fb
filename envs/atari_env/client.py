"""The client of the games, for our servers and for those of OpenEnv."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel

from atari_env.models import AtariAction, AtariObservation, AtariState, observation_model
from openenv_gym.models import StepResult
from openenv_gym.openenv import EnvClient
from openenv_gym.openenv.parsing import parse_result


__all__ = ["AtariEnv"]


class AtariEnv(EnvClient[AtariAction, AtariObservation, AtariState]):
    """Plays a game.

    ::

        with AtariEnv(base_url="http://localhost:8000").sync() as client:
            screen = client.reset(seed=7).observation.screen
            result = client.step(AtariAction(action_id=2))

    The shape of the screen is what the server sends, whatever its game and options are: of
    OpenEnv's servers, which send a row of numbers, what they say beside it. What else they send
    (lives, legal actions) is in the metadata of the observation.
    """

    action_model: ClassVar[type[BaseModel] | None] = AtariAction
    observation_model: ClassVar[type[BaseModel] | None] = AtariObservation
    state_model: ClassVar[type[BaseModel] | None] = AtariState

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Any]:
        sent = payload.get("observation")
        name = "image" if isinstance(sent, Mapping) and "image" in sent else "screen"
        if not isinstance(sent, Mapping) or name not in sent:
            return super()._parse_result(payload)  # which says what is missing
        fields = dict(sent)
        try:
            screen = np.asarray(fields.pop(name), np.uint8)
            screen = screen.reshape(fields.pop("screen_shape", screen.shape))
        except (TypeError, ValueError, OverflowError):
            return super()._parse_result(payload)
        model = observation_model(screen.shape, sound=name == "image")
        known = {key: fields.pop(key) for key in [*fields] if key in model.model_fields}
        metadata = {**dict(known.pop("metadata", None) or {}), **fields}
        seen = {**known, name: screen, "metadata": metadata}
        return parse_result({**payload, "observation": seen}, model)
