"""A page that plays an episode: what is in it, and that nothing else is."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner, Result

from openenv_gym import recording
from openenv_gym.cli.main import main
from openenv_gym.recording.page import episode_page, picture_in

from .files import write


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def record(path: Path, **how: Any) -> Path:
    envs = gymnasium.make_vec("openenv/CartPole-v1", num_envs=2, provider="thread", **how)
    envs = recording.RecordRollout(envs, path, frames=bool(how))
    envs.reset(seed=3)
    for _ in range(40):
        envs.step(np.zeros(2, np.int64))
    envs.close()
    return path


def test_a_replay_draws_the_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_PROVIDER", "thread")
    page = tmp_path / "x.html"
    done = run("replay", record(tmp_path / "x"), "--html", page, "--episode", "3")
    assert done.exit_code == 0 and str(page) in done.stdout, done.output
    data = data_of(page.read_text())
    with recording.open(tmp_path / "x") as file:
        episode = file.episodes[3]
        assert len(data["steps"]) == len(episode) + 1 == len(data["shown"])
        assert [step["reward"] for step in data["steps"][1:]] == episode.rewards.tolist()
        assert data["steps"][1]["action"] == "0" and data["ended"] == "terminated"
    assert len(set(data["shown"])) > len(data["shown"]) // 2  # the pole falls
    for url in data["frames"]:
        assert base64.b64decode(url.removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")


def test_frames_that_were_kept_need_no_environment(tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    path = record(tmp_path / "x", render_mode="rgb_array")
    assert run("view", path, "--html", page, "--episode", "1").exit_code == 0
    assert len(data_of(page.read_text())["frames"]) > 5
    done = run("view", path, "--html", page, "--episode", "99")
    assert done.exit_code == 2 and "no episode 99" in done.stderr
    done = run("view", path, "--html", tmp_path / "none" / "x.html")
    assert done.exit_code == 1 and "cannot be written" in done.stderr


def test_nothing_in_an_episode_gets_out_of_its_place(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    rows = [
        recording.Reset(0, 1, None, evil, {}),
        recording.Step(0, evil, evil, float("nan"), True, False, {evil: evil}),
    ]
    metadata = {"environment": {"id": evil}, "spaces": {}, "vector": None}
    with recording.open(write(tmp_path / "x", rows, metadata=metadata)) as file:
        page = episode_page(file, file.episodes[0])
    assert evil not in page and page.count("<script") == 2 and "<img src=x" not in page
    data = data_of(page)
    assert data["steps"][1]["observation"] == evil and data["steps"][1]["reward"] is None
    assert "http" not in re.sub(r"http-equiv", "", page)  # it needs no network
    assert "default-src 'none'" in page


def test_pictures_among_observations() -> None:
    picture = np.zeros((84, 84), np.uint8)
    assert picture_in(np.stack([picture] * 4)) is not None
    assert picture_in({"a": np.zeros(3), "b": (1, np.zeros((20, 30, 3), np.uint8))}).shape == (
        20,
        30,
        3,
    )
    assert picture_in(np.zeros((4, 4), np.uint8)) is None
    assert picture_in(np.zeros((84, 84))) is None and picture_in("text") is None
