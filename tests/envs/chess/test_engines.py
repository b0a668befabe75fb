"""Engines: Stockfish, and programs that behave badly."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chess.engine
import gymnasium
import numpy as np
import pytest

import openenv_gym  # noqa: F401  # registers the ids
from chess_env import ChessAction
from chess_env.server.chess_environment import ChessEnvironment
from openenv_gym.errors import EnvironmentFailedError, InvalidOptionError, ResetNeededError
from tests.support.waiting import eventually

from .play import make, needs_stockfish, play, same


E4 = ChessAction(move="e2e4")

# What `go` does stands in the place of ANSWER.
ENGINE = """
import os, sys, time
for line in sys.stdin:
    word = line.split()[0]
    if word == "uci":
        print("id name made up\\nuciok", flush=True)
    elif word == "isready":
        print("readyok", flush=True)
    elif word == "quit":
        break
    elif word == "go":
        ANSWER
"""

MakeEngine = Callable[[str], str]


@pytest.fixture
def engine(tmp_path: Path) -> MakeEngine:
    """Return a function that makes an engine of what it does when it is to move."""

    def make_engine(answer: str) -> str:
        program = tmp_path / "engine"
        program.write_text(f"#!{sys.executable} -S\n{ENGINE.replace('ANSWER', answer)}")
        program.chmod(0o755)
        return str(program)

    return make_engine


def pid_of(environment: ChessEnvironment) -> int:
    opponent: Any = environment._opponent
    return int(opponent._engine._transport.get_pid())


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


# -- Stockfish ------------------------------------------------------------------------------------


@needs_stockfish
@pytest.mark.parametrize(
    "strength",
    [{"depth": 3}, {"nodes": 500}, {"skill": 0}, {"skill": 3, "nodes": 500}, {"skill": 20}],
    ids=str,
)
def test_equal_seeds_give_equal_games(strength: dict[str, int]) -> None:
    games = []
    for _ in range(2):
        env = make(opponent="stockfish", agent_color="random", **strength)
        games.append(play(env, 25, 3))
        env.close()
    assert same(*games)


@needs_stockfish
def test_the_handicap_draws_from_the_seed() -> None:
    environment = ChessEnvironment(opponent="stockfish", skill=0)
    replies = set()
    for seed in range(12):
        environment.reset(seed=seed)
        replies.add(environment.step(E4).metadata["opponent_move"])
    environment.close()
    assert len(replies) > 1


@needs_stockfish
def test_more_skill_wins() -> None:
    """An endgame that is won: without skill it takes longer, or never comes to an end."""
    moves = {}
    for skill in (0, 20):
        environment = ChessEnvironment(
            opponent="stockfish", skill=skill, fen="7k/8/8/8/8/8/8/K6q w - - 0 1", max_moves=60
        )
        observation = environment.reset(seed=0)
        while not observation.done:
            observation = environment.step(ChessAction(move=observation.legal_moves[0]))
        moves[skill] = len(environment.state.move_history)
        environment.close()
    assert observation.metadata["termination"] == "checkmate"
    assert observation.reward == -1.0
    assert moves[20] < moves[0]


@needs_stockfish
@pytest.mark.parametrize("strength", [{"elo": 1400}, {"time_s": 0.02}], ids=str)
def test_what_depends_on_the_clock_plays(strength: dict[str, Any]) -> None:
    env = make(opponent="stockfish", **strength)
    # It may win within these moves, upon which there is a reset more.
    assert sum(len(seen) == 5 for seen in play(env, 5, 0)) == 5
    env.close()


@needs_stockfish
def test_chess960() -> None:
    env = make(opponent="stockfish", nodes=200, chess960=100)
    play(env, 30, 1)
    env.close()


@needs_stockfish
def test_an_engine_ends_with_its_environment() -> None:
    before = set(threading.enumerate())  # which: one of an earlier test may be ending
    environment = ChessEnvironment(opponent="stockfish", nodes=100)
    environment.reset()
    pid = pid_of(environment)
    assert os.getsid(pid) == pid  # Ctrl-C does not reach it
    environment.close()
    assert is_gone(pid)
    # asyncio's thread that waited for the engine has told so before it ends.
    assert eventually(lambda: set(threading.enumerate()) <= before)


@needs_stockfish
def test_an_engine_ends_with_a_process_that_is_killed() -> None:
    code = """
        from chess_env.server.chess_environment import ChessEnvironment
        environment = ChessEnvironment(opponent="stockfish", time_s=600)
        print(environment._opponent._engine._transport.get_pid(), flush=True)
        import time; time.sleep(600)
    """
    with subprocess.Popen(
        [sys.executable, "-c", "\n".join(line.strip() for line in code.splitlines())],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert not is_gone(pid)
        process.send_signal(signal.SIGKILL)
    assert eventually(lambda: is_gone(pid))


# -- engines that behave badly ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        ("sys.exit(3)", ChildProcessError, "exit code: 3"),
        ("os.kill(os.getpid(), 9)", ChildProcessError, "died"),
        ("time.sleep(600)", TimeoutError, "within 0.5 s"),
        ("while True: print('info string ' + 'x' * 10000)", TimeoutError, "within 0.5 s"),
        ("print('bestmove a1a5', flush=True)", ChildProcessError, "illegal"),
        ("print('bestmove (none)', flush=True)", ChildProcessError, "knew no move"),
        ("bytearray(2**31)", ChildProcessError, "died"),  # more memory than it may have
    ],
    ids=["exits", "is killed", "hangs", "floods", "cheats", "resigns", "grows"],
)
def test_a_failure_is_an_error_and_the_next_game_has_a_new_engine(
    engine: MakeEngine, answer: str, kind: type[Exception], text: str
) -> None:
    limit_s = 0.5 if kind is TimeoutError else 60.0  # what fails by itself has the time for it
    environment = ChessEnvironment(opponent=engine(answer), engine_timeout_s=limit_s)
    environment.reset(seed=1)
    first = pid_of(environment)
    with pytest.raises(EnvironmentFailedError, match=text) as caught:
        environment.step(E4)
    assert caught.value.type_name == kind.__name__
    assert is_gone(first)
    with pytest.raises(ResetNeededError):
        environment.step(E4)
    environment.reset()
    assert pid_of(environment) != first
    environment.close()
    # An engine that is to move first fails in `reset`.
    environment = ChessEnvironment(
        opponent=engine(answer), engine_timeout_s=limit_s, agent_color="black"
    )
    with pytest.raises(EnvironmentFailedError, match=text):
        environment.reset()
    environment.close()


def test_how_long_moves_may_take_is_no_limit_of_the_start(
    engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure = chess.engine.UciProtocol.configure

    async def dawdle(self: Any, options: Any) -> None:
        await asyncio.sleep(0.5)
        await configure(self, options)

    monkeypatch.setattr(chess.engine.UciProtocol, "configure", dawdle)
    ChessEnvironment(opponent=engine("pass"), engine_timeout_s=0.1).close()


def test_an_engine_that_died_between_games_is_started_again(engine: MakeEngine) -> None:
    environment = ChessEnvironment(opponent=engine("print('bestmove e7e5', flush=True)"))
    environment.reset()
    os.kill(pid_of(environment), signal.SIGKILL)
    opponent: Any = environment._opponent
    assert eventually(lambda: not opponent._engine.alive)
    environment.reset()
    assert environment.step(E4).metadata["opponent_move"] == "e7e5"
    environment.close()


def test_an_engine_sees_no_variables_and_leaves_no_process_behind(
    engine: MakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENENV_TOKEN", "secret")
    answer = (
        "import subprocess; child = subprocess.Popen(['sleep', '600'])\n"
        "        seen = 'e7e6' if 'OPENENV_TOKEN' in os.environ else 'e7e5'\n"
        "        print(f'info string {child.pid}'); print(f'bestmove {seen}', flush=True)"
    )
    environment = ChessEnvironment(opponent=engine(answer))
    environment.reset()
    assert environment.step(E4).metadata["opponent_move"] == "e7e5"
    session = pid_of(environment)
    family = [pid for pid in running() if in_session(pid, session)]
    assert len(family) == 2
    environment.close()
    assert eventually(lambda: not any(in_session(pid, session) for pid in family))


def running() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def in_session(pid: int, session: int) -> bool:
    try:
        return os.getsid(pid) == session
    except ProcessLookupError:
        return False


def test_what_an_engine_needs_it_must_have(engine: MakeEngine) -> None:
    program = engine("pass")
    with pytest.raises(InvalidOptionError, match="MultiPV") as caught:
        ChessEnvironment(opponent=program, skill=3)
    assert caught.value.field == "skill"
    with pytest.raises(InvalidOptionError, match="UCI_LimitStrength") as caught:
        ChessEnvironment(opponent=program, elo=1500)
    assert caught.value.field == "opponent"


@needs_stockfish
def test_many_games_against_engines_at_once() -> None:
    options = {"opponent": "stockfish", "skill": 1, "action": "discrete", "observation": "planes"}
    envs = gymnasium.make_vec(
        "openenv/Chess-v0", num_envs=3, provider="thread", num_servers=1, **options
    )
    single = make(**options)
    planes, infos = envs.reset(seed=4)
    expected, info = single.reset(seed=6)
    for _ in range(5):
        assert np.array_equal(planes[2], expected)
        actions = [int(np.flatnonzero(mask)[0]) for mask in infos["action_mask"]]
        planes, *_, infos = envs.step(np.array(actions))
        expected, *_, info = single.step(int(np.flatnonzero(info["action_mask"])[0]))
    envs.close()
    single.close()
