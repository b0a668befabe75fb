"""Doors of the kernel that a server closes, tried in programs of their own, which do so first."""

from __future__ import annotations

import json
import platform
import socket
import subprocess
import sys
import textwrap
from typing import Any

import pytest


pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"),
    reason="closes doors of Linux on common processors",
)

_TRY = """
    import ctypes, errno, json, os, platform, socket, sys
    from openenv_gym.server.process import gain_nothing
    from openenv_gym.server.confinement import close_system_calls, keep_to_itself
    libc = ctypes.CDLL(None, use_errno=True)
    common = platform.machine() == "x86_64"

    def call(number, *arguments):
        ctypes.set_errno(0)
        libc.syscall(number, *arguments)
        return errno.errorcode.get(ctypes.get_errno())

    def family(number):
        try:
            socket.socket(number, socket.SOCK_STREAM).close()
        except OSError as error:
            return errno.errorcode[error.errno]
"""


def confined(code: str, *arguments: str) -> Any:
    text = textwrap.dedent(_TRY) + textwrap.dedent(code) + "\nprint(json.dumps(result))"
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_closed_calls_are_refused_here_and_in_programs_that_are_started() -> None:
    code = """
        # 424 and on: the same numbers everywhere. Without arguments: a fault, or an invalid value.
        before = [call(425, 0, None), call(321 if common else 280, 0, None, 0)]
        gain_nothing()
        assert close_system_calls()
        after = [call(425, 0, None), call(321 if common else 280, 0, None, 0)]
        child = os.fork()
        if child == 0:
            os._exit(0 if call(425, 0, None) == "EPERM" else 1)
        result = [before, after, os.waitpid(child, 0)[1]]
    """
    before, after, child = confined(code)
    assert after == ["EPERM", "EPERM"]
    assert before[0] != "EPERM"  # it was the filter
    assert child == 0


def test_threads_that_run_already_are_confined_too() -> None:
    code = """
        import threading
        go, said = threading.Event(), []
        thread = threading.Thread(target=lambda: (go.wait(), said.append(call(425, 0, None))))
        thread.start()
        gain_nothing()
        close_system_calls()
        go.set()
        thread.join()
        result = said
    """
    assert confined(code) == ["EPERM"]


def test_common_sockets_can_be_made_and_no_others() -> None:
    code = """
        gain_nothing()
        close_system_calls()
        common_ones = [family(each) for each in (socket.AF_UNIX, socket.AF_INET)]
        result = [common_ones, family(40), family(38), bool(socket.if_nameindex())]
    """
    assert confined(code) == [[None, None], "EAFNOSUPPORT", "EAFNOSUPPORT", True]


def test_without_a_network_there_are_no_sockets_for_one() -> None:
    code = """
        gain_nothing()
        close_system_calls()
        close_system_calls(ip=False)  # one of several sessions, after the server itself
        result = [family(each) for each in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)]
        result += [type(each).__name__ for each in socket.socketpair()]
    """
    refused = "EAFNOSUPPORT"
    assert confined(code) == [None, refused, refused, "socket", "socket"]


def test_other_numbers_for_the_same_calls_are_closed() -> None:
    if platform.machine() != "x86_64":
        pytest.skip("only x86_64 has two sets of numbers")
    code = """
        gain_nothing()
        close_system_calls()
        result = call(0x40000000 + 39)  # getpid
    """
    assert confined(code) == "ENOSYS"


def test_abstract_sockets_and_processes_of_others_are_out_of_reach() -> None:
    code = """
        def reach():
            try:
                socket.socket(socket.AF_UNIX).connect(bytes([0]) + sys.argv[1].encode())
            except OSError as error:
                return errno.errorcode[error.errno]

        def signal():
            try:
                os.kill(os.getppid(), 0)
            except OSError as error:
                return errno.errorcode[error.errno]

        gain_nothing()
        before = reach(), signal()
        scoped = keep_to_itself()
        own = socket.socket(socket.AF_UNIX)
        own.bind(bytes([0]) + sys.argv[1].encode() + b"-own")
        own.listen()
        socket.socket(socket.AF_UNIX).connect(own.getsockname())
        result = [scoped, before, (reach(), signal())]
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("")  # a free abstract name
        listener.listen()
        name = listener.getsockname()[1:].decode()
        scoped, before, after = confined(code, name)
    assert before == [None, None]
    if not scoped:
        pytest.skip("the kernel has no Landlock scopes")
    assert after == ["EPERM", "EPERM"]
