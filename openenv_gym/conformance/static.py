"""Rules about the files of an environment package."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from openenv_gym.conformance.rules import Broken, Level, NotHere, Rule
from openenv_gym.conformance.subject import Subject
from openenv_gym.errors import ManifestError
from openenv_gym.models.manifest import Manifest, load_manifest


__all__ = ["STATIC_RULES"]

_TYPED = ("Environment", "MCPEnvironment")
_TOLD = ("observation", "action", "reward", "episode end")


def _folder(subject: Subject) -> Path:
    if subject.folder is None:
        raise NotHere("it has no folder here")
    return subject.folder


def _manifest(subject: Subject) -> Manifest:
    return load_manifest(_folder(subject) / "openenv.yaml")


def _file(subject: Subject, name: str) -> Path:
    folder = _folder(subject)
    path = folder / name
    if path.is_file():
        return path
    if not (folder / "pyproject.toml").is_file():  # what is installed holds modules only
        raise NotHere(f"{name} is no part of what is installed")
    raise Broken(f"{name} is missing")


def _holds(subject: Subject) -> str:
    try:
        manifest = _manifest(subject)
    except ManifestError as error:
        raise Broken(error.message, error.hint or "") from None
    return f"{manifest.name} {manifest.version}"


def _is_named_alike(subject: Subject) -> str:
    name, folder = _manifest(subject).name, _folder(subject).name
    if name != folder:
        raise Broken(f"the manifest says {name!r}, and the package is {folder!r}")
    return name


def _has_ids(subject: Subject) -> str:
    ids = [entry.id for entry in _manifest(subject).ids]
    if not ids:
        _need_one_agent(subject)
        raise Broken("the manifest has no ids")
    return ", ".join(f"openenv/{each}" for each in ids[:3]) + (", ..." if len(ids) > 3 else "")


def _has_app(subject: Subject) -> str:
    module, _, attribute = _manifest(subject).app.partition(":")
    path = _module_path(subject, module)
    if not path.is_file():
        raise Broken(f"app: there is no module {module}")
    if attribute not in set(_names(path)):
        raise Broken(f"app: {path.name} defines no {attribute!r}")
    return f"{module}:{attribute}"


def _module_path(subject: Subject, module: str) -> Path:
    base = _folder(subject).joinpath(*module.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def _names(path: Path) -> Iterator[str]:
    """Return the names that a module defines or imports, also below an ``if``."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)


def _compiles(subject: Subject) -> str:
    count = 0
    for path in _modules(_folder(subject)):
        try:
            ast.parse(path.read_bytes())
        except SyntaxError as error:
            raise Broken(f"{path.name}:{error.lineno}: {error.msg}") from None
        count += 1
    return f"{count} modules"


def _modules(folder: Path) -> list[Path]:
    return [
        path
        for path in sorted(folder.rglob("*.py"))
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]


def _has_models(subject: Subject) -> str:
    _need_types(subject)
    _file(subject, "models.py")
    return "models.py"


def _has_client(subject: Subject) -> str:
    _need_types(subject)
    _file(subject, "client.py")
    return "client.py"


def _need_types(subject: Subject) -> None:
    """Say where a package need have neither models nor a client.

    Raises:
        NotHere: It has neither, and serves a `gymnasium.Env`, or several agents.
    """
    folder = _folder(subject)
    if any((folder / name).is_file() for name in ("models.py", "client.py")):
        return
    _need_one_agent(subject)
    if not _has_typed_environment(folder):
        raise NotHere("it serves a gymnasium.Env, and has clients of Gymnasium alone")


def _need_one_agent(subject: Subject) -> None:
    """Say where environments of a package have several agents.

    Raises:
        NotHere: They have.
    """
    module, _, _ = _manifest(subject).app.partition(":")
    path = _module_path(subject, module)
    if path.is_file() and any(
        isinstance(node, ast.keyword) and node.arg == "multi_agent"
        for node in ast.walk(ast.parse(path.read_bytes()))
    ):
        raise NotHere("it is for several agents, which openenv_gym.pettingzoo makes")


def _has_typed_environment(folder: Path) -> bool:
    """Tell whether a module imports a class of which environments with models are made."""
    return any(
        isinstance(node, ast.ImportFrom)
        and (node.module or "").partition(".")[0] in ("openenv", "openenv_gym")
        and any(alias.name in _TYPED for alias in node.names)
        for path in _modules(folder)
        for node in ast.walk(ast.parse(path.read_bytes()))
    )


def _is_typed(subject: Subject) -> str:
    _file(subject, "py.typed")
    return "py.typed"


def _has_license(subject: Subject) -> str:
    folder = _folder(subject)
    # Several licences have a file each, such as LICENSE-MIT.
    if not any(folder.glob("LICEN[CS]E*")) and not any(folder.glob("COPYING*")):
        _file(subject, "LICENSE")
    license_ = _manifest(subject).license
    if license_ is None:
        raise Broken("the manifest names no license", "Add `license: MIT`, or yours, to it.")
    return license_


def _tells(subject: Subject) -> str:
    text = _file(subject, "README.md").read_text(encoding="utf-8").lower()
    if missing := [word for word in _TOLD if word not in text]:
        raise Broken(f"README.md says nothing of {', '.join(missing)}")
    return f"{len(text.splitlines())} lines"


def _has_image(subject: Subject) -> str:
    text = _file(subject, "server/Dockerfile").read_text(encoding="utf-8")
    if "openenv_gym.server" not in text and "uvicorn" not in text:
        raise Broken("server/Dockerfile starts no server")
    ignored = _file(subject, ".dockerignore").read_text(encoding="utf-8")
    if ".venv" not in ignored:
        raise Broken(".dockerignore lets .venv into the image", "Add a line .venv to it.")
    return "server/Dockerfile, .dockerignore"


def _is_found(subject: Subject) -> str:
    text = _file(subject, "pyproject.toml").read_text(encoding="utf-8")
    name = _folder(subject).name
    if "openenv_gym.environments" not in text or f'"{name}"' not in text:
        raise Broken("pyproject.toml has no entry point for the package")
    distribution = _manifest(subject).distribution
    if distribution is not None and f'"{distribution}"' not in text:
        raise Broken(f"the manifest says {distribution!r}, and pyproject.toml another name")
    return distribution or name


def _rule(name: str, fix: str, look: Callable[[Subject], str]) -> Rule:
    return Rule(Level.STATIC, "package", name, fix, look)


STATIC_RULES = (
    _rule("manifest", "See docs/environments.md for an openenv.yaml.", _holds),
    _rule("one name", "Let `name` in openenv.yaml be that of the folder.", _is_named_alike),
    _rule(
        "ids", "Name one under `ids`, such as `- id: Chess-v0`: gymnasium.make needs it.", _has_ids
    ),
    _rule("python", "Correct the line.", _compiles),
    _rule("application", "Let `app` name what serves it, such as server.app:app.", _has_app),
    _rule("models", "Keep the action and the observation in models.py, for clients.", _has_models),
    _rule("client", "Add client.py with an EnvClient, for OpenEnv's API.", _has_client),
    _rule("types", "Add an empty py.typed, so that type checkers read the package.", _is_typed),
    _rule("licence", "Add a LICENSE: without one nobody may use it.", _has_license),
    _rule("readme", "Tell of observation, action, reward and episode end there.", _tells),
    _rule("image", "Add both, as `openenv-gym init` writes them.", _has_image),
    _rule(
        "entry point",
        'Add [project.entry-points."openenv_gym.environments"] with NAME = "NAME".',
        _is_found,
    ),
)
