"""`RecordRollout`: an environment, or a vector of them, whose resets and steps go to a file."""

from __future__ import annotations

import os
import secrets
import weakref
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn

import gymnasium
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper

from openenv_gym.errors import ConfigurationError
from openenv_gym.recording.comparing import without_keys
from openenv_gym.recording.describing import describe, is_partial
from openenv_gym.recording.snapshots import Snapshots
from openenv_gym.recording.writer import Limits, RolloutWriter


__all__ = ["RecordRollout", "RecordVectorRollout"]


class _Recorder:
    """What both wrappers share: the writer, and what is told to it.

    Arguments are those of `RecordRollout`.
    """

    def __init__(
        self,
        env: Any,
        path: str | os.PathLike[str],
        *,
        vector: bool,
        overwrite: bool = False,
        max_lost_steps: int = 2048,
        max_lost_bytes: int = 32 << 20,
        max_lost_s: float = 2.0,
        frames: bool = False,
        leave_out: Collection[str] = (),
        seed_first_reset: bool = True,
        compression: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        for name, value in (
            ("max_lost_steps", max_lost_steps),
            ("max_lost_bytes", max_lost_bytes),
            ("max_lost_s", max_lost_s),
        ):
            if not value > 0:
                raise ConfigurationError(f"{name}={value!r}: expected more than 0.", field=name)
        if frames and env.render_mode not in ("rgb_array", "ansi"):
            raise ConfigurationError(
                f"frames=True keeps what render() returns, and render_mode is {env.render_mode!r}.",
                field="frames",
                hint='Make the environment with render_mode="rgb_array" or "ansi".',
            )
        leave_out = (leave_out,) if isinstance(leave_out, str) else tuple(leave_out)
        self._leave_out = frozenset(leave_out)
        if vector:  # with their masks
            self._leave_out |= {f"_{key}" for key in leave_out}
        self._vector = vector
        self._env = env
        self._copies = Snapshots()
        self._frames = frames
        self._seeds_first = seed_first_reset
        self.writer = RolloutWriter(
            path,
            describe(env, vector=vector, user=metadata, leave_out=leave_out),
            num_envs=env.num_envs if vector else 0,
            overwrite=overwrite,
            limits=Limits(max_lost_steps, max_lost_bytes, max_lost_s),
            compression=compression,
            frames=frames,
        )

    def seed(self, seed: Any) -> Any:
        """Return the seed of a reset: one that is drawn, where the first reset has none."""
        if not self._seeds_first:
            return seed
        if seed is None:
            return _drawn()
        if self._vector and is_partial(seed):
            # A list without any seed is as none; in others, only what is missing is drawn.
            some = any(each is not None for each in seed)
            return [_drawn() if each is None else each for each in seed] if some else _drawn()
        return seed

    def asked(self, value: Any) -> Any:
        """Return a copy of what an environment is about to get, and may write into."""
        return self._copies.take(value)

    def reset(self, seed: Any, options: Any, outcome: tuple[Any, dict[str, Any]]) -> None:
        self._seeds_first = False  # not before: a reset that fails is tried again
        observation, info = outcome
        frame = self._env.render() if self._frames else None
        self.writer.add_reset(seed, options, observation, self._kept(info), frame)

    def step(self, action: Any, outcome: tuple[Any, Any, Any, Any, dict[str, Any]]) -> None:
        observation, reward, terminated, truncated, info = outcome
        frame = self._env.render() if self._frames else None
        self.writer.add_step(
            action, observation, reward, terminated, truncated, self._kept(info), frame
        )

    def _kept(self, info: dict[str, Any]) -> dict[str, Any]:
        if not self._leave_out:
            return info
        kept: dict[str, Any] = without_keys(info, self._leave_out)
        return kept


def _drawn() -> int:
    # As many bits as every environment takes.
    return secrets.randbelow(2**31)


class _Recorded:
    """The calls of both wrappers: what an environment is asked and answers goes to a recorder."""

    env: Any
    path: Path
    _recorder: _Recorder

    def _record(self, recorder: _Recorder) -> None:
        self._recorder = recorder
        self.path = recorder.writer.path
        self._finalizer = weakref.finalize(self, recorder.writer.close)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset; where the first reset has no seed, it gets one.

        Raises:
            RecordingError: What happened before, or this, cannot be written.
        """
        seed = self._recorder.seed(seed)
        asked = self._recorder.asked(options)
        outcome: tuple[Any, dict[str, Any]] = self.env.reset(seed=seed, options=options)
        self._recorder.reset(seed, asked, outcome)
        return outcome

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take a step.

        Raises:
            RecordingError: What happened before, or this, cannot be written.
        """
        asked = self._recorder.asked(action)
        outcome: tuple[Any, Any, Any, Any, dict[str, Any]] = self.env.step(action)
        self._recorder.step(asked, outcome)
        return outcome

    def flush(self) -> None:
        """Have everything so far in the file.

        Raises:
            RecordingError: It cannot be written.
        """
        self._recorder.writer.flush()

    def close(self, **kwargs: Any) -> None:
        """Complete the file and close what is recorded.

        Raises:
            RecordingError: The rest cannot be written. The environment is closed all the same.
        """
        try:
            self._recorder.writer.close()
        finally:
            super().close(**kwargs)  # type: ignore[misc]  # of Gymnasium's wrapper


class RecordRollout(_Recorded, gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Writes all resets and steps of an environment to a file, as they happen.

    Given a vector environment, it is a `RecordVectorRollout`. The file is that of
    ``docs/recording.md``; `openenv_gym.recording.open` reads it, also while it is written or after
    a crash.

    Args:
        env: The environment, before its first reset.
        path: The file.
        overwrite: Replace a file that is there.
        max_lost_steps: Steps that a crash loses at most.
        max_lost_bytes: The same in bytes of their arrays, which are kept in memory until then.
        max_lost_s: The same in seconds, as far as steps come.
        frames: Keep what `render` returns after each reset and step.
        leave_out: Keys of infos that are not kept.
        seed_first_reset: Draw a seed for the first reset, and pass it on, where it has none:
            without it nobody can play the recording again. So for the sub-environments of a vector
            that have none.
        compression: ``"zstd"``, ``"zlib"`` or ``"none"``; None: the first that is installed.
        metadata: Plain data that the file has under ``user``.

    Attributes:
        path: The file.

    Raises:
        RecordingWriteError: The file exists, or cannot be made.
        ConfigurationError: An argument has a wrong value.
    """

    def __new__(cls, env: Any, *args: Any, **kwargs: Any) -> Any:
        """Make the wrapper that fits."""
        if isinstance(env, VectorEnv):
            return RecordVectorRollout(env, *args, **kwargs)
        return super().__new__(cls)

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        max_lost_steps: int = 2048,
        max_lost_bytes: int = 32 << 20,
        max_lost_s: float = 2.0,
        frames: bool = False,
        leave_out: Collection[str] = (),
        seed_first_reset: bool = True,
        compression: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        how: dict[str, Any] = {
            "overwrite": overwrite,
            "max_lost_steps": max_lost_steps,
            "max_lost_bytes": max_lost_bytes,
            "max_lost_s": max_lost_s,
            "frames": frames,
            "leave_out": leave_out,
            "seed_first_reset": seed_first_reset,
            "compression": compression,
            "metadata": metadata,
        }
        RecordConstructorArgs.__init__(self, path=str(path), **how)
        super().__init__(env)
        self._record(_Recorder(env, path, vector=False, **how))


class RecordVectorRollout(_Recorded, VectorWrapper[Any, Any, Any, Any, Any]):
    """Writes all resets and steps of a vector environment to a file, batches as batches.

    Args:
        env: The vector environment, before its first reset.
        path: The file.
        **how: See `RecordRollout`.

    Attributes:
        path: The file.

    Raises:
        RecordingWriteError: The file exists, or cannot be made.
        ConfigurationError: An argument has a wrong value.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        path: str | os.PathLike[str],
        **how: Any,
    ) -> None:
        super().__init__(env)
        self._record(_Recorder(env, path, vector=True, **how))

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take a step in all sub-environments.

        Raises:
            RecordingError: What happened before, or this, cannot be written.
        """
        return super().step(actions)

    # What would pass the recording by.

    def step_async(self, actions: Any) -> NoReturn:
        """Refuse: see `step`."""
        _refuse("step_async")

    def step_wait(self, **kwargs: Any) -> NoReturn:
        """Refuse: see `step`."""
        _refuse("step_wait")

    def reset_async(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: see `reset`."""
        _refuse("reset_async")

    def reset_wait(self, **kwargs: Any) -> NoReturn:
        """Refuse: see `reset`."""
        _refuse("reset_wait")

    def send(self, actions: Any, env_ids: Any = None) -> NoReturn:
        """Refuse: the order of partial batches could not be played again."""
        _refuse("send")

    def recv(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: the order of partial batches could not be played again."""
        _refuse("recv")


def _refuse(name: str) -> NoReturn:
    raise ConfigurationError(
        f"A recording knows reset() and step(), and {name}() would pass it by.",
        field=name,
        hint="Use reset() and step(), or record each environment by itself.",
    )
