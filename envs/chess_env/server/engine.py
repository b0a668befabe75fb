"""A UCI engine: a child process with limits, which answers in time or is ended."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

import chess
import chess.engine

from openenv_gym.errors import EnvironmentFailedError, InvalidOptionError


__all__ = ["Engine", "find_engine"]

T = TypeVar("T")

_START_S = 10.0
"""How long an engine may take until it says that it speaks UCI."""

_PLACES = "/usr/games"  # where Debian puts Stockfish, which is on nobody's path inside a container

_FIXED = {"Threads": 1, "Hash": 4}
"""One thread and a table of fixed size (MiB): the same search finds the same move. The table is
small because it is emptied before each move."""


def find_engine(name: str) -> str:
    """Return the path of a program.

    Args:
        name: Its name, or its path.

    Raises:
        InvalidOptionError: There is no such program here.
    """
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), _PLACES])
    found = shutil.which(name, path=path)
    if found is None:
        install = " (Debian: apt-get install stockfish)" if name == "stockfish" else ""
        raise InvalidOptionError(
            f"opponent={name!r:.80}: expected 'random', 'self', or a UCI engine; there is no such "
            "program where this server runs.",
            field="opponent",
            hint=f"Install it there{install}, or name its path.",
        )
    return str(Path(found).absolute())


class Engine:
    """An engine that runs.

    Args:
        program: Path of the program.
        options: UCI options that it has to have.
        timeout_s: How long it may take beyond the time that it is given.
        memory_mb: Address space that it may take, in MiB.

    Raises:
        EnvironmentFailedError: It ended, or did not speak UCI in time.
        InvalidOptionError: It has no such option, or not with that value.
    """

    def __init__(
        self, program: str, options: Mapping[str, int | bool], *, timeout_s: float, memory_mb: int
    ) -> None:
        self.program = program
        self._timeout_s = timeout_s
        self._loop = asyncio.new_event_loop()
        # A daemon: an environment that nobody closed must not keep the interpreter from ending.
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"engine {Path(program).name}", daemon=True
        )
        self._thread.start()
        self._transport: asyncio.SubprocessTransport | None = None
        self._protocol: chess.engine.Protocol | None = None
        try:
            self._run(self._start(memory_mb), _START_S)
            self._configure(options)
        except BaseException:
            self.close()
            raise

    async def _start(self, memory_mb: int) -> None:
        launcher = str(Path(__file__).with_name("launch.py"))
        self._transport, protocol = await self._loop.subprocess_exec(
            chess.engine.UciProtocol,
            *(sys.executable, "-I", "-S", launcher),
            *(str(os.getpid()), str(memory_mb * 2**20), self.program),
            # None of the server's variables, some of which are secrets; and a group of its own, so
            # that Ctrl-C is the trainer's business.
            env={"PATH": os.defpath},
            cwd="/",
            start_new_session=True,
        )
        self._protocol = protocol
        await protocol.initialize()

    def _configure(self, options: Mapping[str, int | bool]) -> None:
        protocol = self._running
        for name, value in options.items():
            known = protocol.options.get(name)
            if known is None:
                raise InvalidOptionError(
                    f"The engine {self.program} has no option {name}, which this needs.",
                    field="opponent",
                    hint="Choose another engine, or limit its depth, nodes or time instead.",
                )
            low, high = known.min, known.max
            if low is not None and high is not None and not low <= value <= high:
                raise InvalidOptionError(
                    f"{name}={value}: the engine {self.program} takes {low} to {high}.",
                    field="elo" if name == "UCI_Elo" else "opponent",
                )
        fixed = {name: value for name, value in _FIXED.items() if name in protocol.options}
        # It answers nothing to that: how long its moves may take has no bearing on it.
        self._run(protocol.configure({**fixed, **options}), _START_S)

    @property
    def alive(self) -> bool:
        """It runs, as far as is known."""
        return self._protocol is not None and not self._protocol.returncode.done()

    def knows(self, option: str) -> bool:
        """Whether it has a UCI option of that name."""
        return option in self._running.options

    def play(self, board: chess.Board, limit: chess.engine.Limit) -> chess.Move:
        """Return the engine's move.

        Args:
            board: The game so far; somebody is to move.
            limit: How much it may think.

        Raises:
            EnvironmentFailedError: It ended, did not answer in time, or answered nonsense.
        """
        # `game` is another one each time, upon which the engine forgets what it has found: its
        # move then depends on the position alone, also after a state was restored.
        result = self._run(
            self._running.play(board, limit, game=object()), self._timeout_s + (limit.time or 0)
        )
        if result.move is None:
            raise self._failure("it resigned or knew no move", "ChildProcessError")
        return result.move

    def rank(
        self, board: chess.Board, limit: chess.engine.Limit, count: int
    ) -> list[tuple[chess.Move, int]]:
        """Return the engine's best moves with their values, best first.

        Args:
            board: As for `play`.
            limit: As for `play`.
            count: How many moves.

        Returns:
            Moves and values in hundredths of a pawn, for the side to move; mate counts as 1,000
            pawns.

        Raises:
            EnvironmentFailedError: As `play`.
        """
        lines = self._run(
            self._running.analyse(board, limit, multipv=count, game=object()),
            self._timeout_s + (limit.time or 0),
        )
        ranked = [
            (line["pv"][0], line["score"].relative.score(mate_score=100_000))
            for line in lines
            if line.get("pv") and "score" in line
        ]
        if not ranked:
            raise self._failure("it named no move", "ChildProcessError")
        return ranked

    def close(self) -> None:
        """End the engine and what talks to it, whatever state they are in."""
        if self._loop.is_closed():
            return
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_START_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_S)
        if not self._thread.is_alive():
            self._loop.close()

    async def _stop(self) -> None:
        if self._transport is None:
            return
        if self._transport.get_returncode() is None:
            # With whatever it started: it leads a group of its own.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._transport.get_pid(), signal.SIGKILL)
        if self._protocol is not None:
            await asyncio.wait_for(asyncio.shield(self._protocol.returncode), _START_S)
        self._transport.close()
        pending = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    @property
    def _running(self) -> chess.engine.Protocol:
        if self._protocol is None:
            raise self._failure("it does not run", "ChildProcessError")
        return self._protocol

    def _run(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise self._failure(
                f"it did not answer within {timeout_s:g} s", "TimeoutError"
            ) from None
        except (chess.engine.EngineError, OSError) as error:
            raise self._failure(str(error), "ChildProcessError") from error

    def _failure(self, what: str, kind: str) -> EnvironmentFailedError:
        return EnvironmentFailedError(
            f"The engine {self.program} failed: {what}.",
            field="opponent",
            hint="The game is over; `reset` begins another one with a new engine.",
            data={"type": kind},
        )
