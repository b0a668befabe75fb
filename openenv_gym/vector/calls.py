"""Methods and attributes of all sub-environments at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector.async_vector_env import AsyncState

from openenv_gym import errors
from openenv_gym.protocol.codec import encode_packet
from openenv_gym.protocol.generators import make_generator
from openenv_gym.vector.arguments import read_values
from openenv_gym.vector.base import VectorBase


__all__ = ["VectorCalls"]

_FORBIDDEN_CALLS = frozenset({"reset", "step", "close", "_setattr", "_check_spaces"})


class VectorCalls(VectorBase):
    """The part of `RemoteVectorEnv` that reads, calls and sets what sub-environments have."""

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Read an attribute, or call a method, of every sub-environment.

        Args:
            name: Of the attribute or method.
            *args: For the method.
            **kwargs: For the method.

        Returns:
            What each of them has or returned.
        """
        try:
            self.call_async(name, *args, **kwargs)
            return self.call_wait()
        except BaseException as error:
            self._after(error)
            raise

    def call_async(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        """Begin to read an attribute, or to call a method, of every sub-environment.

        Args:
            name: Of the attribute or method.
            *args: For the method.
            **kwargs: For the method.

        Raises:
            ClosedEnvironmentError: It is closed.
            AlreadyPendingCallError: Another call waits to be completed.
            ValueError: There is a method of this class for that.
        """
        self._assert_is_running()
        self._check_free("call_async")
        if name in _FORBIDDEN_CALLS:
            raise ValueError(
                f"Trying to call function `{name}` with `call`, use `{name}` directly instead."
            )
        self._begin_call("call", [name, list(args), kwargs])
        self._reads_generators = name == "np_random"

    def call_wait(self, timeout: float | None = None) -> tuple[Any, ...]:
        """Return the results of `call_async`, one for each sub-environment.

        Args:
            timeout: Seconds to wait at most.

        Raises:
            ClosedEnvironmentError: It is closed.
            NoAsyncCallError: There was no `call_async`.
            multiprocessing.TimeoutError: They did not come in time.
            OpenEnvGymError: A sub-environment failed, or a server is gone.
        """
        parts = self._wait(AsyncState.WAITING_CALL, timeout, self._recovery.give_up)
        values = tuple(value for part in parts for value in part)
        if self._reads_generators:
            return tuple(make_generator(value["state"]) for value in values)
        return values

    def render(self) -> tuple[Any, ...] | None:
        """Return the frames of all sub-environments."""
        self._assert_is_running()
        self._check_free("call_async")
        self._begin_call("render", [])
        self._reads_generators = False
        return self.call_wait()

    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | object) -> None:
        """Set an attribute of every sub-environment.

        Args:
            name: Of the attribute.
            values: A list or tuple with a value for each; anything else is the value of all.

        Raises:
            ClosedEnvironmentError: It is closed.
            AlreadyPendingCallError: Another call waits to be completed.
            ValueError: There are not as many values as sub-environments.
            EncodeError: A value cannot be sent.
        """
        self._assert_is_running()
        values = read_values(values, self.num_envs)
        self._check_free("set_attr")
        encode_packet([values])  # what cannot be sent must not be noticed halfway
        args = [[name, values[member.rows]] for member in self._fleet.members]
        self._fleet.begin("set", args)
        self._state = AsyncState.WAITING_CALL
        self._wait(AsyncState.WAITING_CALL, None, self._recovery.give_up)
        self._recovery.note_attribute(name, values)

    def save_states(self) -> tuple[Any, ...]:
        """Return the states of all sub-environments, as plain data for `restore_states`.

        Raises:
            ClosedEnvironmentError: It is closed.
            AlreadyPendingCallError: Another call waits to be completed.
            NotImplementedError: The environment cannot do that.
            ResetNeededError: A sub-environment was never reset.
        """
        self._assert_is_running()
        self._check_free("save_states")
        self._begin_call("save_states", [])
        self._reads_generators = False
        return self.call_wait()

    def restore_states(self, states: Sequence[Any]) -> None:
        """Return sub-environments to states that were saved, of these or of other ones.

        What is in memory here, such as the last observations, stays as it is; the caller knows what
        was seen where a state was saved. No autoreset is due after it.

        Args:
            states: A state for each sub-environment, of `save_states` or of the ``save_state()`` of
                a single environment; None leaves one as it is.

        Raises:
            ClosedEnvironmentError: It is closed.
            AlreadyPendingCallError: Another call waits to be completed.
            ValueError: There are not as many states as sub-environments.
            InvalidOptionError: A sub-environment does not take its state; the others have taken
                theirs. ``data`` says which.
            NotImplementedError: The environment cannot do that.
        """
        self._assert_is_running()
        if len(states) != self.num_envs:
            raise ValueError(f"Expected {self.num_envs} states, got {len(states)}.")
        self._check_free("restore_states")
        encode_packet([list(states)])  # what cannot be sent must not be noticed halfway
        args = [[list(states[member.rows])] for member in self._fleet.members]
        self._fleet.begin("restore_states", args)
        self._state = AsyncState.WAITING_CALL
        restored = np.array([state is not None for state in states], np.bool_)
        try:
            self._wait(AsyncState.WAITING_CALL, None, self._recovery.give_up)
        except errors.OpenEnvGymError as error:
            # Who is named has not taken its state; where nobody is, nobody has.
            restored[error.data.get("indices", slice(None))] = False
            raise
        finally:
            for member in self._fleet.members:
                member.settle(restored[member.rows])

    def _begin_call(self, op: str, args: list[Any]) -> None:
        self._fleet.begin(op, [args] * len(self._fleet.members))
        self._state = AsyncState.WAITING_CALL
