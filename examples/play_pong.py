"""Play Pong on a server, save a video and print where the time of a step went.

    python3 dev.py play                                  # does the set-up, then runs this file
    python examples/play_pong.py --provider thread --steps 300 --out outputs/pong.gif

All that makes the environment a remote one is the ``openenv/`` in its id; the rest of this file
would play ``ALE/Pong-v5`` in the same way. The player follows the ball's pixels: it holds its own
against the game's, without learning anything.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

import openenv_gym  # noqa: F401 (registers the ids that begin with openenv/)


Frame = npt.NDArray[np.uint8]

# Pong's minimal action set.
NOOP, FIRE, UP, DOWN = 0, 1, 2, 3

BALL, PADDLE = (236, 236, 236), (92, 186, 92)
TOP, BOTTOM = 34, 194  # rows between the walls, which have the ball's colour
PADDLE_COLUMN = 140
REACH = 4.0  # rows by which the paddle may miss its mark; a smaller value makes it tremble


@dataclass
class Played:
    """What `play` saw.

    Attributes:
        steps: Steps taken.
        step_s: Seconds that passed inside ``env.step``.
        returns: Sum of rewards of each episode; of the running one, the last.
        frames: What ``env.render`` returned after each step.
    """

    steps: int = 0
    step_s: float = 0.0
    returns: list[float] = field(default_factory=lambda: [0.0])
    frames: list[Frame] = field(default_factory=list)

    @property
    def steps_per_s(self) -> float:
        """Rate of ``env.step`` alone."""
        return self.steps / self.step_s if self.step_s else 0.0


def follow_ball(frame: Frame, before: Frame) -> int:
    """Choose an action for the right paddle from two successive frames.

    Where the ball comes nearer, the paddle goes to where the ball will cross its column, walls
    included; where it flies away, back to the middle. With no ball in play it serves.

    Args:
        frame: The screen, 210 x 160 RGB.
        before: The screen one step earlier.

    Returns:
        An action of Pong's minimal set.
    """
    ball, ball_before = _find(frame, BALL), _find(before, BALL)
    paddle, paddle_before = _find(frame, PADDLE, 138), _find(before, PADDLE, 138)
    if ball is None or paddle is None:
        return FIRE
    mark = (TOP + BOTTOM) / 2
    if ball_before is None:
        mark = ball[0]
    elif (speed := ball[1] - ball_before[1]) > 0.5:
        flight = (PADDLE_COLUMN - ball[1]) / speed
        mark = _between_walls(ball[0] + (ball[0] - ball_before[0]) * flight)
    # The paddle slides on for about one more step.
    drift = 0.0 if paddle_before is None else paddle[0] - paddle_before[0]
    miss = mark - (paddle[0] + drift)
    if abs(miss) <= REACH:
        return NOOP
    return UP if miss < 0 else DOWN


def _find(frame: Frame, colour: tuple[int, int, int], left: int = 0) -> tuple[float, float] | None:
    """Return the mean row and column of a colour between the walls, right of a column."""
    rows, columns = np.nonzero((frame[TOP:BOTTOM, left:] == colour).all(axis=-1))
    return (TOP + rows.mean(), left + columns.mean()) if rows.size else None


def _between_walls(row: float) -> float:
    """Fold a row that lies beyond the walls back, as the ball is thrown back by them."""
    height = BOTTOM - TOP
    folded = (row - TOP) % (2 * height)
    return TOP + min(folded, 2 * height - folded)


def play(env: gymnasium.Env[Frame, Any], steps: int, seed: int) -> Played:
    """Take some steps, showing how it goes."""
    played = Played()
    show = Progress(steps)
    frame, _ = env.reset(seed=seed)
    before = frame
    for _ in range(steps):
        action = follow_ball(frame, before)
        before = frame
        begin = time.perf_counter()
        frame, reward, terminated, truncated, _ = env.step(action)
        played.step_s += time.perf_counter() - begin
        played.steps += 1
        played.returns[-1] += float(reward)
        played.frames.append(np.asarray(env.render()))
        show(played)
        if terminated or truncated:
            frame, _ = env.reset()
            before = frame
            played.returns.append(0.0)
    show(played, last=True)
    return played


class Progress:
    """One line that is written over on a terminal; elsewhere a line now and then."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._terminal = sys.stdout.isatty()
        self._interval = 0.1 if self._terminal else 2.0
        self._next = 0.0

    def __call__(self, played: Played, *, last: bool = False) -> None:
        """Show the state of play, unless that was done a moment ago."""
        now = time.monotonic()
        if now < self._next and not last:
            return
        self._next = now + self._interval
        text = (
            f"step {played.steps:,} of {self._steps:,}   {played.steps_per_s:,.0f} steps/s   "
            f"episode {len(played.returns)}   return {played.returns[-1]:+.0f}"
        )
        if self._terminal:
            print(f"\r\x1b[K{text}", end="\n" if last else "", flush=True)
        else:
            print(text, flush=True)


