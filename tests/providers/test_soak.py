"""Hundreds of servers in waves, whose trainer is killed at random moments: nothing is left."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openenv_gym.providers.inventory import Item, survey
from tests.support.images import image
from tests.support.waiting import eventually


pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
WAVE = 8
COUNT = 200
AFTER_S = 60.0  # so long after the last wave, nothing may be left

TRAINER = """
import sys, threading
from openenv_gym.client import Connection
from openenv_gym.providers import DockerProvider, ProcessProvider, ServerTarget

provider = {provider}

def play():
    server = provider.start(ServerTarget("echo_env"))
    print("started", flush=True)
    connection = Connection(
        server.address, {{}}, token=server.token, why_lost=server.why_lost, connect_timeout_s=60
    )
    connection.call("reset", [1, None])
    connection.call("step", ["hello"])
    connection.close()
    server.stop()
    print("stopped", flush=True)

threads = [threading.Thread(target=play) for _ in range({wave})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


class Waves:
    """Trainers one after the other, each with a wave of servers.

    Attributes:
        owners: Process ids of the trainers.
        started: Servers that they said they had started.
        killed: Trainers that did not come to their end.
    """

    def __init__(self, provider: str) -> None:
        self._script = TRAINER.format(provider=provider, wave=WAVE)
        self.owners: list[int] = []
        self.started = 0
        self.killed = 0

    def run(self, kill_after_s: float | None) -> float:
        """Run one wave, and return how long it took."""
        begin_s = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-c", self._script], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        self.owners.append(process.pid)
        with process:
            try:
                said, _ = process.communicate(timeout=120 if kill_after_s is None else kill_after_s)
                assert process.returncode == 0
            except subprocess.TimeoutExpired:
                assert kill_after_s is not None, "a wave that nobody kills takes minutes"
                process.kill()
                said, _ = process.communicate(timeout=30)
                self.killed += 1
        self.started += said.count("started")
        return time.monotonic() - begin_s

    def left(self, *providers: str) -> list[Item]:
        """Return what is still there of all that they made."""
        found = survey(providers)
        assert not found.unasked
        return [
            item for item in found.items if item.owner is not None and item.owner.pid in self.owners
        ]


def _soak(waves: Waves, seed: int, *providers: str, created: Callable[[], int]) -> None:
    chance = random.Random(seed)
    whole_s = waves.run(None)
    while (count := created()) < COUNT or waves.killed < len(waves.owners) // 2:
        print(f"{count} servers", flush=True)
        killed = waves.killed
        took_s = waves.run(chance.uniform(0.05, 1.0) * whole_s)
        if waves.killed == killed:  # the machine has less to do than before
            whole_s = min(whole_s, took_s)
    print(
        f"seed {seed}: {created()} servers, {waves.killed} of {len(waves.owners)} trainers killed"
    )
    assert eventually(lambda: not waves.left(*providers), AFTER_S), waves.left(*providers)


def test_soak_of_containers(docker: Any) -> None:
    image("echo_env")
    begin = int(time.time())
    waves = Waves('DockerProvider(build="never")')

    seen: set[str] = set()

    def created() -> int:
        """Return how many were created, also by trainers that could not say so any more.

        Asked after each wave: the daemon remembers its last 256 events only.
        """
        filters = {"type": "container", "event": "create", "label": "openenv.environment=echo_env"}
        events = docker.events(since=begin, until=int(time.time()), filters=filters, decode=True)
        with contextlib.closing(events):
            for event in events:
                owner = event["Actor"]["Attributes"].get("openenv.owner", "").partition(":")[0]
                if owner in map(str, waves.owners):
                    seen.add(event["Actor"]["ID"])
        return len(seen)

    _soak(waves, random.randrange(1 << 30), "docker", "process", created=created)


def test_soak_of_processes() -> None:
    waves = Waves("ProcessProvider()")
    _soak(waves, random.randrange(1 << 30), "process", created=lambda: waves.started)
