"""Virtual environments that uv makes, kept in a cache and found again by a digest."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from openenv_gym import errors
from openenv_gym.providers.base import tail_of
from openenv_gym.providers.uv.sources import Source, copy_folder


__all__ = ["cache_directory", "find_uv", "interpreter_for"]

_MAKE_S = 900.0  # no installation takes longer
_READY = "openenv-ready"


def cache_directory() -> Path:
    """Return where virtual environments are kept: ``$XDG_CACHE_HOME/openenv-gym/uv``."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "openenv-gym" / "uv"


def find_uv() -> str:
    """Return the path of uv: the package of that name in this interpreter, or on ``PATH``.

    Raises:
        ProviderUnavailableError: There is none.
    """
    beside = Path(sys.executable).parent / "uv"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")
    if found is None:
        raise errors.ProviderUnavailableError(
            "The uv provider needs uv, which is not installed.",
            hint='Run pip install "openenv-gym[uv]".',
        )
    return found


def interpreter_for(source: Source, python: str | None) -> str:
    """Return the interpreter of a virtual environment that holds a package and this library.

    It is made where it is not there yet; processes that want the same wait for one of them.

    Args:
        source: What to install.
        python: Version or path of the interpreter; by default one of our version.

    Raises:
        ProviderUnavailableError: There is no uv, or no such interpreter.
        ServerStartError: It cannot be installed.
    """
    from openenv_gym.providers.docker.contexts import library_context

    uv = find_uv()
    library = library_context()
    wanted = python or f"{sys.version_info.major}.{sys.version_info.minor}"
    key = f"{source.digest}\0{library.digest()}\0{_identity(wanted)}"
    name = f"{source.package.partition('.')[0].partition(':')[0]}-"
    venv = cache_directory() / (name + hashlib.sha256(key.encode()).hexdigest()[:24])
    interpreter = venv / "bin" / "python"
    with _locked(venv):
        if not (venv / _READY).exists() or not interpreter.exists():
            shutil.rmtree(venv, ignore_errors=True)
            _make(uv, venv, source, wanted)
            (venv / _READY).touch()
    return str(interpreter)


def _identity(python: str) -> str:
    """Return what tells an interpreter from another one that was put in its place."""
    with contextlib.suppress(OSError):
        if os.sep in python:
            facts = os.stat(python)
            return f"{python}\0{facts.st_size}\0{facts.st_mtime_ns}"
    return python


def _make(uv: str, venv: Path, source: Source, python: str) -> None:
    from openenv_gym.providers.docker.contexts import library_context

    scratch = Path(f"{venv}.scratch")  # a name that is known: the next one removes what is left
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, scratch, ignore_errors=True)
        ours = Path(scratch, "library")
        for name, content in library_context().files.items():
            if name.startswith(("openenv_gym/", "pyproject.toml", "LICENSE")):
                target = ours / name
                target.parent.mkdir(parents=True, exist_ok=True)
                data = content if isinstance(content, bytes) else content.read_bytes()
                target.write_bytes(data)
        requirements = [str(ours), *source.requirements]
        if source.folder is not None:
            theirs = Path(scratch, "environment", source.folder.name)
            copy_folder(source.folder, theirs)
            requirements.append(str(theirs))
        try:
            _run(
                [uv, "venv", "--no-project", "--python", python, str(venv)],
                f"make a virtual environment with Python {python}",
                errors.ProviderUnavailableError,
                "Install that Python, or name another: UvProvider(python=...).",
            )
            _run(
                [uv, "pip", "install", "--python", str(venv / "bin" / "python"), *requirements],
                f"install {source.package} and what it depends on",
                errors.ServerStartError,
                None,
            )
        except BaseException:
            shutil.rmtree(venv, ignore_errors=True)
            raise


def _run(
    command: list[str], what: str, error: type[errors.ProviderError], hint: str | None
) -> None:
    # Ours may point uv to another environment than the one that is meant.
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    # Interpreters that are here are taken; downloading one must have been asked for.
    environment.setdefault("UV_PYTHON_DOWNLOADS", "never")
    environment.setdefault("UV_LINK_MODE", "copy")
    if index := os.environ.get("PIP_INDEX_URL"):
        environment.setdefault("UV_DEFAULT_INDEX", index)
    try:
        done = subprocess.run(
            [*command, "--quiet"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            timeout=_MAKE_S,
        )
    except subprocess.TimeoutExpired as expired:
        raise errors.ServerStartError(
            f"uv did not {what} within {_MAKE_S:.0f} s.",
            data={"log": tail_of(expired.output or b"")},
        ) from expired
    except OSError as failed:
        raise errors.ProviderUnavailableError(f"Cannot run {command[0]}: {failed}.") from failed
    if done.returncode != 0:
        log = tail_of(done.stdout)
        if error is errors.ServerStartError:
            raise error(f"uv cannot {what}.", data={"log": log})
        raise error(f"uv cannot {what}: {log}", hint=hint)


@contextlib.contextmanager
def _locked(venv: Path) -> Iterator[None]:
    """Let one process at a time make a virtual environment."""
    venv.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(f"{venv}.lock", "w") as lock:
        end_s = time.monotonic() + _MAKE_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end_s:
                    raise errors.ServerStartError(
                        f"Another process has been making {venv} for {_MAKE_S:.0f} s.",
                        hint="Remove it if nobody is at it any more.",
                    ) from None
                time.sleep(0.1)
        yield