def save_video(frames: list[Frame], path: Path, fps: float) -> Path:
    """Write frames as a video of twice their size.

    A name that ends in ``.mp4`` needs the package imageio-ffmpeg; where that is missing, and for
    every other name, Pillow writes an animated picture (``.gif``, ``.webp`` or ``.png``).

    Returns:
        The file that was written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".mp4":
        if importlib.util.find_spec("imageio_ffmpeg") is not None:
            _save_mp4(frames, path, fps)
            return path
        print("An .mp4 file needs imageio-ffmpeg, which is not installed: this makes a .gif file.")
        path = path.with_suffix(".gif")
    # Imported here: who plays without saving needs no Pillow.
    from PIL import Image

    height, width = frames[0].shape[:2]
    pictures = [
        # A game has few colours: this keeps them exact, and the file small.
        Image.fromarray(frame)
        .quantize(32, dither=Image.Dither.NONE)
        .resize((2 * width, 2 * height))
        for frame in frames
    ]
    pictures[0].save(
        path, save_all=True, append_images=pictures[1:], duration=round(1000 / fps), loop=0
    )
    return path


def _save_mp4(frames: list[Frame], path: Path, fps: float) -> None:
    ffmpeg = importlib.import_module("imageio_ffmpeg")  # optional, and without type hints
    height, width = frames[0].shape[:2]
    writer = ffmpeg.write_frames(str(path), (2 * width, 2 * height), fps=fps, macro_block_size=2)
    writer.send(None)
    for frame in frames:
        writer.send(frame.repeat(2, axis=0).repeat(2, axis=1))
    writer.close()


def describe_timing(timing: dict[str, float]) -> str:
    """Return the parts of a step's time, largest first; `timing` gives seconds (``NAME_s``)."""
    parts = {name[:-2]: value for name, value in timing.items() if name.endswith("_s")}
    whole = sum(parts.values()) or 1.0
    return "\n".join(
        f"  {name:12} {value * 1e6:8,.0f} us  {value / whole:4.0%}"
        for name, value in sorted(parts.items(), key=lambda item: -item[1])
    )


def main() -> None:
    """Play as the command line says."""
    parser = argparse.ArgumentParser(description="Play Pong on a server of its own.")
    parser.add_argument(
        "--provider", help="where the server runs (default: what the library picks)"
    )
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("outputs/pong.gif"), help="the video file")
    options = parser.parse_args()
    if options.steps < 1:
        parser.error("--steps must be at least 1")

    chosen = {} if options.provider is None else {"provider": options.provider}
    begin = time.perf_counter()
    env = gymnasium.make("openenv/Atari-v0", game="pong", render_mode="rgb_array", **chosen)
    try:
        provider = options.provider or os.environ.get("OPENENV_PROVIDER") or "auto"
        server = env.unwrapped.openenv.connection.address  # type: ignore[attr-defined]  # of RemoteEnv
        print(f"The server is up after {time.perf_counter() - begin:.1f} s: {server}.")
        played = play(env, options.steps, options.seed)
        timing = env.unwrapped.timing()  # type: ignore[attr-defined]  # of RemoteEnv
        fps = float(env.metadata.get("render_fps", 30))
    finally:
        env.close()

    print("Saving the video ...", flush=True)
    path = save_video(played.frames, options.out, fps)
    print(f"Video:     {path} ({path.stat().st_size / 1e6:.1f} MB)")
    print(f"Server:    {server} (provider: {provider})")
    print(f"Steps:     {played.steps:,}, {played.steps_per_s:,.0f} a second (env.step alone)")
    print(f"Returns:   {', '.join(f'{value:+.0f}' for value in played.returns)} (the last: so far)")
    print(f"A step:\n{describe_timing(timing)}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
