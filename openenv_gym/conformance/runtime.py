"""Rules that are looked at by making environments and playing a little."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from openenv_gym.conformance.acting import with_legal_steps
from openenv_gym.conformance.play import play
from openenv_gym.conformance.rules import Broken, Level, NotHere, Rule
from openenv_gym.conformance.subject import Subject


__all__ = ["RUNTIME_RULES"]

_STEPS = 100
_KINDS = {"rgb_array": np.ndarray, "depth_array": np.ndarray, "ansi": str}


def _starts(subject: Subject) -> str:
    begin_s = time.monotonic()
    subject.start()
    return f"the first environment after {time.monotonic() - begin_s:.1f} s"


def _has_spaces(subject: Subject) -> str:
    env = subject.make()
    return f"observation {_short(env.observation_space)}, action {_short(env.action_space)}"


def _stays_in_space(subject: Subject) -> str:
    env = subject.make()
    moments = play(env, _STEPS, seed=0)
    for number, moment in enumerate(moments):
        if not env.observation_space.contains(moment.observation):
            raise Broken(
                f"moment {number}: the observation {moment.observation!r:.80} is outside its space"
            )
    return f"{len(moments)} observations"


def _rewards(subject: Subject) -> str:
    rewards = []
    for number, moment in enumerate(play(subject.make(), _STEPS, seed=0)):
        if not isinstance(moment.reward, Real) or not math.isfinite(moment.reward):
            raise Broken(f"moment {number}: the reward is {moment.reward!r:.60}")
        for name in ("terminated", "truncated"):
            flag = getattr(moment, name)
            if not isinstance(flag, (bool, np.bool_)):
                raise Broken(f"moment {number}: {name} is {flag!r:.60}, expected a bool")
        if not isinstance(moment.info, dict):
            raise Broken(f"moment {number}: the info is {moment.info!r:.60}, expected a dict")
        rewards.append(float(moment.reward))
    return f"rewards from {min(rewards):g} to {max(rewards):g}"


def _gymnasium(subject: Subject) -> str:
    from gymnasium.utils.env_checker import check_env

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            check_env(
                with_legal_steps(subject.make()), skip_render_check=True, skip_close_check=True
            )
        except AssertionError as error:
            raise Broken(f"check_env: {error}") from None
    told = [str(each.message) for each in said if "Gym" in str(each.message)]
    return f"check_env passes{f', and says: {told[0]:.80}' if told else ''}"


def _renders(subject: Subject) -> str:
    env = subject.make()
    modes = [mode for mode in env.metadata.get("render_modes", ()) if mode in _KINDS]
    env.close()
    if not modes:
        raise NotHere("it has no render mode")
    for mode in modes:
        env = subject.make(render_mode=mode)
        env.reset(seed=0)
        picture: Any = env.render()
        if not isinstance(picture, _KINDS[mode]):
            raise Broken(f"render in mode {mode!r} returned {picture!r:.60}")
        if mode == "rgb_array":
            _check_picture(np.asarray(picture))
        env.close()
    return ", ".join(modes)


def _check_picture(picture: np.ndarray[Any, Any]) -> None:
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
        raise Broken(f"a picture has the shape {picture.shape} and is of {picture.dtype}")


def _is_healthy(subject: Subject) -> str:
    return _expect(subject, "GET", "/health", "status")


def _says_schemas(subject: Subject) -> str:
    return _expect(subject, "GET", "/schema", "action", "observation", "state")


def _says_who(subject: Subject) -> str:
    return _expect(subject, "GET", "/metadata", "name", "description")


def _resets_by_http(subject: Subject) -> str:
    if subject.has_options:
        raise NotHere("it is made with options, for which OpenEnv's reset has no place")
    return _expect(subject, "POST", "/reset", "observation", "reward", "done", body={})


def _speaks_mcp(subject: Subject) -> str:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    return _expect(subject, "POST", "/mcp", "jsonrpc", body=body)


def _expect(subject: Subject, method: str, path: str, *names: str, body: Any = None) -> str:
    status, answer = subject.get(method, path, body)
    if status != 200:
        raise Broken(f"{method} {path} answers {status}: {answer!r:.80}")
    missing = [name for name in names if not isinstance(answer, dict) or name not in answer]
    if missing:
        raise Broken(f"{method} {path} answers {answer!r:.80}, without {', '.join(missing)}")
    return f"{method} {path}: {', '.join(names)}"


def _short(space: object) -> str:
    text = " ".join(str(space).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _rule(area: str, name: str, fix: str, look: Callable[[Subject], str]) -> Rule:
    return Rule(Level.RUNTIME, area, name, fix, look)


_SERVER = "Serve it with openenv_gym.server, which answers this by itself; see its log."

RUNTIME_RULES = (
    _rule("environment", "starts", "See the server's last lines above.", _starts),
    _rule("environment", "spaces", "See docs/spaces.md for what has a space.", _has_spaces),
    _rule(
        "environment",
        "observations in space",
        "Widen the bounds of the observation's fields, or cut the values; mind the dtype.",
        _stays_in_space,
    ),
    _rule(
        "environment",
        "rewards and flags",
        "A reward is a finite number, terminated and truncated are bools, the info is a dict.",
        _rewards,
    ),
    _rule(
        "environment",
        "gymnasium",
        "Do as the message says; begin_episode(seed) has to come first in reset.",
        _gymnasium,
    ),
    _rule(
        "environment",
        "rendering",
        "Return what the mode asks for: uint8 of (height, width, 3), or text.",
        _renders,
    ),
    _rule("openenv", "health", _SERVER, _is_healthy),
    _rule("openenv", "metadata", _SERVER, _says_who),
    _rule("openenv", "schemas", _SERVER, _says_schemas),
    _rule("openenv", "reset", _SERVER, _resets_by_http),
    _rule("openenv", "mcp", _SERVER, _speaks_mcp),
)
