"""Play one rollout wherever servers run, and print the SHA-256 of all that came.

    python examples/rollout.py --provider process
    python examples/rollout.py --provider docker

Nothing but ``provider=`` differs, and the hash is the same everywhere: equal seeds, equal
trajectories. ``python3 dev.py providers`` plays it on every provider that works here.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence

import gymnasium
import numpy as np

import openenv_gym  # noqa: F401 (registers the ids that begin with openenv/)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--provider", default="auto", help="default: %(default)s")
    parser.add_argument("--env", default="openenv/CartPole-v1", help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=500, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=7, help="default: %(default)s")
    options = parser.parse_args(arguments)
    digest = rollout(options.provider, options.env, options.steps, options.seed)
    print(f"{options.provider:12}{digest}", flush=True)


def rollout(provider: str, env_id: str, steps: int, seed: int) -> str:
    """Play four environments on two servers; return the hash of what they gave.

    Args:
        provider: What starts the servers.
        env_id: What is played.
        steps: How many steps all of them take.
        seed: Of the environments, and of the actions.

    Returns:
        SHA-256 over observations, rewards, and both kinds of ends, in hexadecimal digits.
    """
    digest = hashlib.sha256()
    env = gymnasium.make_vec(env_id, num_envs=4, num_servers=2, provider=provider)
    try:
        env.action_space.seed(seed)
        observations, _ = env.reset(seed=seed)
        digest.update(np.ascontiguousarray(observations).tobytes())
        for _ in range(steps):
            came = env.step(env.action_space.sample())
            for array in came[:4]:
                digest.update(np.ascontiguousarray(array).tobytes())
    finally:
        env.close()
    return digest.hexdigest()


if __name__ == "__main__":
    main()
