"""Saved games that somebody has tampered with: refused, or played without harm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from atari_env.server.atari_environment import AtariEnvironment
from openenv_gym.errors import InvalidOptionError


SCRIPT = """
import sys
import numpy as np
from atari_env.server.atari_environment import AtariEnvironment
from openenv_gym.errors import InvalidOptionError

for game in sys.argv[2:]:
    environment = AtariEnvironment(game, obs_type="ram")
    rng = np.random.default_rng(int(sys.argv[1]))
    action = environment.action_model(action_id=1)
    environment.reset(seed=0)
    for _ in range(40):
        environment.step(action)
    saved, accepted = environment.save_state(), 0
    emulator = saved["emulator"]
    middle = emulator.index(b"M6502Low"), len(emulator[:-8].rstrip(b"0123456789 "))
    extremes = [0, 1, 2, 7, 255, 256, 1 << 15, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
    for _ in range(150):
        damaged = bytearray(emulator)
        for _ in range(rng.integers(1, 4)):
            place = int(rng.integers(*(middle if rng.random() < 0.9 else (0, len(emulator) - 4))))
            word = int(rng.choice(extremes)) if rng.random() < 0.7 else int(rng.integers(1 << 32))
            damaged[place : place + 4] = word.to_bytes(4, "little")
        try:
            environment.restore_state({**saved, "emulator": bytes(damaged)})
        except InvalidOptionError:
            continue
        accepted += 1
        for _ in range(4):
            environment.step(action)
        environment.save_state()
    environment.restore_state(saved)
    assert environment.save_state() == saved
    print(game, accepted, flush=True)
"""


def test_damaged_states_end_no_process():
    games = ["breakout", "pong", "asteroids", "montezuma_revenge", "phoenix", "elevator_action"]
    command = [sys.executable, "-c", SCRIPT, "7", *games]
    done = subprocess.run(
        command,
        env={"PYTHONPATH": ":".join(sys.path)},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    accepted = dict(line.split() for line in done.stdout.splitlines() if " " in line)
    assert set(accepted) >= set(games)
    assert any(int(number) for number in accepted.values() if number.isdigit())


def words_behind(emulator: bytes, name: bytes, count: int, values: list[int]) -> bytes:
    """Return a state with other numbers from the `count`-th behind a name."""
    start = emulator.index(name) + len(name) + 4 * count
    words = b"".join(value.to_bytes(4, "little") for value in values)
    return emulator[:start] + words + emulator[start + len(words) :]


@pytest.mark.parametrize(
    ("game", "name", "count", "values", "said"),
    [
        ("asteroids", b"CartridgeF8", 0, [2], "bank"),
        ("asteroids", b"CartridgeF8", 0, [65535], "bank"),
        ("elevator_action", b"CartridgeF8SC", 1, [1 << 20], "memory"),
        ("pong", b"M6532", 0, [1 << 30], "memory"),
        ("pong", b"M6532", 3, [256], "memory"),
        ("pong", b"M6532", 130, [31], "timer"),
        ("pong", b"M6502Low", 6, [5], "damaged"),
        ("pong", b"TIA", 2, [1 << 30], "picture"),
        ("pong", b"TIA", 3, [(1 << 32) - 90_000], "picture"),
        ("pong", b"TIA", 4, [229], "picture"),
    ],
)
def test_numbers_that_lead_beyond_memory_are_refused(game, name, count, values, said):
    environment = AtariEnvironment(game)
    environment.reset(seed=0)
    saved = environment.save_state()
    wrong = {**saved, "emulator": words_behind(saved["emulator"], name, count, values)}
    with pytest.raises(InvalidOptionError, match=said):
        environment.restore_state(wrong)
    assert environment.save_state() == saved


@pytest.mark.parametrize(
    "text", [b"1 2 3", b"x" * 600, b"1 " * 624 + b"9999999999", b"1 " * 624 + b"625"]
)
def test_a_generator_that_is_none_is_refused(text):
    environment = AtariEnvironment("pong")
    environment.reset(seed=0)
    saved = environment.save_state()
    emulator = saved["emulator"]
    begin = len(emulator[:-8].rstrip(b"0123456789 "))
    console = emulator[28 : begin - 4] + len(text).to_bytes(4, "little") + text
    made = emulator[:24] + len(console).to_bytes(4, "little") + console + emulator[-8:]
    with pytest.raises(InvalidOptionError, match="not a saved state"):
        environment.restore_state({**saved, "emulator": made})


def test_a_generator_of_numpys_with_a_position_beyond_its_words_is_refused():
    environment = AtariEnvironment("pong")
    environment.reset(seed=0)
    environment.np_random = np.random.Generator(np.random.MT19937(3))
    saved = environment.save_state()
    words = {**saved["np_random"]["state"], "pos": 10**9}
    with pytest.raises(InvalidOptionError, match="position"):
        environment.restore_state({**saved, "np_random": {**saved["np_random"], "state": words}})
