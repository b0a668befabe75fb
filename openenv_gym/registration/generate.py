"""Write ``catalogue.json`` from the installed Gymnasium and ale-py.

::

    python -m openenv_gym.registration.generate

Specs come from Gymnasium's registry. Render modes come from the text of the modules, so that the
result does not depend on what else is installed: Box2D, MuJoCo and JAX need not be.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.metadata
import importlib.util
import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openenv_gym.registration.catalogue import CatalogueEntry, game_name


if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

__all__ = ["build", "dump", "main", "render_metadata"]

_PACKAGES: dict[str, dict[str, Any]] = {
    "atari_env": {
        "distribution": "openenv-gym-atari",
        "image": "openenv-gym-atari",
        "vectorized": {"preprocess": True},
    },
    "chess_env": {"distribution": "openenv-gym-chess", "image": "openenv-gym-chess"},
    "coding_env": {
        "distribution": "openenv-gym-coding",
        "image": "openenv-gym-coding",
        "untrusted": True,
    },
    "connect4_env": {
        "distribution": "openenv-gym-connect4",
        "image": "openenv-gym-connect4",
        "resets_fully": True,
        "step_us": 100,
    },
    "echo_env": {"distribution": "openenv-gym-echo", "image": "openenv-gym-echo"},
    "grid_world_env": {
        "distribution": "openenv-gym-grid-world",
        "image": "openenv-gym-grid-world",
    },
    "finrl_env": {"distribution": "openenv-gym-finrl", "image": "openenv-gym-finrl"},
    "gymnasium": {"distribution": "openenv-gym", "image": "openenv-gym-gymnasium"},
    "maze_env": {"distribution": "openenv-gym-maze", "image": "openenv-gym-maze"},
    "snake_env": {"distribution": "openenv-gym-snake", "image": "openenv-gym-snake"},
    "textarena_env": {"distribution": "openenv-gym-textarena", "image": "openenv-gym-textarena"},
    "openspiel_env": {"distribution": "openenv-gym-openspiel", "image": "openenv-gym-openspiel"},
    "pettingzoo_env": {"distribution": "openenv-gym-pettingzoo", "image": "openenv-gym-pettingzoo"},
}
"""This project's packages; their manifests say the same and are not read at import."""

_OWN: dict[str, dict[str, Any]] = {
    "Atari-v0": {
        "package": "atari_env",
        "render_modes": ["human", "rgb_array"],
        "render_fps": 30,
        "kwargs": {"game": "pong"},
    },
    "Chess-v0": {
        "package": "chess_env",
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 2,
    },
    "Coding-v0": {"package": "coding_env", "render_modes": ["ansi"], "render_fps": 4},
    "ConnectFour-v0": {
        "package": "connect4_env",
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 2,
    },
    "Echo-v0": {"package": "echo_env", "render_modes": ["ansi"], "render_fps": 4},
    "GridWorld-v0": {
        "package": "grid_world_env",
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 4,
    },
    "FinRL-v0": {"package": "finrl_env", "render_modes": ["ansi", "rgb_array"], "render_fps": 10},
    "Gymnasium-v0": {"package": "gymnasium"},
    "Maze-v0": {"package": "maze_env", "render_modes": ["ansi", "rgb_array"], "render_fps": 4},
    "Snake-v0": {"package": "snake_env", "render_modes": ["ansi", "rgb_array"], "render_fps": 10},
    "TextArena-v0": {"package": "textarena_env", "render_modes": ["ansi"], "render_fps": 4},
    "OpenSpiel-v0": {
        "package": "openspiel_env",
        "render_modes": ["ansi"],
        "render_fps": 4,
        "kwargs": {"game": "catch"},
    },
    "Remote-v0": {},
    "TextBlackjack-v0": {
        "package": "openspiel_env",
        "render_modes": ["ansi"],
        "render_fps": 4,
        "kwargs": {"rules": "gymnasium"},
    },
}

_STEP_US = {
    "gymnasium.envs.classic_control.acrobot": 30,
    "gymnasium.envs.classic_control": 6,
    "gymnasium.envs.toy_text": 6,
}
"""Microseconds that a step takes, roughly, by the module of the environment."""

_ALE_VARIANTS = (
    "ALE/{name}-v5",
    "{name}-v0",
    "{name}-v4",
    "{name}NoFrameskip-v0",
    "{name}NoFrameskip-v4",
)
"""Forms of ale-py's ids; one of another form is an error, so that none is lost silently."""

_DEFAULTS = {
    field.name: field.default
    for field in dataclasses.fields(CatalogueEntry)
    if field.default is not dataclasses.MISSING
} | {"kwargs": {}}

_WIDTH = 100


def main() -> None:
    """Write the catalogue beside this module."""
    path = Path(__file__).with_name("catalogue.json")
    path.write_text(dump(build()), encoding="utf-8")
    print(f"Wrote {path}.")


def build() -> dict[str, Any]:
    """Return the compact form of the catalogue (see `catalogue.expand`)."""
    import ale_py  # noqa: F401  (registers its ids)
    import gymnasium

    hosted: list[EnvSpec] = []
    atari: list[EnvSpec] = []
    for spec in gymnasium.registry.values():
        module = _module(spec)
        if module.startswith("ale_py."):
            atari.append(spec)
        # GymV21Environment and GymV26Environment are left out: shims that refer to another
        # package, hence environments of neither.
        elif module.startswith("gymnasium.envs.") and not spec.id.startswith("GymV2"):
            hosted.append(spec)
    return {
        "versions": {name: importlib.metadata.version(name) for name in ("gymnasium", "ale-py")},
        "packages": _PACKAGES,
        "own": _OWN,
        "gymnasium": {spec.id: _hosted_fields(spec) for spec in hosted},
        "atari": _atari(atari),
    }


