"""What this library has on this machine itself: processes, and directories of sockets."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import tempfile
import time
from pathlib import Path

from openenv_gym.errors import ProviderError
from openenv_gym.providers.guardian import (
    KIND,
    MARKER,
    OWNER,
    OWNER_FILE,
    birth_of,
    kill_marked,
    remove_mount,
)
from openenv_gym.providers.inventory import Item
from openenv_gym.providers.owner import Owner


__all__ = ["directories", "log", "processes", "remove"]

_MOUNT = re.compile(r"openenv-[0-9a-f]{32}")
_NEW_S = 60.0  # so long a directory may be without its owner's name: it is being made
_END_S = 5.0
_LOG_BYTES = 16 << 20


def processes(*kinds: str) -> list[Item]:
    """Return the servers and helpers on this machine, as far as this user may see them.

    Args:
        kinds: ``"process"`` and ``"uv"`` are servers, ``"egress"`` proxies, ``"guardian"`` those
            who clean up after a process.
    """
    servers: dict[str, list[tuple[int, dict[str, str]]]] = {}
    guardians = []
    ours = os.environ.get(MARKER)  # this may run inside a server, which then is no leftover
    for pid in _pids():
        variables = _environment(pid)
        kind = variables.get(KIND)
        if kind == "guardian" and kind in kinds and birth_of(pid):
            owner = Owner.parse(variables.get(OWNER, ""))
            guardians.append(Item("process", kind, f"{pid}:{birth_of(pid)}", owner))
        elif kind in kinds and (marker := variables.get(MARKER)) not in (None, "", ours):
            servers.setdefault(str(marker), []).append((pid, variables))
    items = []
    for marker, members in servers.items():
        pid, variables = min(members, key=lambda member: (int(birth_of(member[0]) or 0), member[0]))
        count = f", {len(members)} processes" if len(members) > 1 else ""
        kind = variables[KIND]
        items.append(
            Item(
                "uv" if kind == "uv" else "process",
                "server" if kind in ("process", "uv") else kind,
                marker,
                Owner.parse(variables.get(OWNER, "")),
                f"pid {pid}{count}",
            )
        )
    return items + guardians


def directories() -> list[Item]:
    """Return the directories in which containers find the sockets of their owners."""
    items = []
    for place in {tempfile.gettempdir(), "/tmp"}:
        for path in Path(place).glob("openenv-*"):
            if _MOUNT.fullmatch(path.name) is None:
                continue
            with contextlib.suppress(OSError):
                if path.lstat().st_uid != os.geteuid() or path.is_symlink():
                    continue
                owner = _owner_of(path)
                if owner is not None or time.time() - path.lstat().st_mtime > _NEW_S:
                    items.append(Item("process", "directory", str(path), owner))
    return items


def _owner_of(path: Path) -> Owner | None:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return Owner.parse((path / OWNER_FILE).read_text())
    return None


def log(item: Item, lines: int) -> str:
    """Return the last lines that a server wrote: to a file without a name, which it has open.

    Raises:
        ProviderError: It has ended, or is another user's.
    """
    pid = item.detail.removeprefix("pid ").partition(",")[0]
    try:
        with open(f"/proc/{int(pid)}/fd/2", "rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _LOG_BYTES, 0))
            text = file.read().decode(errors="replace")
    except (OSError, ValueError) as error:
        raise ProviderError(
            f"The log of {item.kind} {item.name} cannot be read: {error}.",
            hint="See what still runs with openenv-gym ps.",
            data={"name": item.name},
        ) from error
    return "".join(text.splitlines(keepends=True)[-lines:]) if lines else ""


def remove(item: Item) -> None:
    """End processes, remove a directory.

    Raises:
        ProviderError: It is still there afterwards.
    """
    if item.kind == "directory":
        remove_mount(item.name)
        if os.path.isdir(item.name):
            raise ProviderError(
                f"{item.name} cannot be removed: it holds something that this library did not put "
                "there, or belongs to another user.",
                data={"path": item.name},
            )
        return
    if item.kind == "guardian":
        pid, _, birth = item.name.partition(":")
        if birth_of(int(pid)) == birth:
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)
    else:
        kill_marked(item.name)
    end_s = time.monotonic() + _END_S
    while _is_there(item):
        if time.monotonic() > end_s:
            raise ProviderError(
                f"{item.kind} {item.name} ({item.detail}) does not end, even when it is killed.",
                data={"name": item.name},
            )
        time.sleep(0.02)


def _is_there(item: Item) -> bool:
    if item.kind == "guardian":
        pid, _, birth = item.name.partition(":")
        return birth_of(int(pid)) == birth
    return any(_environment(pid).get(MARKER) == item.name and birth_of(pid) for pid in _pids())


def _pids() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return []


def _environment(pid: int) -> dict[str, str]:
    """Return a process's variables; none where it is gone, or another user's."""
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.decode(errors="replace").partition("=") for entry in data.split(b"\0"))
    return {name: value for name, _, value in pairs if name}
