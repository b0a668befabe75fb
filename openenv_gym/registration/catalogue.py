"""The ids that this library knows by itself, so that a trainer needs no environment package.

They are kept in ``catalogue.json``, which ``python -m openenv_gym.registration.generate`` writes
from the installed Gymnasium and ale-py. This module is read at ``import openenv_gym``: plain
dataclasses, no Pydantic, no environment.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


__all__ = [
    "NAMESPACE",
    "Catalogue",
    "CatalogueEntry",
    "base_name",
    "expand",
    "game_name",
    "load_catalogue",
    "our_id",
]

NAMESPACE = "openenv"
"""Namespace of every id that this library registers."""


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """What is known of an id before anything is started.

    Attributes:
        id: The registered id, such as ``openenv/Pong-v5``.
        package: Import package that serves it: ``atari_env``, say, or ``gymnasium`` for this
            library's own host of any Gymnasium id; None if only a running server can.
        distribution: What to `pip install` for that package.
        image: Container image that holds it, without registry and tag.
        hosted: The id that the server makes, with the module that registers it where it is not
            Gymnasium: ``CartPole-v1``, ``ale_py:ALE/Pong-v5``; None for a package's own ids.
        render_modes: Modes of the original class; None if unknown before the server answers.
        render_fps: Frames per second of the original class.
        max_episode_steps: As in the original spec, like the four after it.
        reward_threshold: See `max_episode_steps`.
        nondeterministic: See `max_episode_steps`.
        order_enforce: See `max_episode_steps`.
        disable_env_checker: See `max_episode_steps`.
        kwargs: Keyword arguments of the original spec, as plain JSON data (a tuple is a list).
        untrusted: Runs code that nobody has reviewed, hence never without isolation.
        thread_affinity: Every call of a session must come from one thread.
        resets_fully: After a session nothing of it is left in its server.
        vectorized: Options with which one server steps many sub-environments at once, in threads of
            its own; None: it never does.
        step_us: Microseconds that a step takes, roughly, where that is so little that a second
            server pays for many sub-environments only; None where it is more, or unknown.
    """

    id: str
    package: str | None = None
    distribution: str | None = None
    image: str | None = None
    hosted: str | None = None
    render_modes: tuple[str, ...] | None = None
    render_fps: float | None = None
    max_episode_steps: int | None = None
    reward_threshold: float | None = None
    nondeterministic: bool = False
    order_enforce: bool = True
    disable_env_checker: bool = False
    kwargs: dict[str, Any] = field(default_factory=dict, hash=False)
    untrusted: bool = False
    thread_affinity: bool = False
    resets_fully: bool = False
    vectorized: dict[str, Any] | None = field(default=None, hash=False)
    step_us: float | None = None

    @property
    def name(self) -> str:
        """The id without the namespace: ``Pong-v5``."""
        return self.id.removeprefix(f"{NAMESPACE}/")


@dataclass(frozen=True)
class Catalogue:
    """The content of ``catalogue.json``.

    Attributes:
        versions: Versions of the distributions that it was written from.
        packages: For each import package, the fields that its entries share.
        entries: Every id with its entry.
    """

    versions: dict[str, str]
    packages: dict[str, dict[str, Any]]
    entries: dict[str, CatalogueEntry]


@functools.cache
def load_catalogue() -> Catalogue:
    """Read the catalogue that is part of this library; once in a process."""
    text = Path(__file__).with_name("catalogue.json").read_text(encoding="utf-8")
    return expand(json.loads(text))


def expand(data: dict[str, Any]) -> Catalogue:
    """Turn the compact form of ``catalogue.json`` into entries.

    Args:
        data: An object with ``versions``, ``packages``, and three kinds of ids, of which fields
            that have their default are left out: ``own`` maps our ids to their fields;
            ``gymnasium`` maps Gymnasium's ids to theirs; ``atari`` holds families of ids, each
            a list of games with the variants that exist for every one of them.

    Returns:
        The catalogue.
    """
    packages: dict[str, dict[str, Any]] = data["packages"]
    entries: dict[str, CatalogueEntry] = {}

    def add(name: str, package: str | None, fields: dict[str, Any]) -> None:
        modes = fields.get("render_modes")
        entry = CatalogueEntry(
            **{
                **packages.get(package or "", {}),
                **fields,
                "id": our_id(name),
                "package": package,
                "render_modes": None if modes is None else tuple(modes),
            }
        )
        entries[entry.id] = entry

    for name, fields in data["own"].items():
        add(name, fields.get("package"), fields)
    for hosted, fields in data["gymnasium"].items():
        add(hosted, "gymnasium", {"hosted": hosted, **fields})
    taken = {base_name(hosted) for hosted in data["gymnasium"]}
    for family in data["atari"]["families"]:
        for variant in family["variants"]:
            for game in family["games"]:
                hosted = variant["hosted"].format(name=game_name(game))
                fields = {
                    **data["atari"]["fields"],
                    **variant,
                    "hosted": f"ale_py:{hosted}",
                    "kwargs": {"game": game, **variant["kwargs"]},
                }
                # ale-py's namespace is dropped (`ALE/Pong-v5` is `openenv/Pong-v5`), but not from
                # `ALE/Blackjack-v5`: Gymnasium would take it for a newer Blackjack-v1.
                short = hosted.removeprefix("ALE/")
                add(hosted if base_name(short) in taken else short, "atari_env", fields)
    return Catalogue(data["versions"], packages, entries)


def base_name(env_id: str) -> str:
    """Return an id without its version: what Gymnasium takes for versions of one environment."""
    return re.sub(r"-v\d+$", "", env_id)


def our_id(hosted: str) -> str:
    """Return our id for a Gymnasium id; a slash inside it becomes a dash."""
    return f"{NAMESPACE}/{hosted.replace('/', '-')}"


def game_name(game: str) -> str:
    """Return a game's name as ale-py's ids spell it: ``space_invaders``, ``SpaceInvaders``."""
    return game.title().replace("_", "")
