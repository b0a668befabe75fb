"""Rules that are looked at by comparing: trajectories, errors, sessions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium

from openenv_gym import errors
from openenv_gym.conformance.acting import LegalChance
from openenv_gym.conformance.play import Moment, play, where_different
from openenv_gym.conformance.rules import Broken, Level, NotHere, Rule
from openenv_gym.conformance.subject import Subject


__all__ = ["BEHAVIOUR_RULES"]

_STEPS = 60
_SESSIONS = 4
_ENDS = (errors.TransportError, errors.DeadlineExceededError, errors.SessionLostError)


def _equal_seeds(subject: Subject) -> str:
    first, second = (play(subject.make(), _STEPS, seed=7) for _ in range(2))
    if (where := where_different(first, second)) is not None:
        raise Broken(f"two sessions with one seed part at {where}")
    env = subject.make()
    play(env, _STEPS // 2, seed=3)
    if (where := where_different(first, play(env, _STEPS, seed=7))) is not None:
        raise Broken(f"a session that was played before parts from a new one at {where}")
    return f"{len(first)} moments are equal, also in a session that was played before"


def _other_seeds(subject: Subject) -> str:
    first, *others = (play(subject.make(), _STEPS, seed=seed) for seed in (1, 2, 3))
    if all(where_different(first, other) is None for other in others):
        raise NotHere("nothing here is random: seeds 1, 2 and 3 lead to the same")
    return "seeds 1, 2 and 3 lead to different trajectories"


def _goes_on(subject: Subject) -> str:
    """Check that `reset` without a seed goes on with the generator."""
    runs = []
    for _ in range(2):
        env = subject.make()
        env.reset(seed=5)
        runs.append([moment for _ in range(2) for moment in play(env, 10, seed=None)])
    if (where := where_different(*runs)) is not None:
        raise Broken(f"after one seed, resets without a seed part at {where}")
    return "resets without a seed follow from the last seed"


def _needs_reset(subject: Subject) -> str:
    env = subject.make()
    try:
        env.step(env.action_space.sample())
    except gymnasium.error.ResetNeeded:
        env.reset(seed=0)
        return "ResetNeeded, and reset() helps"
    raise Broken("step before reset is answered as if nothing were wrong")


def _refuses_actions(subject: Subject) -> str:
    env = subject.make()
    env.reset(seed=0)
    told = []
    for action in _wrong_actions(env.action_space):
        try:
            env.step(action)
        except _ENDS as error:
            raise Broken(f"{action!r:.40} ends the session: {type(error).__name__}") from None
        except Exception as error:
            told.append(type(error).__name__)
        else:
            raise Broken(
                f"{action!r:.40} is taken, and {env.action_space!s:.60} has no such action"
            )
        env.reset(seed=0)
    play(env, 1, seed=0)
    return f"{', '.join(dict.fromkeys(told))}; the session goes on"


def _wrong_actions(space: gymnasium.Space[Any]) -> list[Any]:
    wrong: list[Any] = [None, "no action", {"no": "action"}, [1, [2]]]
    if not isinstance(space, gymnasium.spaces.Box):  # what exceeds one is clipped by many
        wrong.append(10**30)
    if isinstance(space, gymnasium.spaces.Discrete):
        wrong += [int(space.start) + int(space.n), int(space.start) - 1]
    return [action for action in wrong if not _contains(space, action)]


def _contains(space: gymnasium.Space[Any], action: Any) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of spaces that cast what they are asked about
            return bool(space.contains(action))
    except Exception:  # a space need not take everything
        return False


def _refuses_options(subject: Subject) -> str:
    try:
        subject.make(no_such_option_of_anything=1)
    except (errors.InvalidOptionError, TypeError) as error:
        if "no_such_option_of_anything" not in str(error):
            raise Broken(f"an unknown option is refused without its name: {error}") from None
        return "an unknown option is refused by name"
    if subject.url is not None:
        raise NotHere("the server takes any option")
    raise Broken("an unknown option is taken without a word")


def _concurrent(subject: Subject) -> str:
    alone = [play(subject.make(), _STEPS, seed=seed) for seed in range(_SESSIONS)]
    envs = [subject.make() for _ in range(_SESSIONS)]
    with ThreadPoolExecutor(_SESSIONS) as threads:
        together = list(
            threads.map(lambda pair: play(pair[1], _STEPS, seed=pair[0]), enumerate(envs))
        )
    for seed, (one, other) in enumerate(zip(alone, together, strict=True)):
        if (where := where_different(one, other)) is not None:
            raise Broken(f"beside others, the session with seed {seed} parts at {where}")
    return f"{_SESSIONS} sessions at once do what each does alone"


def _isolated(subject: Subject) -> str:
    """Check that sessions whose steps alternate do not see each other."""
    expected = play(subject.make(), 20, seed=11)
    ours, other = subject.make(), subject.make()
    ours.reset(seed=11)
    play(other, 20, seed=12)
    other.close()
    if (where := where_different(expected, play(ours, 20, seed=11))) is not None:
        raise Broken(f"after another session was played and closed, ours parts at {where}")
    return "a session does not see what another does, or that it ends"


def _saves(subject: Subject) -> str:
    env = subject.make()
    play(env, 5, seed=1)
    session: Any = env.unwrapped.openenv  # type: ignore[attr-defined]
    _, info = env.reset(seed=1)
    try:
        saved = session.save_state()
    except NotImplementedError:
        raise NotHere("it saves no states") from None
    except errors.EnvironmentFailedError as error:
        if error.type_name == "NotImplementedError":
            raise NotHere("it saves no states") from None
        raise
    chance = LegalChance(env, 1)
    actions: list[Any] = []
    first: list[Moment] = []
    while len(first) < 10 and not (first and first[-1].is_last):
        actions.append(chance.act(first[-1].info if first else info))
        first.append(Moment(*env.step(actions[-1])))
    session.restore_state(saved)
    second = [Moment(*env.step(action)) for action in actions]
    if (where := where_different(first, second)) is not None:
        raise Broken(f"what follows a restored state parts from what followed at {where}")
    return f"{len(first)} steps after restore_state are those after save_state"


def _is_closed(subject: Subject) -> str:
    env = subject.make()
    env.reset(seed=0)
    env.close()
    env.close()
    try:
        env.reset()
    except gymnasium.error.ClosedEnvironmentError:
        return "twice is fine, and nothing works afterwards"
    raise Broken("a closed environment still answers")


def _rule(area: str, name: str, fix: str, look: Callable[[Subject], str]) -> Rule:
    return Rule(Level.CONFORMANCE, area, name, fix, look)


BEHAVIOUR_RULES = (
    _rule(
        "seeds",
        "equal seeds",
        "Draw from self.np_random alone, call begin_episode(seed) first, and reset every field.",
        _equal_seeds,
    ),
    _rule("seeds", "other seeds", "Draw from self.np_random.", _other_seeds),
    _rule("seeds", "no seed", "Seed the generator only where a seed is given.", _goes_on),
    _rule(
        "errors",
        "step before reset",
        "Leave it to the server, or raise gymnasium.error.ResetNeeded.",
        _needs_reset,
    ),
    _rule(
        "errors",
        "wrong actions",
        "Raise InvalidActionError for what is no action, and keep the episode as it is.",
        _refuses_actions,
    ),
    _rule(
        "errors",
        "unknown options",
        "Name each option in __init__, and take no **kwargs.",
        _refuses_options,
    ),
    _rule("errors", "close", "Do not answer by yourself after close.", _is_closed),
    _rule(
        "sessions",
        "at once",
        "Keep what belongs to an episode in self: no globals, no class attributes, no files.",
        _concurrent,
    ),
    _rule("sessions", "apart", "Share nothing that changes between environments.", _isolated),
    _rule(
        "states",
        "save and restore",
        "Save all that a step depends on, the generator included; return copies.",
        _saves,
    ),
)
