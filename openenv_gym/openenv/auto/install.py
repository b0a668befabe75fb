"""Installing the package of a Space, for those who say that they trust its code.

OpenEnv asks at the terminal, or takes a variable for a yes; here only the argument
``trust_remote_code=True`` of the very call does. The command names the commit that was looked up,
and pip changes nothing that is installed already: what this process has imported stays what it is.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from openenv_gym import errors
from openenv_gym.openenv.auto.hub import HubRepo, find_space
from openenv_gym.openenv.auto.installed import EnvironmentInfo, find_environments
from openenv_gym.registration import forget_environments, register_all


__all__ = ["install_command", "install_repo"]

_LIMIT_S = 600.0
_SHOWN = 2000  # characters of pip's last words


def install_command(repo: HubRepo, commit: str | None = None) -> list[str]:
    """Return the command that installs the package of a Space.

    Args:
        repo: The repository of the Space.
        commit: Its commit; None takes the newest.
    """
    source = repo.git_url if commit is None else f"{repo.git_url}@{commit}"
    return [sys.executable, "-m", "pip", "install", source]


def install_repo(repo: HubRepo) -> EnvironmentInfo:
    """Install the package of a Space, which runs code of it.

    Raises:
        UnknownEnvironmentError: There is no such Space.
        ConfigurationError: The Hub does not say which commit that is, the package cannot be
            installed, or it is no environment.
    """
    commit = find_space(repo).commit
    if commit is None:
        # Whatever is newest when pip looks is not what anybody can have looked at.
        raise errors.ConfigurationError(
            f"The Hub names no commit of {repo}, so its package is not installed.",
            field="trust_remote_code",
            hint=f"To install what is newest: {shlex.join(install_command(repo))}. "
            "skip_install=True needs no package.",
            data={"repo": str(repo)},
        )
    command = install_command(repo, commit)
    known = find_environments()
    names = _run_pip(command, repo)
    importlib.invalidate_caches()
    forget_environments()
    register_all()
    found = find_environments()
    for info in found.values():
        if (info.distribution or "").lower().replace("_", "-") in names and info.installed:
            return info
    new = [info for key, info in found.items() if info.installed and known.get(key) != info]
    if len(new) == 1:
        return new[0]
    raise errors.ConfigurationError(
        f"The package of {repo} ({', '.join(sorted(names)) or 'nothing'}) is installed now, and is "
        "no environment package.",
        field="name",
        hint="Expected a distribution named openenv-NAME with a package NAME, or one with the "
        "entry point openenv_gym.environments. skip_install=True needs neither.",
        data={"repo": str(repo), "distributions": sorted(names)},
    )


def _run_pip(command: list[str], repo: HubRepo) -> set[str]:
    """Run pip; return the names of the distributions that were asked for."""
    with tempfile.TemporaryDirectory() as directory:
        report, kept = Path(directory, "report.json"), Path(directory, "installed.txt")
        kept.write_text("\n".join(_installed_versions()), encoding="utf-8")
        rest = ["--constraint", str(kept), "--report", str(report)]
        rest += ["--no-input", "--disable-pip-version-check"]
        # Git and pip ask nobody: nobody may be there.
        environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
        try:
            done = subprocess.run(
                [*command, *rest],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_LIMIT_S,
                env=environment,
            )
        except subprocess.TimeoutExpired as error:
            raise _failed(repo, command, f"it took more than {_LIMIT_S:g} s") from error
        if done.returncode != 0:
            said = errors.printable((done.stderr or done.stdout).strip())[-_SHOWN:]
            raise _failed(repo, command, said or f"exit status {done.returncode}")
        reported = json.loads(report.read_text(encoding="utf-8"))
    return {
        str(each["metadata"]["name"]).lower().replace("_", "-")
        for each in reported.get("install", [])
        if each.get("requested")
    }


def _installed_versions() -> list[str]:
    """Return what is installed here, as constraints."""
    found = {}
    for each in importlib.metadata.distributions():
        try:
            found[each.metadata["Name"]] = each.version
        except Exception:  # metadata of any distribution may be broken
            continue
    return [f"{name}=={version}" for name, version in found.items() if name and version]


def _failed(repo: HubRepo, command: list[str], why: str) -> errors.ConfigurationError:
    return errors.ConfigurationError(
        f"The package of {repo} cannot be installed: {why}",
        field="trust_remote_code",
        hint=f"The command was: {shlex.join(command)}. skip_install=True needs no package.",
        data={"repo": str(repo), "command": command},
    )
