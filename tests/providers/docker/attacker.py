"""An environment that runs the code it is given, inside the server: the worst that can be."""

from __future__ import annotations

import string

import gymnasium

from openenv_gym.server import create_app


class Attacker(gymnasium.Env):
    """Each action is Python code; what it leaves in `result` comes back in the info."""

    action_space = gymnasium.spaces.Text(1 << 20, min_length=0, charset=string.printable)
    observation_space = gymnasium.spaces.Discrete(1)

    def __init__(self):
        self.globals = {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        self.globals["result"] = None
        try:
            exec(action, self.globals)
        except Exception as error:
            if self.globals.get("loud"):
                raise
            self.globals["result"] = f"{type(error).__name__}: {error}"
        return 0, 0.0, False, False, {"result": self.globals["result"]}


app = create_app(Attacker)
