"""Vectorised implementations of an environment's own, behind the protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from openenv_gym import errors
from openenv_gym.protocol.codec import encode_packet
from openenv_gym.server.vector.actions import ActionReader
from openenv_gym.server.vector.engine import Mask, Seeds
from openenv_gym.server.vector.infos import everywhere


__all__ = ["NativeEngine", "NativeFactory", "NativeRequest"]


@dataclass(frozen=True)
class NativeRequest:
    """What a vectorised implementation is asked for.

    Attributes:
        num_envs: How many sub-environments.
        first: Number of the first one within the client's vector.
        options: What the session's environment is made with.
        autoreset_mode: What happens after an episode's end.
        own_limit: The time limit of the environment's own spec counts.
        max_episode_steps: Otherwise, the time limit; None: there is none.
        requested: The client asked for it; otherwise it may only be used where nobody could tell.
    """

    num_envs: int
    first: int
    options: dict[str, Any]
    autoreset_mode: AutoresetMode
    own_limit: bool
    max_episode_steps: int | None
    requested: bool


NativeFactory = Callable[[NativeRequest], "VectorEnv[Any, Any, Any] | None"]
"""Makes one that enforces time limit and autoreset mode, or None where single ones are as good.

Raises `InvalidOptionError` where one was requested and cannot be had. What it makes may have

- ``openenv_time_limit``: the steps after which it has an episode truncated;
- ``independent = True``: each sub-environment depends on its own seed only, and `reset` takes a
  list of seeds (integers or None) and ``options["reset_mask"]``;
