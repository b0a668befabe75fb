"""An interpreter in a process of its own, as the environment uses it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coding_env
from coding_env.server.inside.frames import (
    EVALUATE,
    MAX_TEXT_BYTES,
    REPLY,
    REQUEST,
    RUN,
)
from coding_env.server.inside.landlock import WITH_SIGNALS
from coding_env.server.inside.limits import Limits
from coding_env.server.output import Kept, Output
from coding_env.server.users import check_reading, take_user
from openenv_gym.errors import IsolationError, ServerStartError
from openenv_gym.server.workers import cleaner


__all__ = ["BROKEN", "TIMED_OUT", "Interpreter", "Limits", "Run"]

TIMED_OUT, BROKEN = 124, 125
"""Exit codes: the time was over; the interpreter cannot go on, for no other reason."""

_GRACE_S = 1.0  # for a program that was interrupted, before its interpreter is ended
_LAST_OUTPUT_S = 0.25  # for what others still write when a program has ended
_KEEPER_S = 20.0  # for the keeper to answer
_START_S = 60.0  # for it to load what it needs
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LOST = "A fresh interpreter has taken its place: variables are lost.]\n"

_log = logging.getLogger("openenv_gym.server")


@dataclass(frozen=True)
class Run:
    """What became of a program, or of an expression.

    Attributes:
        exit_code: See `CodeObservation.exit_code`.
        value: Text of the value; None where there is none.
        stdout: What was written to the standard output.
        stderr: Likewise.
        timed_out: Its time was over.
        lost: The interpreter was ended, or has ended, and with it all variables.
        note: What is to be said about that.
    """

    exit_code: int
    value: str | None
    stdout: Kept
    stderr: Kept
    timed_out: bool
    lost: bool
    note: str


class _Ended(Exception):
    """The interpreter has ended, or says something that it never would."""


class Interpreter:
    """Runs programs in a process of its own, below a keeper (`coding_env.server.inside.keeper`).

    Args:
        limits: What a program may use.
        executor: ``"python"``, or ``"smolagents"``.
        imports: With smolagents: what programs may import beside what it allows.
        hidden: Paths that programs must not read.

    Attributes:
        isolation: What separates programs from this process: ``"user"``, ``"landlock"``.

    Raises:
        IsolationError: This system has no way to keep an interpreter.
        ServerStartError: The keeper does not start.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        executor: str = "python",
        imports: Sequence[str] = (),
        hidden: Sequence[str] = (),
    ) -> None:
        self._limits = limits
        self._channel: socket.socket | None = None
        self._outputs: tuple[Output, Output] | None = None
        self._user = take_user()
        # Under its real name, by which the kernel knows it.
        self.directory = os.path.realpath(tempfile.mkdtemp(prefix="openenv-coding-"))
        try:
            if self._user.number is not None:
                os.chown(self.directory, self._user.number, self._user.number)
            self._keeper, self._service = self._start_keeper(executor, imports, hidden)
        except OSError as error:
            self._let_go()
            raise ServerStartError(f"Programs cannot be run: {error}.") from error
        try:
            landlock = self._hear(_START_S).get("landlock", 0)
            if self._user.number is not None and not self._user.apart:
                check_reading(landlock)
        except BaseException:
            self.close()
            raise
        self.isolation = ["user"] if self._user.apart else []
        if landlock >= WITH_SIGNALS:
            self.isolation.append("landlock")

    def _start_keeper(
        self, executor: str, imports: Sequence[str], hidden: Sequence[str]
    ) -> tuple[subprocess.Popen[bytes], socket.socket]:
        root = str(Path(coding_env.__file__).parents[1])
        # What is found on the module path of an interpreter that is started with no variables.
        program = (
            f"import sys; sys.path.insert(0, {root!r}); "
            "from coding_env.server.inside.keeper import main; "
            f"sys.path.remove({root!r}); main()"
        )
        plan = {
            "limits": self._limits.to_data(),
            "directory": self.directory,
            "readable": sorted({sys.prefix, sys.base_prefix, sys.exec_prefix}),
            # Here, where links are followed that a program's user may not even see.
            "hidden": [os.path.realpath(path) for path in hidden],
            "user": self._user.number,
            "executor": executor,
            "imports": list(imports),
        }
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            keeper = subprocess.Popen(
                [
                    *(sys.executable, "-s", "-c", program, str(theirs.fileno())),
                    *(json.dumps(plan), cleaner.__file__),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                cwd="/",
                env={
                    "HOME": self.directory,
                    "TMPDIR": self.directory,
                    "PATH": f"{os.path.dirname(sys.executable)}:{_PATH}",
                    "LANG": "C.UTF-8",
                    "PYTHONHASHSEED": "0",  # so that sets have the same order in each episode
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
            )
        return keeper, ours

    # -- the keeper -------------------------------------------------------------------------------

    def _ask(self, what: dict[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        try:
            socket.send_fds(self._service, [json.dumps(what).encode()], list(descriptors))
        except OSError as error:
            raise _no_keeper(str(error)) from error
        return self._hear(_KEEPER_S)

    def _hear(self, limit_s: float) -> dict[str, Any]:
        self._service.settimeout(limit_s)
        try:
            said = self._service.recv(4096)
        except OSError as error:
            raise _no_keeper(str(error)) from error
        if not said:
            raise _no_keeper("it has ended")
        heard: dict[str, Any] = json.loads(said)
        if "error" in heard:
            raise _no_keeper(heard["error"])
        return heard

    # -- episodes ---------------------------------------------------------------------------------

    def restart(self, seed: int, stdin: str = "") -> None:
        """Begin anew: end all that was started, empty the directory, start an interpreter.

        Args:
            seed: Of Python's random numbers there.
            stdin: What it finds on its standard input.

        Raises:
            ServerStartError: It cannot be started.
        """
        self._stop()
        outputs = Output(), Output()
        ours, theirs = socket.socketpair()
        with theirs, open(os.memfd_create("stdin"), "w+b", buffering=0) as standard_input:
            standard_input.write(stdin.encode("utf-8", "replace"))
            standard_input.seek(0)
            given = (standard_input.fileno(), *(each.give() for each in outputs), theirs.fileno())
            try:
                self._ask({"do": "start", "seed": seed}, given)
            except BaseException:
                ours.close()
                for each in outputs:
                    each.close()
                raise
            finally:
                for each in outputs:
                    each.given()
        ours.setblocking(False)
        self._channel, self._outputs, self._seed = ours, outputs, seed

    def _stop(self) -> dict[str, Any]:
        """End the interpreter and what it has started; return what the keeper says of it."""
        if self._channel is None:
            return {}
        self._channel.close()
        self._channel = None
        try:
            ended = self._ask({"do": "end"})
        finally:
            assert self._outputs is not None
            for each in self._outputs:
                each.close()
        if ended["left"] or ended["problem"]:
            raise IsolationError(
                f"What a program has left cannot be removed: {ended['left']} processes; "
                f"{ended['problem'] or 'no files'}."
            )
        return ended

    def close(self) -> None:
        """End everything, and remove the directory."""
        with contextlib.suppress(IsolationError, ServerStartError):
            self._stop()
        self._service.close()  # which tells the keeper
        try:
            self._keeper.wait(_KEEPER_S)
        except subprocess.TimeoutExpired:
            # It goes on until all has ended, which without it would stay.
            _log.error("What programs have started in %s has not ended yet", self.directory)
        else:
            self._let_go()

    def _let_go(self) -> None:
        with contextlib.suppress(OSError):
            os.rmdir(self.directory)
        self._user.give_back()

    # -- programs ---------------------------------------------------------------------------------

    def run(self, code: str, *, wall_s: float | None = None) -> Run:
        """Run a program; `restart` comes first.

        Args:
            code: The program.
            wall_s: Seconds that it may take; by default those of the limits.
        """
        return self._request(RUN, code, self._limits.wall_s if wall_s is None else wall_s)

    def evaluate(self, expression: str, *, wall_s: float) -> Run:
        """Return the canonical text of an expression's value (`inside.canonical`)."""
        return self._request(EVALUATE, expression, wall_s)

    def _request(self, kind: int, text: str, wall_s: float) -> Run:
        if self._outputs is None or self._channel is None:
            raise ServerStartError("No interpreter runs.", hint="Call reset().")
        begin_s = time.monotonic()
        data = text.encode("utf-8", "surrogatepass")
        exit_code, value, note = BROKEN, None, ""
        timed_out = lost = False
        exchange = _Exchange(self._channel, self._outputs, REQUEST.pack(kind, len(data)) + data)
        try:
            reply = exchange.wait(begin_s + wall_s)
            if reply is None:
                timed_out = True
                self._ask({"do": "interrupt"})
                reply = exchange.wait(time.monotonic() + _GRACE_S)
                if reply is not None:
                    self._ask({"do": "prune"})  # what it has started takes up time, too
            if reply is not None:
                exit_code, value = reply
                exchange.drain(time.monotonic() + _LAST_OUTPUT_S)
        except _Ended:
            reply = None
        if reply is None:
            exchange.drain(time.monotonic() + _LAST_OUTPUT_S)
        stdout, stderr = (each.take() for each in self._outputs)
        if timed_out:
            exit_code, value = TIMED_OUT, None
            note = f"[Stopped after {wall_s:g} s.]\n"
        if reply is None:
            lost = True
            seed = self._seed
            why, ended_with = _end_of(self._stop().get("status"))
            if not timed_out:
                exit_code = ended_with
                note = f"[The interpreter {why}. {_LOST}"
            else:
                note = f"[Stopped after {wall_s:g} s, with its interpreter. {_LOST}"
            self.restart(seed)
        return Run(exit_code, value, stdout, stderr, timed_out, lost, note)


class _Exchange:
    """A request, its reply, and what is written meanwhile."""

    def __init__(
        self, channel: socket.socket, outputs: tuple[Output, Output], request: bytes
    ) -> None:
        self._channel = channel
        self._unsent = memoryview(request)
        self._heard = b""
        self._outputs = {each.descriptor: each for each in outputs}
        self._poll = select.poll()
        for descriptor in self._outputs:
            self._poll.register(descriptor, select.POLLIN)
        self._poll.register(channel, select.POLLIN | select.POLLOUT)

    def wait(self, end_s: float) -> tuple[int, str | None] | None:
        """Wait for the reply; return exit code and value, or None where the time is over.

        What is there when the time is over counts: this process may just not have had its turn.

        Raises:
            _Ended: There will be no reply.
        """
        left_s = end_s - time.monotonic()
        while True:
            for descriptor, _ in self._poll.poll(max(left_s, 0.0) * 1000):
                if (output := self._outputs.get(descriptor)) is not None:
                    if output.read() == 0:
                        self._poll.unregister(descriptor)
                    continue
                try:
                    reply = self._talk()
                except (BrokenPipeError, ConnectionResetError) as error:
                    raise _Ended from error
                if reply is not None:
                    return reply
            if left_s <= 0:
                return None
            left_s = end_s - time.monotonic()

    def _talk(self) -> tuple[int, str | None] | None:
        """Send and receive as much as there is."""
        if self._unsent:
            with contextlib.suppress(BlockingIOError):
                self._unsent = self._unsent[self._channel.send(self._unsent) :]
            if not self._unsent:
                self._poll.modify(self._channel, select.POLLIN)
        with contextlib.suppress(BlockingIOError):
            data = self._channel.recv(REPLY.size + MAX_TEXT_BYTES)
            if not data:
                raise _Ended
            self._heard += data
        if len(self._heard) < REPLY.size:
            return None
        code, has_value, size = REPLY.unpack_from(self._heard)
        if size > MAX_TEXT_BYTES or len(self._heard) > REPLY.size + size or self._unsent:
            raise _Ended
        if len(self._heard) < REPLY.size + size:
            return None
        return code, self._heard[REPLY.size :].decode("utf-8", "replace") if has_value else None

    def drain(self, end_s: float) -> None:
        """Read what was written, until nothing is there, or others write on and on."""
        for output in self._outputs.values():
            while output.read() and time.monotonic() < end_s:
                pass


def _end_of(status: int | None) -> tuple[str, int]:
    """Return how an interpreter has ended, and the exit code that this has."""
    if status is None:
        return "says what none of its kind would say", BROKEN
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.strsignal(number) or f"signal {number}"
        if number == signal.SIGXCPU:
            name += ": its processor time is used up"
        return f"was ended by signal {number} ({name})", 128 + number
    code = os.WEXITSTATUS(status)
    return f"has ended by itself, with {code}", code or BROKEN


def _no_keeper(why: str) -> ServerStartError:
    return ServerStartError(f"Programs cannot be run: their keeper does not answer ({why}).")
