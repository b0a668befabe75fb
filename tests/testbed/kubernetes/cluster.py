#!/usr/bin/env python3
"""A real Kubernetes cluster of one node on this machine, for as long as a command runs.

    cluster.py run --binaries DIR --image NAME -- COMMAND...   # up, COMMAND with KUBECONFIG, down
    cluster.py up --binaries DIR --image NAME                  # until `down`
    cluster.py down                                            # what a killed one left, too

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
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


HERE = Path(__file__).resolve().parent
DEFAULT_DIRECTORY = Path(tempfile.gettempdir()) / "openenv-cluster"
BRIDGE = "oek8s"
SUBNET = "10.232.7"
SERVICES = "10.97.0.0/24"
PAUSE = "openenv-pause:1"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
START_S = 120.0
STOP_S = 20.0

KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "address": "127.0.0.1",
    "readOnlyPort": 0,
    "cgroupDriver": "cgroupfs",
    "failSwapOn": False,
    # As every cluster from 1.22 on has it: the size limit of a volume in memory is its size.
    "featureGates": {"SizeMemoryBackedVolumes": True},
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}, "x509": {}},
    "authorization": {"mode": "AlwaysAllow"},
    "clusterDomain": "cluster.local",
    "evictionHard": {
        "memory.available": "100Mi",
        "nodefs.available": "1%",
        "imagefs.available": "1%",
    },
    "imageGCHighThresholdPercent": 100,
    "imageGCLowThresholdPercent": 99,
    "nodeStatusUpdateFrequency": "2s",
    "syncFrequency": "1s",
}


class ClusterError(Exception):
    """There is no cluster; the text says what to do about it."""


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
        missing = [each for each in PROGRAMS if not os.access(binaries / each, os.X_OK)]
        if missing:
            raise ClusterError(
                f"{binaries} lacks {', '.join(missing)}. {HERE / 'build.sh'} {binaries} makes them."
            )
        absent = [each for each in ("etcd", "dockerd", "docker", "openssl") if not _which(each)]
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
        for words in (
            ["add", BRIDGE, "type", "bridge"],
            ["set", BRIDGE, "up"],
        ):
            _run(["ip", "link", *words])
        _run(["ip", "address", "add", f"{SUBNET}.1/24", "dev", BRIDGE])
        self._spawn(
            "dockerd",
            [
                "dockerd",
                *("--config-file", str(_written(place / "daemon.json", "{}"))),
                *("--data-root", str(place / "data"), "--exec-root", str(place / "run")),
                *("--pidfile", str(place / "pid"), "--host", f"unix://{self._socket}"),
                *(f"--bridge={BRIDGE}", "--iptables=false", "--ip-masq=false"),
                "--ip-forward=false",
                *("--add-runtime", f"clamp={HERE / 'runc_clamp.sh'}"),
                *("--default-runtime", "clamp"),
            ],
        )
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
        done = self._docker("build", "--quiet", "--tag", PAUSE, "-", text=recipe)
        if done is None:
            raise ClusterError("Cannot make the image that holds a pod's network.")

    def _start_control_plane(self) -> None:
        client, peer, api = (_free_port() for _ in range(3))
        certificates = self._directory / "certificates"
        key, public = self._directory / "account.key", self._directory / "account.pub"
        _run(["openssl", "genrsa", "-out", str(key), "2048"])
        _run(["openssl", "rsa", "-in", str(key), "-pubout", "-out", str(public)])
        # One who may do everything, and one who may do what a role says.
        admin, trainer = (secrets.token_hex(16) for _ in range(2))
        tokens = _written(
            self._directory / "tokens.csv",
            f'{admin},admin,admin,"system:masters"\n{trainer},trainer,trainer\n',
        )
        self._spawn(
            "etcd",
            [
                "etcd",
                *("--data-dir", str(self._directory / "etcd")),
                *("--listen-client-urls", f"http://127.0.0.1:{client}"),
                *("--advertise-client-urls", f"http://127.0.0.1:{client}"),
                *("--listen-peer-urls", f"http://127.0.0.1:{peer}"),
                *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"),
                *("--initial-cluster", f"default=http://127.0.0.1:{peer}"),
            ],
        )
        self._spawn(
            "kube-apiserver",
            [
                str(self._binaries / "kube-apiserver"),
                f"--etcd-servers=http://127.0.0.1:{client}",
                "--bind-address=127.0.0.1",
                f"--advertise-address={_own_address()}",
                f"--secure-port={api}",
                "--insecure-port=0",
                f"--cert-dir={certificates}",
                f"--service-cluster-ip-range={SERVICES}",
                f"--token-auth-file={tokens}",
                "--authorization-mode=RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-signing-key-file={key}",
                f"--service-account-key-file={public}",
                "--allow-privileged=true",
                "--disable-admission-plugins=ServiceAccount",
                "--endpoint-reconciler-type=none",
                "--kubelet-preferred-address-types=Hostname",
            ],
        )
        authority = certificates / "apiserver.crt"
        self._await("kube-apiserver", lambda: _answers(api, authority))
        _written(
            self.config,
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [
                        {
                            "name": "testbed",
                            "cluster": {
                                "server": f"https://127.0.0.1:{api}",
                                "certificate-authority": str(authority),
                            },
                        }
                    ],
                    "users": [
                        {"name": "admin", "user": {"token": admin}},
                        {"name": "trainer", "user": {"token": trainer}},
                    ],
                    "contexts": [
                        {"name": user, "context": {"cluster": "testbed", "user": user}}
                        for user in ("admin", "trainer")
                    ],
                    "current-context": "admin",
                }
            ),
        )
        for name, extra in {
            "kube-scheduler": [],
            "kube-controller-manager": [
                f"--service-account-private-key-file={key}",
                "--use-service-account-credentials=false",
                "--node-monitor-grace-period=10s",
                "--pod-eviction-timeout=10s",
            ],
        }.items():
            self._spawn(
                name,
                [
                    str(self._binaries / name),
                    f"--kubeconfig={self.config}",
                    "--bind-address=127.0.0.1",
                    f"--secure-port={_free_port()}",
                    f"--cert-dir={self._directory / name}",
                    "--port=0",
                    "--leader-elect=false",
                    *extra,
                ],
            )

    def _start_node(self) -> None:
        place = self._directory / "kubelet"
        place.mkdir()
        # The kubelet needs a resolver, and pods get none of it.
        settings = {
            **KUBELET,
            "port": _free_port(),
            "healthzPort": _free_port(),
            "resolvConf": "/etc/resolv.conf",
        }
        self._spawn(
            "kubelet",
            [
                str(self._binaries / "kubelet"),
                f"--config={_written(self._directory / 'kubelet.json', json.dumps(settings))}",
                f"--kubeconfig={self.config}",
                f"--hostname-override={_node_name()}",
                f"--node-ip={_own_address()}",
                "--container-runtime=docker",
                f"--docker-endpoint=unix://{self._socket}",
                f"--pod-infra-container-image={PAUSE}",
                f"--root-dir={place}",
                f"--cert-dir={place / 'pki'}",
                f"--volume-plugin-dir={place / 'plugins'}",
            ],
        )
        self._await("kubelet", self._node_is_ready)

    def _node_is_ready(self) -> bool:
        config = json.loads(self.config.read_text())
        url = config["clusters"][0]["cluster"]["server"]
        with contextlib.suppress(OSError, ValueError, KeyError):
            node = _get(
                f"{url}/api/v1/nodes/{_node_name()}",
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
            _end(noted.get(name))
        if _runs(noted.get("dockerd")):
            containers = self._docker("ps", "--all", "--quiet") or ""
            if containers.split():
                self._docker("rm", "--force", *containers.split())
        for name in ("etcd", "dockerd"):
            _end(noted.get(name))
        for mount in _mounts_below(self._directory):
            subprocess.run(["umount", "--lazy", mount], check=False)
        if Path(f"/sys/class/net/{BRIDGE}").exists():
            _run(["ip", "link", "delete", BRIDGE])
        if noted:
            _remove_chains()
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
        noted[name] = {"pid": process.pid, "birth": _birth(process.pid)}
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
            if time.monotonic() > end_s or not _runs(self._noted()[name]):
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


def _birth(pid: int) -> str:
    """Return what tells a process from a later one of the same number; "" where it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def _runs(note: dict[str, Any] | None) -> bool:
    return note is not None and note["birth"] != "" and _birth(note["pid"]) == note["birth"]


