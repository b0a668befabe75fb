"""How an environment that has tools and nothing else looks to Gymnasium: as text in, text out.

An action is the JSON of a call, which is what a language model writes; an observation is the text
of what the tool returned.
"""

from __future__ import annotations

import json
import string
from typing import Annotated, Any

from gymnasium.spaces import Text
from pydantic import PrivateAttr

from openenv_gym.errors import InvalidActionError
from openenv_gym.models import Action, Observation
from openenv_gym.models.mcp import CallToolAction, CallToolObservation
from openenv_gym.models.tool_results import content_of


__all__ = ["ToolCallText", "ToolResultText"]

_CHARACTERS = "".join(sorted(string.printable))
_MAX_CALL = 1 << 16
_MAX_RESULT = 1 << 20


class ToolCallText(Action):
    """The JSON of a call: ``{"tool_name": ..., "arguments": {...}}``.

    Attributes:
        call: The text.
    """

    call: Annotated[str, Text(_MAX_CALL, min_length=0, charset=_CHARACTERS)]

    def to_call(self) -> CallToolAction:
        """Return the call.

        Raises:
            InvalidActionError: The text is not that of a call.
        """
        try:
            return CallToolAction.model_validate(json.loads(self.call))
        except (ValueError, RecursionError) as error:
            raise InvalidActionError(
                f"Expected the JSON of a call, got {self.call!r:.80}: {error}",
                field="call",
                hint='For example {"tool_name": "look", "arguments": {"far": true}}.',
            ) from None


class ToolResultText(Observation):
    """What a tool returned, as text; characters beyond ASCII are escaped.

    Attributes:
        text: The text; after a reset, what the environment says.
    """

    text: Annotated[str, Text(_MAX_RESULT, min_length=0, charset=_CHARACTERS)] = ""
    _called: CallToolObservation | None = PrivateAttr(None)

    @property
    def called(self) -> CallToolObservation | None:
        """The observation of which this is the text; None after a reset."""
        return self._called

    @classmethod
    def of(cls, observation: CallToolObservation) -> ToolResultText:
        """Return the observation of a call as text."""
        if observation.error is not None:
            text = f"{observation.error.error_type.value}: {observation.error.message}"
        else:
            text = "\n".join(map(_text_of, content_of(observation.result)[0]))
        made = cls(
            text=text.encode("ascii", "backslashreplace").decode()[:_MAX_RESULT],
            done=observation.done,
            truncated=observation.truncated,
            reward=observation.reward,
            metadata=observation.metadata,
        )
        made._called = observation
        return made


def _text_of(block: dict[str, Any]) -> str:
    return str(block["text"]) if block["type"] == "text" else f"<{block['type']}>"
