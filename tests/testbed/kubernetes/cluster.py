#!/usr/bin/env python3
"""A real Kubernetes cluster of one node on this machine, for as long as a command runs.

    python3 -m tests.testbed.kubernetes.cluster ...

    run --binaries DIR --image NAME -- COMMAND...   # up, COMMAND with KUBECONFIG, down
    up --binaries DIR --image NAME                  # until `down`
    down                                            # what a killed one left, too

The programs are those that `build.sh DIR` makes; etcd, dockerd and kubectl are this machine's. The
node has a Docker engine of its own, which gets the images that are named from this machine's. API
server and etcd listen on free ports of the loopback interface; pods are reached by their addresses.
Needs root. Standard library only.

What this cluster cannot do: enforce a NetworkPolicy (there is no network plug-in), run a
RuntimeClass (dockershim), and whatever is newer than Kubernetes 1.20.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.testbed.kubernetes import programs
from tests.testbed.kubernetes.machine import (
    SUBNET,
    ClusterError,
    answers,
    birth,
    end,
    free_port,
    get,
    mounts_below,
    node_name,
    remove_chains,
    run,
    runs,
    which,
    written,
)


HERE = Path(__file__).resolve().parent
DEFAULT_DIRECTORY = Path(tempfile.gettempdir()) / "openenv-cluster"
BRIDGE = "oek8s"
START_S = 120.0


def main() -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["run", "up", "down"])
    parser.add_argument("--binaries", type=Path, help="where the programs are")
    parser.add_argument("--image", action="append", default=[], help="for the node; several times")
    parser.add_argument("--directory", type=Path, default=DEFAULT_DIRECTORY)
    arguments, words = sys.argv[1:], list[str]()
    if "--" in arguments:
        cut = arguments.index("--")
        arguments, words = arguments[:cut], arguments[cut + 1 :]
    parsed = parser.parse_args(arguments)
    if bool(words) != (parsed.command == "run"):
        parser.error("`run`, and nothing else, takes a command behind --")
    node = Node(parsed.directory)
    try:
        if parsed.command == "down":
            node.down()
            return 0
        if parsed.binaries is None:
            parser.error("--binaries is missing")
        try:
            node.up(parsed.binaries.resolve(), parsed.image)
            if parsed.command == "up":
                shown = " ".join(f"{name}={value}" for name, value in node.variables.items())
                say(f"to use it: export {shown}")
                return 0
            return subprocess.run(words, env={**os.environ, **node.variables}).returncode
        except BaseException:
            if parsed.command == "up":
                node.down()
            raise
        finally:
            if parsed.command == "run":
                node.down()
    except ClusterError as error:
        say(str(error))
        return 1


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"cluster: {text}", file=sys.stderr, flush=True)


class Node:
    """The cluster and its one node.

    Args:
        directory: What gets everything that it writes.

    Attributes:
        config: The kubeconfig.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._notes = directory / "processes.json"
        self._socket = directory / "engine" / "sock"
        self.config = directory / "kubeconfig"
        self._binaries = Path()

    @property
    def variables(self) -> dict[str, str]:
        """By these a command finds the cluster, and the engine of its node."""
        return {
            "KUBECONFIG": str(self.config),
            "OPENENV_CLUSTER_ENGINE": f"unix://{self._socket}",
        }

    # -- up -----------------------------------------------------------------------------------

    def up(self, binaries: Path, images: Sequence[str]) -> None:
        """Start everything, and wait until the node is ready.

        Raises:
            ClusterError: Something is missing or does not start.
        """
        if os.geteuid() != 0:
            raise ClusterError("A node needs root.")
        missing = [each for each in programs.PROGRAMS if not os.access(binaries / each, os.X_OK)]
        if missing:
            raise ClusterError(
                f"{binaries} lacks {', '.join(missing)}. {HERE / 'build.sh'} {binaries} makes them."
            )
        absent = [each for each in ("etcd", "dockerd", "docker", "openssl") if not which(each)]
        if absent:
            raise ClusterError(f"Missing on this machine: {', '.join(absent)} (Debian has them).")
        self.down()
        begin_s = time.monotonic()
        self._directory.mkdir(parents=True)
        self._binaries = binaries
        self._start_engine()
        self._load(images)
        self._start_control_plane()
        self._start_node()
        say(f"up after {time.monotonic() - begin_s:.1f} s")

    def _start_engine(self) -> None:
        """Start the node's engine, on a bridge of its own."""
        place = self._directory / "engine"
        place.mkdir()
        run(["ip", "link", "add", BRIDGE, "type", "bridge"])
        run(["ip", "link", "set", BRIDGE, "up"])
        run(["ip", "address", "add", f"{SUBNET}.1/24", "dev", BRIDGE])
        settings = written(place / "daemon.json", "{}")
        self._spawn("dockerd", programs.engine(place, self._socket, settings, BRIDGE))
        self._await("dockerd", lambda: self._docker("version") is not None)

    def _load(self, images: Sequence[str]) -> None:
        """Copy images from this machine's engine, and make the one that holds a pod's network."""
        if not images:
            raise ClusterError("Name an image with --image: a node pulls none.")
        saved = subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE)
        loaded = subprocess.run(
            ["docker", "-H", f"unix://{self._socket}", "load", "--quiet"],
            stdin=saved.stdout,
            stdout=subprocess.DEVNULL,
        )
        if saved.wait() or loaded.returncode:
            raise ClusterError(f"Cannot copy {', '.join(images)} from this machine's engine.")
        # It has nothing to do but to be there, and to end at once.
        recipe = f'FROM {images[0]}\nSTOPSIGNAL SIGKILL\nENTRYPOINT ["sleep"]\nCMD ["2147483647"]\n'
        done = self._docker("build", "--quiet", "--tag", programs.PAUSE, "-", text=recipe)
        if done is None:
            raise ClusterError("Cannot make the image that holds a pod's network.")

    def _start_control_plane(self) -> None:
        store, peer, port = (free_port() for _ in range(3))
        certificates, key = self._directory / "certificates", self._directory / "account.key"
        run(["openssl", "genrsa", "-out", str(key), "2048"])
        # One who may do everything, and one who may do what a role says.
        users = {name: secrets.token_hex(16) for name in ("admin", "trainer")}
        tokens = written(
            self._directory / "tokens.csv",
            f'{users["admin"]},admin,admin,"system:masters"\n{users["trainer"]},trainer,trainer\n',
        )
        self._spawn("etcd", programs.etcd(self._directory / "etcd", store, peer))
        self._spawn(
            "kube-apiserver",
            programs.api_server(
                self._binaries,
                store=store,
                port=port,
                certificates=certificates,
                key=key,
                tokens=tokens,
            ),
        )
        authority = certificates / "apiserver.crt"
        self._await("kube-apiserver", lambda: answers(port, authority))
        written(self.config, programs.kubeconfig(port, authority, users))
        started = programs.controllers(self._binaries, self._directory, self.config, key)
        for name, command in started.items():
            self._spawn(name, command)

    def _start_node(self) -> None:
        place = self._directory / "kubelet"
        place.mkdir()
        settings = written(self._directory / "kubelet.json", programs.kubelet_settings())
        command = programs.kubelet(self._binaries, place, self.config, settings, self._socket)
        self._spawn("kubelet", command)
        self._await("kubelet", self._node_is_ready)

    def _node_is_ready(self) -> bool:
        config = json.loads(self.config.read_text())
        url = config["clusters"][0]["cluster"]["server"]
        with contextlib.suppress(OSError, ValueError, KeyError):
            node = get(
                f"{url}/api/v1/nodes/{node_name()}",
                Path(config["clusters"][0]["cluster"]["certificate-authority"]),
                config["users"][0]["user"]["token"],
            )
            conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
            return conditions.get("Ready") == "True"
        return False

    # -- down ---------------------------------------------------------------------------------

    def down(self) -> None:
        """End everything that was started in the directory, and remove it."""
        noted = self._noted()
        for name in ("kubelet", "kube-controller-manager", "kube-scheduler", "kube-apiserver"):
            end(noted.get(name))
        if runs(noted.get("dockerd")):
            containers = self._docker("ps", "--all", "--quiet") or ""
            if containers.split():
                self._docker("rm", "--force", *containers.split())
        for name in ("etcd", "dockerd"):
            end(noted.get(name))
        for mount in mounts_below(self._directory):
            subprocess.run(["umount", "--lazy", mount], check=False)
        if Path(f"/sys/class/net/{BRIDGE}").exists():
            run(["ip", "link", "delete", BRIDGE])
        if noted:
            remove_chains()
        shutil.rmtree(self._directory, ignore_errors=True)

    # -- processes ----------------------------------------------------------------------------

    def _spawn(self, name: str, command: Sequence[str]) -> None:
        with open(self._directory / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                command,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # it outlives this command, and Ctrl-C
            )
        noted = self._noted()
        noted[name] = {"pid": process.pid, "birth": birth(process.pid)}
        self._notes.write_text(json.dumps(noted))
        process.returncode = 0  # it stays, and is not ours to wait for

    def _noted(self) -> dict[str, dict[str, Any]]:
        try:
            noted: dict[str, dict[str, Any]] = json.loads(self._notes.read_text())
        except (OSError, ValueError):
            return {}
        return noted

    def _await(self, name: str, happened: Callable[[], bool]) -> None:
        end_s = time.monotonic() + START_S
        while not happened():
            if time.monotonic() > end_s or not runs(self._noted()[name]):
                log = (self._directory / f"{name}.log").read_text(errors="replace")
                print(*log.splitlines()[-15:], sep="\n", file=sys.stderr)
                raise ClusterError(f"{name} does not start. Its last lines are above.")
            time.sleep(0.1)

    def _docker(self, *words: str, text: str | None = None) -> str | None:
        """Run the engine's command line; None where that fails."""
        done = subprocess.run(
            ["docker", "-H", f"unix://{self._socket}", *words],
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "DOCKER_BUILDKIT": "0"},
        )
        return done.stdout if done.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main())
