"""What a cluster needs of the machine: processes by their birth, ports, mounts, firewall, HTTPS."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any


__all__ = [
    "ClusterError",
    "answers",
    "birth",
    "end",
    "free_port",
    "get",
    "mounts_below",
    "node_name",
    "own_address",
    "remove_chains",
    "run",
    "runs",
    "which",
    "written",
]

SUBNET = "10.232.7"
_STOP_S = 20.0


class ClusterError(Exception):
    """There is no cluster; the text says what to do about it."""


# -- processes ----------------------------------------------------------------------------------


def birth(pid: int) -> str:
    """Return what tells a process from a later one of the same number; "" where it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def runs(note: dict[str, Any] | None) -> bool:
    """Tell whether a process runs that was noted by number and birth."""
    return note is not None and note["birth"] != "" and birth(note["pid"]) == note["birth"]


def end(note: dict[str, Any] | None) -> None:
    """End a process that was noted, by force where it does not end by itself."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        if note is None or not runs(note):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(note["pid"], signum)
        end_s = time.monotonic() + _STOP_S
        while runs(note) and time.monotonic() < end_s:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(note["pid"], os.WNOHANG)
            time.sleep(0.05)


def run(command: list[str]) -> None:
    """Run a command to its end.

    Raises:
        ClusterError: It fails.
    """
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise ClusterError(f"{' '.join(command)} failed: {done.stdout.strip()}")


def which(program: str) -> bool:
    """Tell whether a program is installed."""
    return shutil.which(program) is not None


# -- files and networks -------------------------------------------------------------------------


def written(path: Path, text: str) -> Path:
    """Write a file that others cannot read, and return its path."""
    path.touch(0o600)
    path.write_text(text)
    return path


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def own_address() -> str:
    """Return an address of this machine that is not the loopback's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
        sock.connect(("192.0.2.1", 9))  # nothing is sent
        address: str = sock.getsockname()[0]
        return address
    return f"{SUBNET}.1"


def node_name() -> str:
    """Return what the cluster calls this machine."""
    return socket.gethostname().lower()


def mounts_below(directory: Path) -> list[str]:
    """Return what is mounted below a directory, the innermost first."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    places = [line.split(" ")[1] for line in lines]
    return sorted((each for each in places if each.startswith(f"{directory}/")), reverse=True)


def remove_chains() -> None:
    """Remove the firewall chains that a kubelet leaves."""
    for table in ("filter", "nat", "mangle"):
        rules = subprocess.run(
            ["iptables", "-t", table, "-S"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ).stdout.decode()
        for line in rules.splitlines():
            words = line.split()
            if words[:1] == ["-A"] and any(word.startswith("KUBE-") for word in words):
                joined = "iptables -t " + table + " -D " + line[3:]
                subprocess.run(["sh", "-c", joined], stderr=subprocess.DEVNULL, check=False)
        chains = [line.split()[1] for line in rules.splitlines() if line.startswith("-N KUBE-")]
        for flag in ("-F", "-X"):
            for chain in chains:
                subprocess.run(["iptables", "-t", table, flag, chain], check=False)


# -- the API server -----------------------------------------------------------------------------


def answers(port: int, authority: Path) -> bool:
    """Tell whether the API server is up."""
    if not authority.exists():
        return False
    try:
        return _opened(f"https://127.0.0.1:{port}/readyz", authority, "") == b"ok"
    except OSError as error:
        # It answers a stranger with 401 once it is up.
        return getattr(error, "code", None) == 401


def get(url: str, authority: Path, token: str) -> Any:
    """Return what the API server has at a URL.

    Raises:
        OSError: It does not answer, or refuses.
    """
    return json.loads(_opened(url, authority, token))


def _opened(url: str, authority: Path, token: str) -> bytes:
    context = ssl.create_default_context(cafile=str(authority))
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with opener.open(urllib.request.Request(url, headers=headers), timeout=5) as answer:
        data: bytes = answer.read()
        return data
