"""Code in a container that means harm to its owner. (The battery of attacks: tests/doctor.)"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.client import Connection
from tests.providers.docker.conftest import Attack, MakeServer


pytestmark = pytest.mark.container

_ATTEMPT = """
import errno, os, socket, sys
here = {here!r}
s = os.path.join(here, "s")

def attempt(function):
    try:
        function()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"

def bind():
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(os.path.join(here, "mine"))

def write():
    with open(os.path.join(here, "big"), "wb") as file:
        file.write(bytes(1 << 20))

result = [
    attempt(lambda: os.chmod(s, 0)),
    attempt(lambda: os.rename(s, s + "2")),
    attempt(lambda: os.symlink("/var/run/docker.sock", os.path.join(here, "d"))),
    attempt(lambda: os.link("/etc/hostname" if here != "/tmp" else s + "2", s + "3")),
    attempt(lambda: os.mkdir(os.path.join(here, "m"))),
    attempt(lambda: os.unlink(s if here != "/tmp" else s + "2")),
    attempt(bind),
    attempt(write),
    attempt(lambda: os.utime(here)),
]
"""


def test_the_mount_cannot_be_changed(docker: Any, attack: Attack, attacker: MakeServer) -> None:
    # Each attempt is one that succeeds where writing is allowed.
    attack.run("open('/tmp/s', 'w').close()")
    assert attack.run(_ATTEMPT.format(here="/tmp")) == ["done"] * 9
    refused = attack.run(_ATTEMPT.format(here="/run/openenv"))
    assert set(refused) <= {"EROFS", "EPERM", "EXDEV", "EACCES"}
    assert refused.count("EROFS") >= 7
    # The owner still reaches his server, and it is his.
    attack.connection._drop()
    assert attack.run("result = 'his'") == "his"


def test_the_mount_is_the_same_on_the_host_before_and_after(attacker: MakeServer) -> None:
    server = attacker()
    session = Attack(server)
    mount = Path(server.address._path).parent  # type: ignore[attr-defined]
    before = [(each.name, each.stat().st_mode) for each in mount.iterdir()], mount.stat().st_mtime
    session.run(_ATTEMPT.format(here="/run/openenv"))
    assert before == (
        [(each.name, each.stat().st_mode) for each in mount.iterdir()],
        mount.stat().st_mtime,
    )


def test_the_server_cannot_be_impersonated(attacker: MakeServer) -> None:
    server = attacker()
    session = Attack(server)
    code = """
        import os, socket
        fakes = []
        for shown in (b"", bytes(32), os.urandom(32)):
            fake = socket.socket(socket.AF_UNIX)
            fake.connect("/run/openenv/s")
            fake.sendall(shown)
            fakes.append(fake)
        result = os.listdir("/run/openenv")
    """
    assert session.run(textwrap.dedent(code)) == ["s"]  # the key is gone
    second = Connection(server.address, {}, connect_timeout_s=60, why_lost=server.why_lost)
    second.call("reset", [None, None])
    assert second.call("step", ["result = 'the server'"]).value[4]["result"] == "the server"
    second.close()


def test_one_place_can_be_written_to(attack: Attack) -> None:
    code = (
        "import os\n"
        "result = [path for path, _, _ in os.walk('/') if os.access(path, os.W_OK) "
        "and not path.startswith(('/proc', '/dev/shm', '/dev/mqueue'))]"
    )
    assert attack.run(code) == ["/tmp"]


def test_what_it_sends_its_owner_is_checked(attacker: MakeServer) -> None:
    """Garbage on the owner's connection is an error of the protocol there, and nothing else."""
    server = attacker()
    session = Attack(server)
    code = """
        import os, socket, stat
        for name in os.listdir("/proc/self/fd"):
            try:
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    os.write(int(name), b"\\xff" * 64)
            except OSError:
                pass
    """
    with pytest.raises((errors.ProtocolError, errors.TransportError)):
        session.run(textwrap.dedent(code))


_FLOOD = """
    import os, stat, threading, time
    from openenv_gym.protocol.codec import encode_packet
    from openenv_gym.protocol.frames import Opcode, encode_frame
    from openenv_gym.protocol.messages import Goaway

    packet = encode_packet(Goaway({"reason": "boredom", "after_s": 1.0}).to_wire())
    frame = b"".join(encode_frame(Opcode.BINARY, packet, masked=False)) * 100
    fds = [int(name) for name in os.listdir("/proc/self/fd")]

    def flood():
        end_s = time.monotonic() + 20
        while time.monotonic() < end_s:
            for fd in fds:
                try:
                    if stat.S_ISSOCK(os.fstat(fd).st_mode):
                        os.write(fd, frame)
                except OSError:
                    pass

    threading.Thread(target=flood, daemon=True).start()
    time.sleep(20)
"""

_CALLER = """
import socket, time
end_s = time.monotonic() + 20
kept = []
while time.monotonic() < end_s:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(1)
    try:
        sock.connect("/run/openenv/s")
        kept = kept[-100:] + [sock]
    except OSError:
        pass
"""

_CROWD = f"""
    import os, socket, stat, subprocess, sys, time
    for _ in range(2):
        subprocess.Popen([sys.executable, "-c", {_CALLER!r}])
    time.sleep(0.5)
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                socket.socket(fileno=os.dup(int(name))).shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
    time.sleep(20)
"""


@pytest.mark.parametrize("code", [_FLOOD, _CROWD], ids=["other messages", "other callers"])
def test_nothing_that_it_does_makes_its_owner_wait_for_ever(
    attacker: MakeServer, code: str
) -> None:
    server = attacker()
    Attack(server)
    session = Attack(server)
    with pytest.raises((errors.DeadlineExceededError, errors.ConnectionLostError)):
        session.run(textwrap.dedent(code), timeout_s=3)