def render_metadata(entry_point: str) -> dict[str, Any]:
    """Return ``render_modes`` and ``render_fps`` of an environment class, read from its source.

    Args:
        entry_point: ``module:Class``.

    Returns:
        Those of the two that the ``metadata`` of the class has.

    Raises:
        LookupError: If the class has no ``metadata`` written as a dict.
    """
    module, _, name = entry_point.partition(":")
    # `find_spec` of the module itself would import its parents, which may need what is missing.
    top, *rest = module.split(".")
    found = importlib.util.find_spec(top)
    if found is None or found.origin is None:
        raise LookupError(f"Expected the source of {module}, found no package {top}.")
    source = Path(found.origin).parent.joinpath(*rest).with_suffix(".py")
    tree = ast.parse(source.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            metadata = _assigned(node.body).get("metadata")
            if isinstance(metadata, ast.Dict):
                return _literals(metadata, _assigned(tree.body))
    raise LookupError(f"Expected {entry_point} to have a `metadata` written as a dict.")


def dump(value: Any) -> str:
    """Return JSON with everything on one line that fits there, for small diffs."""
    return _layout(value, 0, 0) + "\n"


def _layout(value: Any, indent: int, used: int) -> str:
    line = json.dumps(value)
    if indent + used + len(line) < _WIDTH or not isinstance(value, (dict, list)) or not value:
        return line
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        keys = {key: f"{json.dumps(key)}: " for key in value}
        items = [
            keys[key] + _layout(item, indent + 2, len(keys[key]) + 1) for key, item in value.items()
        ]
        return "{\n" + ",\n".join(inner + item for item in items) + f"\n{' ' * indent}}}"
    if all(isinstance(item, str) for item in value):
        body = textwrap.fill(line[1:-1], _WIDTH - 1, initial_indent=inner, subsequent_indent=inner)
        return f"[\n{body}\n{' ' * indent}]"
    body = ",\n".join(inner + _layout(item, indent + 2, 1) for item in value)
    return f"[\n{body}\n{' ' * indent}]"


def _assigned(body: list[ast.stmt]) -> dict[str, ast.expr]:
    """Return what is assigned to plain names in a module's or class's body."""
    values: dict[str, ast.expr] = {}
    for statement in body:
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        else:
            continue
        if statement.value is not None:
            for target in targets:
                if isinstance(target, ast.Name):
                    values[target.id] = statement.value
    return values


def _literals(metadata: ast.Dict, constants: dict[str, ast.expr]) -> dict[str, Any]:
    # Only what is asked for: other values need not be literals (`AutoresetMode.NEXT_STEP`).
    found: dict[str, Any] = {}
    for key, value in zip(metadata.keys, metadata.values, strict=True):
        if isinstance(key, ast.Constant) and key.value in ("render_modes", "render_fps"):
            # Box2D's modules write `"render_fps": FPS`.
            node = constants.get(value.id, value) if isinstance(value, ast.Name) else value
            found[str(key.value)] = ast.literal_eval(node)
    return found


def _hosted_fields(spec: EnvSpec) -> dict[str, Any]:
    fields = _spec_fields(spec)
    module = _module(spec)
    if isinstance(spec.entry_point, str):
        fields = {**render_metadata(spec.entry_point), **fields}
    for prefix, step_us in _STEP_US.items():
        if module.startswith(prefix):
            fields["step_us"] = step_us
            break
    if module.startswith("gymnasium.envs.mujoco."):
        # MuJoCo's renderer makes its OpenGL context current in the thread that creates it, and
        # draws in whichever thread calls next.
        fields["thread_affinity"] = True
    return fields


def _atari(specs: list[EnvSpec]) -> dict[str, Any]:
    """Fold ale-py's ids into families: variants that exist for the same games."""
    games: dict[str, list[str]] = {}
    variants: dict[str, dict[str, Any]] = {}
    for spec in specs:
        spec_fields = _spec_fields(spec)
        kwargs = spec_fields["kwargs"]
        game = kwargs.pop("game")
        form = next(
            (form for form in _ALE_VARIANTS if form.format(name=game_name(game)) == spec.id), None
        )
        if form is None:
            raise ValueError(f"Expected {spec.id} to have one of the forms {_ALE_VARIANTS}.")
        if variants.setdefault(form, spec_fields) != spec_fields:
            raise ValueError(f"Expected {spec.id} to have what {form} has: {variants[form]}.")
        games.setdefault(form, []).append(game)
    families: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for form in _ALE_VARIANTS:
        # Sorted: ale-py lists its games as the file system does.
        names = tuple(sorted(games.get(form, [])))
        families.setdefault(names, []).append({"hosted": form, **variants[form]})
    return {
        "fields": render_metadata("ale_py.env:AtariEnv"),
        "families": [
            {"variants": members, "games": list(names)} for names, members in families.items()
        ],
    }


def _spec_fields(spec: EnvSpec) -> dict[str, Any]:
    fields = {
        "max_episode_steps": spec.max_episode_steps,
        "reward_threshold": spec.reward_threshold,
        "nondeterministic": spec.nondeterministic,
        "order_enforce": spec.order_enforce,
        "disable_env_checker": spec.disable_env_checker,
        # By way of JSON: a tuple becomes the list that it is after a round trip anyway.
        "kwargs": json.loads(json.dumps(spec.kwargs)),
    }
    return {name: value for name, value in fields.items() if value != _DEFAULTS[name]}


def _module(spec: EnvSpec) -> str:
    if isinstance(spec.entry_point, str):
        return spec.entry_point.partition(":")[0]
    # A function that says where the environment went (MuJoCo's v2 and v3).
    return f"{getattr(spec.entry_point, '__module__', '')}."


if __name__ == "__main__":
    main()
