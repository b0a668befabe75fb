"""What runs in an actor of Ray: one vector environment, and the rollouts that it plays."""

from __future__ import annotations

import os
import pickle
import time
from dataclasses import dataclass, field
from typing import Any

from openenv_gym import errors
from openenv_gym.ray.ledger import Work
from openenv_gym.ray.playing import Actor, Amount, load_actor, play
from openenv_gym.ray.rollouts import Rollouts
from openenv_gym.ray.sites import Site
from openenv_gym.vector.member import LOSSES


__all__ = ["Acting", "Outcome", "Worker"]

_PASSING = (
    errors.DeadlineExceededError,
    errors.ProviderError,
    errors.SessionError,
    errors.TransportError,
)
"""What may go away when environments are made again, there or elsewhere, ..."""
_LASTING = (
    errors.CertificateError,
    errors.ForbiddenOperationError,
    errors.ImageError,
    errors.IsolationError,
    errors.ProviderPermissionError,
    errors.UnauthorizedError,
)
"""... but for these."""


@dataclass(frozen=True)
class Outcome:
    """What came of a call.

    Attributes:
        kind: ``"done"``; ``"lost"``: the environments are gone, or could not be had; ``"failed"``:
            the environment or the policy raised, and would again; ``"closed"``: there are none.
        error: What was raised.
        seconds: How long it took.
        vector_steps: Steps of all sub-environments at once.
        num_steps: Steps of the rollouts.
        num_episodes: Their episodes.
        facts: Where this worker is.
    """

    kind: str
    error: Exception | None = None
    seconds: float = 0.0
    vector_steps: int = 0
    num_steps: int = 0
    num_episodes: int = 0
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Acting:
    """Who acts.

    Attributes:
        version: Changes when something else does.
        parts: The policy, and its weights, or None: objects of Ray, fetched once by each worker.
    """

    version: int
    parts: tuple[Any, Any]


class Worker:
    """Holds one vector environment, and plays what it is told to.

    Args:
        env_id: The id, in the form that imports this library: ``openenv_gym:openenv/...``.
        options: Keyword arguments of `gymnasium.make_vec`.
    """

    def __init__(self, env_id: str, options: dict[str, Any]) -> None:
        self._env_id = env_id
        self._options = options
        self._envs: Any = None
        self._actor: Actor | None = None
        self._version = -1

    def open(self, server: str | Site | None) -> Outcome:
        """Make the environments: on a server that runs, or on one of this worker's own."""
        import gymnasium
        import ray

        self.close()
        options = dict(self._options)
        if server is not None:
            options["base_url" if isinstance(server, str) else "server"] = server
        begin_s = time.monotonic()
        try:
            if callable(options.get("provider")):
                options["provider"] = options["provider"]()
            self._envs = gymnasium.make_vec(self._env_id, autoreset_mode="NextStep", **options)
        except Exception as error:  # whatever the provider or the environment raises
            passing = isinstance(error, _PASSING) and not isinstance(error, _LASTING)
            return Outcome("lost" if passing else "failed", _portable(error))
        facts = {"pid": os.getpid(), "node": ray.util.get_node_ip_address()}
        return Outcome("done", seconds=time.monotonic() - begin_s, facts=facts)

    def play(self, work: Work, amount: Amount, acting: Acting) -> tuple[Outcome, Rollouts | None]:
        """Play a batch of rollouts."""
        if self._envs is None:
            return Outcome("closed"), None
        begin_s = time.monotonic()
        try:
            actor = _Counted(self._acting(acting))
            played = play(self._envs, actor, work.seeds, amount, first=work.first)
        except (*LOSSES, errors.DeadlineExceededError, errors.TransportError) as error:
            self.close()
            return Outcome("lost", _portable(error)), None
        except Exception as error:  # whatever the environment or the policy raises
            return Outcome("failed", _portable(error)), None
        return Outcome(
            "done",
            seconds=time.monotonic() - begin_s,
            vector_steps=actor.acts,
            num_steps=played.num_steps,
            num_episodes=played.num_episodes,
        ), played

    def close(self) -> None:
        """End the environments, and the servers that are theirs."""
        envs, self._envs, self._actor = self._envs, None, None
        self._version = -1
        if envs is not None:
            envs.close()

    def _acting(self, acting: Acting) -> Actor:
        if self._actor is None or acting.version != self._version:
            import ray

            policy, weights = (
                ray.get(part) if isinstance(part, ray.ObjectRef) else part for part in acting.parts
            )
            self._actor = load_actor(policy, weights, self._envs)
            self._version = acting.version
        return self._actor


class _Counted:
    def __init__(self, actor: Actor) -> None:
        self.begin = actor.begin
        self._act = actor.act
        self.acts = 0

    def act(self, observations: Any, infos: dict[str, Any]) -> Any:
        self.acts += 1
        return self._act(observations, infos)


def _portable(error: Exception) -> Exception:
    """Return an error that can be sent: itself, or one with its words."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its class does when it is pickled
        return errors.EnvironmentFailedError(
            f"{type(error).__name__}: {error}", data={"type": type(error).__name__}
        )
    return error
