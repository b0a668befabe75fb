# mypy: disable-error-code="import-not-found, misc, no-any-return"
"""Environments for `openenv` 0.10: four floats, an Atari-sized screen, and a preprocessed one.

Written the way its own environments are; they do no work, so that what is measured is the way
there and back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server import Action, Environment, Observation, State


HEIGHT, WIDTH = 210, 160
FRAMES = (84, 84, 4)


class TrivialAction(Action):
    """An integer, as of `Discrete(2)`."""

    action_id: int


class TrivialObservation(Observation):
    """Four floats, as of `Box(shape=(4,))`."""

    values: list[float]


class TrivialEnvironment(Environment[TrivialAction, TrivialObservation, State]):
    """Returns the same observation every time."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> TrivialObservation:
        """Return the observation."""
        return TrivialObservation(values=[0.1, 0.2, 0.3, 0.4], reward=0.0)

    def step(
        self, action: TrivialAction, timeout_s: float | None = None, **kwargs: Any
    ) -> TrivialObservation:
        """Return the observation."""
        return TrivialObservation(values=[0.1, 0.2, 0.3, 0.4], reward=1.0)

    @property
    def state(self) -> State:
        """Tell nothing."""
        return State()


class TrivialClient(EnvClient[TrivialAction, TrivialObservation, State]):
    """Client of `TrivialEnvironment`."""

    def _step_payload(self, action: TrivialAction) -> dict[str, Any]:
        return {"action_id": action.action_id}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[TrivialObservation]:
        reward, done = payload.get("reward"), payload.get("done", False)
        values = payload["observation"]["values"]
        observation = TrivialObservation(values=values, reward=reward, done=done)
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(**payload)


class ScreenObservation(Observation):
    """The fields that `openenv`'s Atari environment sends; its picture for people is left out."""

    screen: list[int]
    screen_shape: list[int]
    legal_actions: list[int]
    lives: int = 0
    episode_frame_number: int = 0
    frame_number: int = 0


class ScreenEnvironment(Environment[TrivialAction, ScreenObservation, State]):
    """Returns the same screen every time, made a list of integers anew as a real one must be."""

    def __init__(self) -> None:
        super().__init__()
        # Colours and shapes of Pong, since a game's screen compresses otherwise than noise does.
        self._screen = np.full((HEIGHT, WIDTH, 3), (144, 72, 17), np.uint8)
        self._screen[24:34] = self._screen[194:210] = (236, 236, 236)
        self._screen[90:106, 16:20] = (213, 130, 74)
        self._screen[120:136, 140:144] = (92, 186, 92)
        self._screen[100:104, 70:72] = (236, 236, 236)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> ScreenObservation:
        """Return the screen."""
        return self._observe(0.0)

    def step(
        self, action: TrivialAction, timeout_s: float | None = None, **kwargs: Any
    ) -> ScreenObservation:
        """Return the screen."""
        return self._observe(0.0)

    @property
    def state(self) -> State:
        """Tell nothing."""
        return State()

    def _observe(self, reward: float) -> ScreenObservation:
        return ScreenObservation(
            screen=self._screen.flatten().tolist(),
            screen_shape=[HEIGHT, WIDTH, 3],
            legal_actions=[0, 1, 2, 3, 4, 5],
            reward=reward,
        )


class ScreenClient(EnvClient[TrivialAction, ScreenObservation, State]):
    """Client of `ScreenEnvironment`."""

    def _step_payload(self, action: TrivialAction) -> dict[str, Any]:
        return {"action_id": action.action_id}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ScreenObservation]:
        reward, done = payload.get("reward"), payload.get("done", False)
        fields = payload["observation"]
        observation = ScreenObservation(
            screen=fields["screen"],
            screen_shape=fields["screen_shape"],
            legal_actions=fields["legal_actions"],
            lives=fields["lives"],
            episode_frame_number=fields["episode_frame_number"],
            frame_number=fields["frame_number"],
            reward=reward,
            done=done,
        )
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(**payload)


class FramesObservation(Observation):
    """What preprocessed Atari observes, as a list of integers like `openenv`'s own screens."""

    pixels: list[int]


class FramesEnvironment(Environment[TrivialAction, FramesObservation, State]):
    """The peer of `trivial_env`: the same pixels every time, made a list anew each time."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._pixels = np.zeros(FRAMES, np.uint8)
        self._pixels[::2, ::3] = 200

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> FramesObservation:
        """Return the frames."""
        return FramesObservation(pixels=self._pixels.flatten().tolist(), reward=0.0)

    def step(
        self, action: TrivialAction, timeout_s: float | None = None, **kwargs: Any
    ) -> FramesObservation:
        """Return the frames."""
        return FramesObservation(pixels=self._pixels.flatten().tolist(), reward=1.0)

    @property
    def state(self) -> State:
        """Tell nothing."""
        return State()


class FramesClient(EnvClient[TrivialAction, FramesObservation, State]):
    """Client of `FramesEnvironment`."""

    def _step_payload(self, action: TrivialAction) -> dict[str, Any]:
        return {"action_id": action.action_id}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[FramesObservation]:
        reward, done = payload.get("reward"), payload.get("done", False)
        pixels = payload["observation"]["pixels"]
        observation = FramesObservation(pixels=pixels, reward=reward, done=done)
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(**payload)


# Name -> the environment, its client, its observation.
KINDS: dict[str, tuple[Any, Any, Any]] = {
    "trivial": (TrivialEnvironment, TrivialClient, TrivialObservation),
    "screen": (ScreenEnvironment, ScreenClient, ScreenObservation),
    "frames": (FramesEnvironment, FramesClient, FramesObservation),
}
