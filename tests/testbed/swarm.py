#!/usr/bin/env python3
"""A Docker Swarm of several nodes on this one machine, apart from the engine that runs here.

    python3 tests/testbed/swarm.py --nodes 3 --image openenv-gym-echo:0.1.0

makes one of engines of its own (`swarm_nodes.sh`), copies images to every node from the engine that
``DOCKER_HOST`` names, says how to use it, and takes it down on Ctrl-C or when its input ends. Tests
use `swarm`, which does the same in a ``with`` block. Needs root, `dockerd`, iproute2 and docker-py.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


__all__ = ["Swarm", "SwarmError", "swarm", "why_not"]

SCRIPT = Path(__file__).with_name("swarm_nodes.sh")
_START_S = 90.0
_STOP_S = 60.0
_TIMEOUT_S = 120
_POOL = "10.224.0.0/16"  # of overlay networks
_PORT = 2377


class SwarmError(Exception):
    """There is no swarm, and none can be made; the text says why."""


@dataclass
class Swarm:
    """A swarm whose first node manages it.

    Attributes:
        directory: Where its engines are.
        subnet: The first three numbers of their addresses.
        switch: A process in the network of the switch between them.
        nodes: docker-py's client of each, the manager first.
    """

    directory: Path
    subnet: str
    switch: int
    nodes: list[Any] = field(default_factory=list)

    @property
    def host(self) -> str:
        """The manager, for ``DOCKER_HOST``."""
        return self.host_of(1)

    @property
    def manager(self) -> Any:
        """docker-py's client of the manager."""
        return self.nodes[0]

    def host_of(self, number: int) -> str:
        """Return a node, from 1 on, for ``DOCKER_HOST``."""
        return f"unix://{self.directory}/{number}/sock"

    def join(self) -> None:
        """Make a swarm of the engines."""
        addresses = [f"{self.subnet}.{number}" for number in range(1, len(self.nodes) + 1)]
        first = f"{addresses[0]}:{_PORT}"
        self.manager.swarm.init(
            advertise_addr=addresses[0], listen_addr=first, default_addr_pool=[_POOL]
        )
        self.manager.swarm.reload()
        token = self.manager.swarm.attrs["JoinTokens"]["Worker"]
        for client, address in zip(self.nodes[1:], addresses[1:], strict=True):
            client.swarm.join([first], token, advertise_addr=address, listen_addr=address)

    def load(self, source: Any, image: str) -> None:
        """Copy an image to every node.

        Args:
            source: Client of the engine that has it.
            image: Its name.
        """
        with tempfile.TemporaryFile(dir=self.directory) as archive:
            for chunk in source.images.get(image).save(named=True):
                archive.write(chunk)
            archive.flush()  # others read it through a description of their own

            def load_one(client: Any) -> None:
                with open(f"/proc/self/fd/{archive.fileno()}", "rb") as copy:
                    client.images.load(copy)

            with ThreadPoolExecutor(len(self.nodes)) as pool:
                list(pool.map(load_one, self.nodes))

    def node(self, number: int) -> Any:
        """Return what the manager knows of a node, from 1 on."""
        found = self.manager.nodes.list(filters={"name": f"node{number}"})
        return found[0]

    def drain(self, number: int) -> None:
        """Take all tasks away from a node, which takes no new ones."""
        self._set_availability(number, "drain")

    def activate(self, number: int) -> None:
        """Take back what `drain` did."""
        self._set_availability(number, "active")

    def _set_availability(self, number: int, availability: str) -> None:
        node = self.node(number)
        node.update({**node.attrs["Spec"], "Availability": availability})

    def kill(self, number: int) -> None:
        """Have a node die as if its power failed: unheard, and with all that runs there."""
        enter = ["nsenter", f"--net=/proc/{self.switch}/ns/net"]
        subprocess.run([*enter, "ip", "link", "set", f"port{number}", "down"], check=True)
        for pid in self._processes(number):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _processes(self, number: int) -> list[int]:
        """Return the engine of a node, and all that it has started."""
        here = {int(path.name): path for path in Path("/proc").glob("[0-9]*")}
        socket = f"unix://{self.directory}/{number}/sock".encode()
        (engine,) = (path for path in here.values() if socket in _read(path / "cmdline"))
        network = os.stat(engine / "ns" / "net").st_ino
        group = f"/{self.directory.name}/{number}/".encode()
        found = []
        for pid, path in here.items():
            with contextlib.suppress(OSError):
                theirs = os.stat(path / "ns" / "net").st_ino == network
                if theirs or group in _read(path / "cgroup"):
                    found.append(pid)
        return found

    def leftovers(self) -> list[str]:
        """Return services, secrets and containers that are there."""
        found = [f"service {each.name}" for each in self.manager.services.list()]
        found += [f"secret {each.name}" for each in self.manager.secrets.list()]
        for number, client in enumerate(self.nodes, 1):
            there = client.containers.list(ignore_removed=True)
            found += [f"container {each.name} on node{number}" for each in there]
        return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""


def why_not() -> str | None:
    """Return why no swarm can be made here; None where one can."""
    if os.geteuid() != 0:
        return "only root can start Docker Engines"
    missing = [name for name in ("dockerd", "ip", "nsenter", "unshare") if not shutil.which(name)]
    return f"not installed: {', '.join(missing)}" if missing else None


@contextlib.contextmanager
def swarm(nodes: int) -> Iterator[Swarm]:
    """Make a swarm; it ends with the context, and with this process in whatever way.

    Args:
        nodes: How many nodes it has.

    Raises:
        SwarmError: None can be made.
    """
    if problem := why_not():
        raise SwarmError(f"No swarm can be made here: {problem}.")
    import docker

    directory = Path(tempfile.mkdtemp(prefix="openenv-swarm-", dir="/tmp"))
    subnet = _free_subnet()
    process = subprocess.Popen(
        [SCRIPT, directory, subnet, str(nodes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is not meant for it: its input ends
    )
    made = Swarm(directory, subnet, process.pid)
    try:
        for number in range(1, nodes + 1):
            _await(directory / str(number), process)
            made.nodes.append(docker.DockerClient(made.host_of(number), timeout=_TIMEOUT_S))
            made.nodes[-1].ping()
        made.join()
        yield made
    finally:
        for client in made.nodes:
            client.close()
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)  # in case it could not do so itself


def _await(place: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait for an engine's socket.

    Raises:
        SwarmError: It does not come.
    """
    end_s = time.monotonic() + _START_S
    while not (place / "sock").exists():
        if process.poll() is not None or time.monotonic() > end_s:
            with contextlib.suppress(OSError):
                print(*(place / "log").read_text().splitlines()[-10:], sep="\n", file=sys.stderr)
            raise SwarmError(f"The Docker Engine in {place} does not start.")
        time.sleep(0.02)


def _free_subnet() -> str:
    """Choose a network that this machine has no address in."""
    found = subprocess.run(["ip", "-o", "-4", "address"], capture_output=True, text=True).stdout
    free = [number for number in range(256) if f" 10.231.{number}." not in found]
    return f"10.231.{random.SystemRandom().choice(free)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--image", action="append", default=[], help="may be given several times")
    options = parser.parse_args(arguments)
    import docker

    try:
        with swarm(options.nodes) as made, contextlib.closing(docker.from_env()) as source:
            for image in options.image:
                made.load(source, image)
            print(f"export DOCKER_HOST={made.host}", flush=True)
            print("swarm: up; Ctrl-C takes it down", file=sys.stderr, flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                sys.stdin.read()
    except SwarmError as error:
        print(f"swarm: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
