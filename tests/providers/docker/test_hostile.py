"""Code in a container that means harm to its owner's machine. (It runs inside the server.)"""

from __future__ import annotations

import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.client import Connection
from openenv_gym.providers import Resources
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


def test_remounting_it_is_refused(attack: Attack) -> None:
    code = """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        result = []
        for flags in (32, 4096, 32 | 4096):  # MS_REMOUNT, MS_BIND, both
            failed = libc.mount(b"/tmp", b"/run/openenv", None, flags, None)
            result.append((failed, ctypes.get_errno()))
        failed = libc.unshare(0x10000000)  # CLONE_NEWUSER
        result.append((failed, ctypes.get_errno()))
    """
    assert attack.run(textwrap.dedent(code)) == [(-1, 1)] * 4  # EPERM


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
    second = Connection(server.address, {}, timeout_s=30, why_lost=server.why_lost)
    second.call("reset", [None, None])
    assert second.call("step", ["result = 'the server'"]).value[4]["result"] == "the server"
    second.close()


def test_programs_of_the_same_user_read_nothing_of_the_server(attack: Attack) -> None:
    code = """
        import subprocess, sys
        program = '''
        import os
        parent = os.getppid()
        for name in ("environ", "mem", "maps", "fd/0"):
            try:
                open(f"/proc/{parent}/{name}", "rb").read(1)
                print(name, "read")
            except OSError as error:
                print(name, type(error).__name__)
        '''
        import textwrap
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True
        )
        result = done.stdout.split()[1::2] + [done.stderr]
    """
    assert attack.run(textwrap.dedent(code)) == ["PermissionError"] * 4 + [""]


def test_a_flooded_log_stays_small(docker: Any, attacker: MakeServer) -> None:
    server = attacker(resources=Resources(log_bytes=1 << 20))
    session = Attack(server)
    session.run("import os\nfor _ in range(1024):\n    os.write(1, b'x' * 32767 + b'\\n')")
    assert len(docker.api.logs(server.container_id)) < 2 << 20
    assert session.run("result = 'alive'") == "alive"


def test_filling_what_can_be_written_ends_at_the_limit(attacker: MakeServer) -> None:
    server = attacker(resources=Resources(tmp_bytes=8 << 20))
    session = Attack(server)
    code = """
        import errno, os
        written = files = 0
        result = []
        try:
            with open("/tmp/big", "wb") as file:
                while True:
                    written += file.write(bytes(1 << 16))
                    file.flush()
        except OSError as error:
            result.append(errno.errorcode[error.errno])
        os.unlink("/tmp/big")
        try:
            while True:
                open(f"/tmp/{files}", "w").close()
                files += 1
        except OSError as error:
            result.append(errno.errorcode[error.errno])
        result += [written, files]
    """
    no_space, no_inode, written, files = session.run(textwrap.dedent(code))
    assert (no_space, no_inode) == ("ENOSPC", "ENOSPC")
    assert written <= 8 << 20
    assert files <= 4096
    writable = session.run(
        "result = [path for path, _, _ in os.walk('/') if os.access(path, os.W_OK) "
        "and not path.startswith(('/proc', '/dev/shm', '/dev/mqueue'))]"
    )
    assert writable == ["/tmp"]


def test_a_fork_bomb_ends_at_the_limit_and_the_server_answers(attacker: MakeServer) -> None:
    server = attacker(resources=Resources(pids=64))
    session = Attack(server)
    code = """
        import errno, os, signal, time
        children = []
        result = None
        while result is None:
            try:
                child = os.fork()
            except OSError as error:
                result = errno.errorcode[error.errno], len(children)
                break
            if child == 0:
                time.sleep(60)
                os._exit(0)
            children.append(child)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    """
    name, count = session.run(textwrap.dedent(code))
    assert name == "EAGAIN"
    assert count < 64
    assert session.run("result = 'alive'") == "alive"


@pytest.mark.parametrize("address", ["1.1.1.1", "172.17.0.1", "169.254.169.254"])
def test_there_is_no_network(attack: Attack, address: str) -> None:
    code = f"""
        import socket
        sock = socket.socket()
        sock.settimeout(3)
        sock.connect(({address!r}, 80))
        result = "connected"
    """
    assert "Network is unreachable" in attack.run(textwrap.dedent(code))


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
        session.run(textwrap.dedent(code), timeout_s=10)


def test_no_descriptor_of_the_daemon_is_in_reach(attack: Attack) -> None:
    found = attack.run(
        "import os\n"
        "result = [path for path in ('/var/run/docker.sock', '/run/docker.sock')"
        " if os.path.exists(path)]"
    )
    assert found == []


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
    session = Attack(attacker(), connect_timeout_s=2)
    begin_s = time.monotonic()
    with pytest.raises((errors.DeadlineExceededError, errors.ConnectionLostError)):
        session.run(textwrap.dedent(code), timeout_s=3)
    assert time.monotonic() - begin_s < 15
