"""What both environments here share: what becomes of illegal actions, move limits, tools."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from openenv_gym.errors import InvalidActionError, ResetNeededError
from openenv_gym.models import Action, CallToolAction, CallToolObservation, Observation, State
from openenv_gym.rubrics import Rubric, load_rubric
from openenv_gym.server import MCPEnvironment, check_choice, check_integer, check_number, tool
from openspiel_env.server.saving import SavedTurns


__all__ = ["TurnEnvironment"]

ActT = TypeVar("ActT", bound=Action)
ObsT = TypeVar("ObsT", bound=Observation)
StateT = TypeVar("StateT", bound=State)

ILLEGAL = ("loss", "penalty", "error")


class TurnEnvironment(MCPEnvironment[ActT, ObsT, StateT]):
    """A game of turns, which an agent plays by actions or by tools.

    A subclass says which actions are legal and what they are called, and plays them.

    Args:
        illegal_action: What becomes of an illegal action. ``"loss"``: the episode ends with the
            worst return that the game has. ``"penalty"``: a negative reward, and nothing else
            happens. ``"error"``: `InvalidActionError`, and nothing else happens.
        illegal_penalty: How much ``"penalty"`` takes.
        max_moves: Truncate an episode after this many actions of the agent, illegal ones
            included; None for never.
        rubric: Replaces the reward of the game, which it finds in ``observation.reward``; see
            `openenv_gym.rubrics.load_rubric`.
        render_mode: ``"ansi"`` to have `render` return text, or None.

    Raises:
        InvalidOptionError: An option has a value that is not taken.
    """

    # Text that changes with each move: four a second can still be read.
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 4}
    # No thread of its own for a call: a game that is given up in mid-move could not go on.
    tool_timeout_s = None

    def __init__(
        self,
        *,
        illegal_action: str = "loss",
        illegal_penalty: float = 0.1,
        max_moves: int | None = None,
        rubric: Rubric | str | None = None,
        render_mode: str | None = None,
    ) -> None:
        check_choice("illegal_action", illegal_action, ILLEGAL)
        check_number("illegal_penalty", illegal_penalty, low=0)
        check_integer("max_moves", max_moves, 1, optional=True)
        check_choice("render_mode", render_mode, ("ansi", None))
        self.render_mode = render_mode
        self.rubric = load_rubric(rubric)
        self._illegal_action = illegal_action
        self._illegal_penalty = float(illegal_penalty)
        self._max_moves = max_moves
        self._moves = 0
        self._running = False
        self._forfeited = False
        self._note = ""

    # -- for subclasses -------------------------------------------------------------------------

    def _names(self) -> list[str]:
        """Return what the legal actions are called; nothing when the game is over."""
        raise NotImplementedError

    def _read(self, text: str) -> int | None:
        """Return the legal action that a text names."""
        raise NotImplementedError

    def _play(self, action: int) -> float:
        """Play a legal action and return the reward."""
        raise NotImplementedError

    def _is_legal(self, action: int) -> bool:
        raise NotImplementedError

    def _is_over(self) -> bool:
        """Tell whether the game is over by its own rules."""
        raise NotImplementedError

    def _forfeit_reward(self) -> float:
        """Return the reward with which the episode has the worst return that the game has."""
        raise NotImplementedError

    def _observe(self, *, reward: float | None, done: bool, truncated: bool) -> ObsT:
        """Return what the agent sees now."""
        raise NotImplementedError

    # -- turns ----------------------------------------------------------------------------------

    def _begin_turns(self) -> None:
        self._running, self._forfeited = True, False
        self._moves, self._note = 0, ""

    def _turn(self, action: int | None, said: str) -> ObsT:
        """Take one turn.

        Args:
            action: The action; None where the agent named none.
            said: The agent's words, for messages.

        Raises:
            ResetNeededError: The episode is over, or none has begun.
            InvalidActionError: The action is illegal, and that is an error.
        """
        if not self._running:
            raise ResetNeededError(
                "The episode is over, or none has begun.", hint="Call reset() first."
            )
        self._note = ""
        if action is not None and self._is_legal(action):
            reward = self._play(action)
        else:
            reward = self._punish(said)
        self._moves += 1
        done = self._is_over() or self._forfeited
        truncated = not done and self._moves == self._max_moves
        self._running = not (done or truncated)
        return self._observe(reward=reward, done=done or truncated, truncated=truncated)

    def _punish(self, said: str) -> float:
        names = self._names()
        shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        if self._illegal_action == "error":
            raise InvalidActionError(f"{said:.80} is no legal action.", hint=f"Legal are: {shown}.")
        self._note = f"{said:.80} is no legal action."
        if self._illegal_action == "penalty":
            return -self._illegal_penalty
        self._forfeited = True
        return self._forfeit_reward()

    def _turn_fields(self) -> dict[str, Any]:
        """Return the fields of `SavedTurns`."""
        return {
            "moves": self._moves,
            "running": self._running,
            "forfeited": self._forfeited,
            "note": self._note,
        }

    def _restore_turns(self, saved: SavedTurns) -> None:
        self._moves, self._running = saved.moves, saved.running
        self._forfeited, self._note = saved.forfeited, saved.note
        saved.apply(self)

    # -- tools ----------------------------------------------------------------------------------

    @tool(name="legal_actions")
    def list_legal_actions(self) -> list[str]:
        """Say which actions are legal now."""
        return [] if self._forfeited else self._names()

    @tool
    def play(self, action: str) -> str:
        """Play an action, and say what the table looks like then.

        Args:
            action: The action, as `legal_actions` calls it.
        """
        # The call itself counts the step.
        self._last = self._turn(self._read(action), repr(action))
        return self._words()

    def _words(self) -> str:
        """Return what the agent sees, in words."""
        raise NotImplementedError

    def judge(self, action: CallToolAction, observation: CallToolObservation) -> None:
        """Give a call of `play` the reward and the end of its turn."""
        if action.tool_name == "play" and observation.error is None:
            observation.reward = self._last.reward
            observation.done = self._last.done
            observation.truncated = self._last.truncated
            observation.metadata = dict(self._last.metadata)
