"""The echo environment itself."""

from __future__ import annotations

from typing import Any, ClassVar

from echo_env.models import EchoAction, EchoObservation
from openenv_gym.models import CallToolAction, CallToolObservation, State
from openenv_gym.rubrics import Rubric, load_rubric
from openenv_gym.server import MCPEnvironment, SavedState, check_choice, check_integer, tool


__all__ = ["GREETING", "EchoEnvironment"]

GREETING = "Echo environment ready!"
"""What the first observation of an episode says."""


class SavedEcho(SavedState):
    """What `EchoEnvironment.save_state` returns."""

    message: str


class EchoEnvironment(MCPEnvironment[EchoAction, EchoObservation, State]):
    """Sends back every message; longer messages earn more.

    The reward is 0.1 for each character, at most 1.0. Nothing is random, and no message ends the
    episode. The tools do the same for agents that call tools, without a reward.

    Args:
        episode_length: Truncate an episode after this many steps; None for never. (Gymnasium's
            own ``max_episode_steps`` does the same from outside.)
        render_mode: ``"ansi"`` to have `render` return the last echo, or None.
        rubric: Gives the reward in place of the one above; see `openenv_gym.rubrics`.

    Raises:
        InvalidOptionError: An option has a value that is not taken.
    """

    action_model = EchoAction
    observation_model = EchoObservation
    # Text that changes with each message: four a second can still be read.
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 4}

    def __init__(
        self,
        *,
        episode_length: int | None = None,
        render_mode: str | None = None,
        rubric: Rubric | str | None = None,
    ) -> None:
        check_integer("episode_length", episode_length, 1, optional=True)
        check_choice("render_mode", render_mode, ("ansi", None))
        self.render_mode = render_mode
        self.rubric = load_rubric(rubric)
        self._episode_length = episode_length
        self._message = ""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> EchoObservation:
        """Begin an episode; the observation is the greeting. There are no options.

        Raises:
            InvalidOptionError: There is an option.
        """
        self.check_reset_options(options)
        self.begin_episode(seed)
        self._message = GREETING
        return EchoObservation(echoed_message=GREETING, message_length=len(GREETING))

    def act(self, action: EchoAction) -> EchoObservation:
        """Echo the message of `action`."""
        self._message = action.message
        self.count_step()
        truncated = self._is_over
        return EchoObservation(
            echoed_message=action.message,
            message_length=len(action.message),
            reward=min(0.1 * len(action.message), 1.0),
            done=truncated,
            truncated=truncated,
        )

    @tool
    def echo_message(self, message: str) -> str:
        """Echo a message back.

        Args:
            message: The message.
        """
        self._message = message
        return message

    @tool
    def echo_with_length(self, message: str) -> dict[str, Any]:
        """Echo a message back, and say how many characters it has.

        Args:
            message: The message.
        """
        self._message = message
        return {"message": message, "length": len(message)}

    def judge(self, action: CallToolAction, observation: CallToolObservation) -> None:
        """Truncate the episode after a call as after any other step."""
        if self._is_over:
            observation.done = observation.truncated = True

    @property
    def _is_over(self) -> bool:
        return self._step_count == self._episode_length

    def render(self) -> str | None:
        """Return the last echo, in render mode ``"ansi"``."""
        return self._message if self.render_mode == "ansi" else None

    def save_state(self) -> dict[str, Any]:
        """Return message and counters, and the generator, which nothing here draws from."""
        return SavedEcho.of(self, {"episode_length": self._episode_length}, message=self._message)

    def restore_state(self, saved: Any) -> None:
        """Return to a state that `save_state` returned.

        Raises:
            InvalidOptionError: It is no such state, or one with another length of episodes.
        """
        state = SavedEcho.read(saved, {"episode_length": self._episode_length})
        self._message = state.message
        state.apply(self)