- ``call`` and ``set_attr``, as `gymnasium.vector.AsyncVectorEnv` has them.
"""


class NativeEngine:
    """A `gymnasium.vector.VectorEnv` as the engine of a session.

    Args:
        env: The vector environment.
        autoreset_mode: That of the session, which is the environment's, too.
        first: Number of the first sub-environment within the client's vector.

    Attributes:
        name: ``"native"``.
        env: The vector environment.
    """

    name = "native"
    pending = 0

    def __init__(
        self, env: VectorEnv[Any, Any, Any], *, autoreset_mode: AutoresetMode, first: int = 0
    ) -> None:
        self.env = env
        self._count = env.num_envs
        self._all = range(env.num_envs)
        self._mode = autoreset_mode
        self._independent = bool(getattr(env, "independent", False))
        self._actions = ActionReader(env.single_action_space, first=first)
        self._action_dtype = env.action_space.dtype
        self._started = False
        self._last: Any = None
        self._over = np.zeros(env.num_envs, np.bool_)

    def reset(self, seeds: Seeds, options: dict[str, Any] | None, mask: Mask) -> list[Any]:
        """Begin new episodes, where the mask is true.

        Raises:
            InvalidOptionError: The implementation cannot reset some only, or seed each.
            ResetNeededError: There is a mask, and no reset was before.
        """
        seed: Any = seeds
        if self._independent:
            if mask is not None:
                if not self._started:
                    raise errors.ResetNeededError("Cannot reset with a mask before a full reset.")
                if not mask.any():
                    return [self._last, {}]
                options = {**(options or {}), "reset_mask": mask}
        else:
            seed = self._one_seed(seeds)
            if mask is not None:
                raise errors.InvalidOptionError(
                    f"{type(self.env.unwrapped).__name__} resets all sub-environments at once.",
                    field="mask",
                    hint="Leave out reset_mask, or engine='native'.",
                )
        self._over[... if mask is None else mask] = False
        observations, infos = self.env.reset(seed=seed, options=options)
        self._started = True
        self._last = _as_numpy(observations)
        chosen = everywhere(self._count) if mask is None else mask
        return [self._last, self._with_masks(infos, chosen)]

    def _one_seed(self, seeds: Seeds) -> int | None:
        """Return the seed of the generator that the sub-environments share: that of the first."""
        if seeds is None or all(seed is None for seed in seeds):
            return None
        first = seeds[0]
        if first is None or any(seed != first + i for i, seed in enumerate(seeds)):
            raise errors.InvalidOptionError(
                f"{type(self.env.unwrapped).__name__} has one generator for all "
                "sub-environments, and takes one seed.",
                field="seeds",
                hint="Pass an integer, or leave out engine='native'.",
            )
        return first

    def step(self, actions: Any) -> list[Any]:
        """Take one step in each.

        Raises:
            InvalidActionError: An action is not in its space.
            ResetNeededError: There was no reset.
        """
        if not self._started:
            raise errors.ResetNeededError(
                "Cannot call step before reset.", hint="Call reset() first."
            )
        observations, rewards, terminations, truncations, infos = self.env.step(
            self._checked(actions)
        )
        terminations = np.asarray(terminations, np.bool_)
        truncations = np.asarray(truncations, np.bool_)
        self._over = terminations | truncations
        found = self._with_masks(infos, everywhere(self._count)) if infos else {}
        self._last = _as_numpy(observations)
        return [
            self._last,
            np.asarray(rewards).astype(np.float64),
            terminations,
            truncations,
            found,
        ]

    def _checked(self, actions: Any) -> Any:
        """Return the batch of actions in the form that the implementation takes."""
        try:
            found = self._actions.read(actions, self._all)
        except errors.InvalidActionError:
            if self._mode is not AutoresetMode.NEXT_STEP or not self._over.any():
                raise
            found = self._actions.read(actions, self._all, self._over.tolist())
            # Nobody looks at the others, but whoever checks all of them must find nothing wrong.
            some = _some_action(self.env.single_action_space)
            found = [some if over else each for each, over in zip(found, self._over, strict=True)]
            actions = found
        dtype = self._action_dtype
        if dtype is None or (type(actions) is np.ndarray and actions.dtype == dtype):
            return actions
        return np.array(found, dtype)

    def _with_masks(self, infos: dict[Any, Any], chosen: np.ndarray[Any, Any]) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in infos.items():
            if isinstance(key, str) and key.startswith("_") and key[1:] in infos:
                found[key] = value
                continue
            found[key] = (
                self._with_masks(value, chosen) if isinstance(value, dict) else _as_numpy(value)
            )
            if f"_{key}" not in infos:
                found[f"_{key}"] = chosen
        return found

    def send(self, indices: Sequence[int], actions: Any) -> None:
        """Refuse.

        Raises:
            ProtocolError: Always: these sub-environments move together.
        """
        raise errors.ProtocolError(
            f"{type(self.env.unwrapped).__name__} steps all sub-environments at once.",
            field="op",
            hint="Call step(), or make single environments.",
        )

    def recv(self, min_envs: int, timeout_s: float | None) -> list[Any]:
        """Refuse, as `send`.

        Raises:
            ProtocolError: Always.
        """
        raise errors.ProtocolError(f"min_envs={min_envs}, but none was sent.", field="min_envs")

    def render(self) -> list[Any]:
        """Return a frame for each."""
        if not self._started:
            raise errors.ResetNeededError(
                "Cannot call render before reset.", hint="Call reset() first."
            )
        frames = self.env.render()
        return [None] * self._count if frames is None else list(frames)

    def call(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Return for each what the implementation has under this name: the same for all."""
        own = getattr(self.env, "call", None)
        if own is not None:
            return list(own(name, *args, **kwargs))
        found = getattr(self.env, name)
        value = found(*args, **kwargs) if callable(found) else found
        return [value] * self._count

    def set(self, name: str, values: Sequence[Any]) -> None:
        """Set an attribute of the implementation.

        Raises:
            ValueError: The values differ, where there is one for all.
        """
        own = getattr(self.env, "set_attr", None)
        if own is not None:
            own(name, list(values))
            return
        first = _packet(values[0])  # arrays and NaN have no equality that would do
        if any(value is not values[0] and _packet(value) != first for value in values):
            raise ValueError(
                f"`{name}` is one for all sub-environments; the values must be the same."
            )
        setattr(self.env, name, values[0])

    def save(self) -> list[Any]:
        """Refuse: an implementation of all at once has no states of single ones.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{type(self.env).__name__} cannot save states.")

    def restore(self, states: Sequence[Any]) -> None:
        """Refuse likewise.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{type(self.env).__name__} cannot restore states.")

    def close(self) -> None:
        """Close the implementation."""
        self.env.close()


def _packet(value: Any) -> bytes:
    return b"".join(encode_packet([value]))


def _as_numpy(value: Any) -> Any:
    """Return arrays of other libraries as NumPy's."""
    if isinstance(value, dict):
        return {key: _as_numpy(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple([_as_numpy(item) for item in value])
    return np.asarray(value) if hasattr(value, "__array__") else value


def _some_action(space: Any) -> Any:
    """Return an action that is in the space, always the same."""
    low = getattr(space, "low", getattr(space, "start", 0))
    return np.where(np.isfinite(low), low, 0)