def _end(note: dict[str, Any] | None) -> None:
    for signum in (signal.SIGTERM, signal.SIGKILL):
        if note is None or not _runs(note):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(note["pid"], signum)
        end_s = time.monotonic() + STOP_S
        while _runs(note) and time.monotonic() < end_s:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(note["pid"], os.WNOHANG)
            time.sleep(0.05)


# -- the machine --------------------------------------------------------------------------------


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise ClusterError(f"{' '.join(command)} failed: {done.stdout.strip()}")


def _which(program: str) -> bool:
    return shutil.which(program) is not None


def _written(path: Path, text: str) -> Path:
    path.touch(0o600)
    path.write_text(text)
    return path


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _own_address() -> str:
    """Return an address of this machine that is not the loopback's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
        sock.connect(("192.0.2.1", 9))  # nothing is sent
        address: str = sock.getsockname()[0]
        return address
    return f"{SUBNET}.1"


def _node_name() -> str:
    return socket.gethostname().lower()


def _answers(port: int, authority: Path) -> bool:
    if not authority.exists():
        return False
    try:
        return _opened(f"https://127.0.0.1:{port}/readyz", authority, "") == b"ok"
    except OSError as error:
        # It answers a stranger with 401 once it is up.
        return getattr(error, "code", None) == 401


def _get(url: str, authority: Path, token: str) -> Any:
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


def _mounts_below(directory: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    places = [line.split(" ")[1] for line in lines]
    return sorted((each for each in places if each.startswith(f"{directory}/")), reverse=True)


def _remove_chains() -> None:
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


if __name__ == "__main__":
    sys.exit(main())
