"""An environment that OpenEnv and this library serve alike: the same models, the same rules.

``python twin.py PORT SLOTS [CLASS]``, by a Python that has OpenEnv, serves it there; here it is
``tests.integration.openenv.twin:Twin``.
"""

from __future__ import annotations

import sys
from typing import Any

from pydantic import Field


try:
    from openenv_gym.models import Action, Observation, State
    from openenv_gym.server import Environment
except ImportError:
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State


class Push(Action):
    """Push the thing."""

    by: int = Field(ge=-100, le=100)
    note: str = ""


class Seen(Observation):
    """Where it is."""

    at: int = 0
    names: list[str] = []
    inner: dict[str, float | None] = {}


class Twin(Environment):
    """Push a thing; at 50 the episode ends."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    action_model = Push
    observation_model = Seen

    def __init__(self) -> None:
        super().__init__()
        self.at = 0
        self.told = State(episode_id=None, step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, level: int = 0) -> Seen:
        """Begin an episode."""
        if level == 13:
            raise ValueError("no thirteenth floor")
        self.at = (seed or 0) + level
        self.told = State(episode_id=episode_id, step_count=0)
        return Seen(at=self.at, names=["a", "b"], metadata={"level": level} if level else {})

    def step(self, action: Push) -> Seen:
        """Push."""
        if action.by == 13:
            raise RuntimeError("bad luck")
        self.at += action.by
        self.told.step_count += 1
        reward: Any = {1: 1, 2: True, 3: None, 4: float("nan")}.get(action.by, 0.5)
        inner = {"x": float("inf") if action.by == 4 else 0.25}
        done = self.at >= 50
        return Seen(at=self.at, inner=inner, reward=reward, done=done, metadata={"by": action.by})

    @property
    def state(self) -> State:
        """What there is to tell."""
        return self.told

    # Tasks

    def list_splits(self) -> list[str]:
        """Return the splits."""
        return ["train", "hard"]

    def list_tasks(self, split: str) -> list[dict[str, str]]:
        """Return the tasks of a split."""
        return [{"name": f"{split} {i}"} for i in range(3)]

    def num_tasks(self, split: str) -> int:
        """Return how many there are."""
        return 3

    def get_task(self, split: str, index: int) -> dict[str, str]:
        """Return one."""
        return self.list_tasks(split)[index]


class Broken(Twin):
    """One that cannot be made."""

    def __init__(self) -> None:
        raise OSError("no floor")


def main() -> None:
    """Serve on OpenEnv until somebody ends it."""
    import uvicorn
    from openenv.core.env_server import create_fastapi_app

    port, slots, name = [*sys.argv[1:], "Twin"][:3]
    made = globals()[name]
    app = create_fastapi_app(made, Push, Seen, max_concurrent_envs=int(slots), env_name=name)
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main()
