"""An interpreter: a fork of its keeper that runs what the server sends, and says how it went.

The agent's code runs in the main thread. The thread that talks with the server has a table of file
descriptors of its own, in which alone the connection stands: so code that closes all descriptors
does not close it, what the code forks does not inherit it, and it ends exactly when this process
does. What the code prints goes to the descriptors 1 and 2, which are other pipes.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import os
import random
import signal
import socket
import sys

from coding_env.server.inside.executors import Executor, make_executor, restore_builtins
from coding_env.server.inside.frames import (
    EVALUATE,
    MAX_TEXT_BYTES,
    REPLY,
    REQUEST,
    read_exactly,
)


__all__ = ["serve"]

_CLOSE_RANGE = 436  # system call
_UNSHARE = 1 << 1  # CLOSE_RANGE_UNSHARE
_BEYOND = 0xFFFFFFFE  # no descriptor has this number


class _Desk:
    """Where the two threads hand each other requests and replies."""

    def __init__(self) -> None:
        self.kind = 0
        self.text = ""
        self.code = 0
        self.value: str | None = None
        self.asked = _thread.allocate_lock()
        self.answered = _thread.allocate_lock()
        self.apart = _thread.allocate_lock()
        for lock in (self.asked, self.answered, self.apart):
            lock.acquire()


def serve(channel: socket.socket, executor: str, imports: list[str], seed: int) -> None:
    """Run what is asked for until the server hangs up. Does not return.

    Args:
        channel: The connection to the server.
        executor: See `make_executor`.
        imports: Likewise.
        seed: Of Python's random numbers.
    """
    _open_streams()
    random.seed(seed)
    desk, here = _Desk(), os.getpid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    machine = make_executor(executor, imports)
    # Not by `threading`, where the agent's code would find it.
    _thread.start_new_thread(_talk, (channel, desk))
    desk.apart.acquire()
    channel.close()
    del channel
    leave, pid = os._exit, os.getpid
    handle, on_interrupt, ignore = signal.signal, signal.default_int_handler, signal.SIG_IGN
    while True:
        try:
            desk.asked.acquire()
        except BaseException:  # of a handler of signals that the agent's code has installed
            continue
        desk.code, desk.value = 1, None
        try:
            handle(signal.SIGINT, on_interrupt)
            desk.code, desk.value = _answer(machine, desk.kind, desk.text)
            handle(signal.SIGINT, ignore)
        except BaseException:  # the same; or an interrupt that came when the program had ended
            handle(signal.SIGINT, ignore)
        restore_builtins()
        if pid() != here:
            leave(desk.code)  # a fork, which has come to the end of the program
        desk.answered.release()


def _answer(machine: Executor, kind: int, text: str) -> tuple[int, str | None]:
    if kind == EVALUATE:
        return machine.evaluate(text)
    code, value = machine.run(text)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):  # whatever the program has put there, or closed
            stream.flush()
    return code, value


def _talk(channel: socket.socket, desk: _Desk) -> None:
    """Be the thread that has the connection; the process ends with it."""
    leave = os._exit
    try:
        # Copies the table of descriptors for this thread. Where the kernel refuses that, both
        # threads share one, and code that closes the connection ends its interpreter.
        shared = ctypes.CDLL(None).syscall(_CLOSE_RANGE, _BEYOND, _BEYOND, _UNSHARE) != 0
        mine = socket.socket(fileno=os.dup(channel.fileno()) if shared else channel.fileno())
        receive, send = mine.recv, mine.sendall
        desk.apart.release()
        while True:
            kind, size = REQUEST.unpack(read_exactly(receive, REQUEST.size))
            desk.kind, desk.text = kind, read_exactly(receive, size).decode()
            desk.asked.release()
            desk.answered.acquire()
            value = b"" if desk.value is None else desk.value.encode("utf-8", "backslashreplace")
            value = value[:MAX_TEXT_BYTES]
            send(REPLY.pack(desk.code, desk.value is not None, len(value)) + value)
    except BaseException:  # the server is gone, or the agent's code has broken what we need
        leave(1)


def _open_streams() -> None:
    """Make standard streams that write what they are given at once, line by line."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        stream = open(  # noqa: SIM115  (they stay open)
            number, mode, buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
