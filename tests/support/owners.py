"""Trainers in processes of their own, with containers that must not outlive them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any


__all__ = ["Owner"]

ROOT = Path(__file__).parents[2]


class Owner:
    """A trainer in a process of its own, with its containers.

    Args:
        docker: docker-py's client.
        script: What it runs. It prints ``ready`` when its containers are there. One that ends by
            itself reads a line first, which it is sent when it is known what it has.

    Attributes:
        process: The trainer.
        containers: Names of its containers.
        directories: What was made on this machine for their sockets.
        guardians: Process ids of its guardian.
    """

    def __init__(self, docker: Any, script: str) -> None:
        self._docker = docker
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self.process.stdout is not None
        while (line := self.process.stdout.readline().strip()) != "ready":
            assert line, self.process.communicate()[1]
        found = self.find()
        self.containers = [each["Id"] for each in found]
        self.directories = [
            Path(docker.api.inspect_container(each)["Mounts"][0]["Source"]).parent
            for each in self.containers
        ]
        self.guardians = [
            pid for pid in _children(self.process.pid) if "guardian.py" in _command(pid)
        ]
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # one that does not read may have ended
            self.process.stdin.write("\n")
            self.process.stdin.flush()

    def find(self) -> list[Any]:
        """Return the containers that name this process as their owner."""
        found = self._docker.api.containers(all=True, filters={"label": "openenv.owner"})
        pid = str(self.process.pid)
        return [one for one in found if one["Labels"]["openenv.owner"].split(":")[0] == pid]

    def leftovers(self) -> list[str]:
        """Return what is still there of all that was made for it."""
        mounts = Path("/proc/self/mounts").read_text()
        return [
            *(f"container {each['Id']}" for each in self.find()),
            *(f"directory {each}" for each in self.directories if each.exists()),
            *(f"mount {each}" for each in self.directories if str(each) in mounts),
            *(f"guardian {pid}" for pid in self.guardians if "guardian.py" in _command(pid)),
        ]

    def end(self) -> None:
        """Wait for its end."""
        self.process.wait(60)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _children(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue  # it has ended
        if int(text.rpartition(")")[2].split()[1]) == parent:
            found.append(int(path.parent.name))
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
