"""The rules as tests of pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from openenv_gym.cli.init import write_package


ROOT = Path(__file__).parents[2]


def _pytest(directory: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "openenv_gym.conformance.plugin"]
    settings = directory / "pytest.ini"
    settings.write_text("[pytest]\n")
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", "-q", "-rs", "-c", str(settings), *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        env={**os.environ, **environ},
    )


def test_each_rule_is_a_test(tmp_path: Path) -> None:
    done = _pytest(tmp_path, "--openenv-env", str(ROOT / "envs" / "echo_env"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing here is random" in done.stdout  # as a skipped test
    assert "32 passed, 1 skipped" in done.stdout


def test_a_broken_one_fails(tmp_path: Path) -> None:
    (tmp_path / "moon_env").mkdir()
    (tmp_path / "moon_env" / "__init__.py").touch()
    (tmp_path / "moon_env" / "openenv.yaml").write_text("name: moon_env\n")
    place = ["--openenv-env", str(tmp_path / "moon_env"), "--openenv-level", "static"]
    done = _pytest(tmp_path, *place)
    assert done.returncode == 1
    assert "openenv[package: ids]" in done.stdout and "-> Name one under `ids`" in done.stdout


def test_strangers_code_is_not_run_on_the_host(tmp_path: Path) -> None:
    folder = write_package("burrow", tmp_path, "basic")
    manifest = folder / "openenv.yaml"
    manifest.write_text(manifest.read_text().replace("untrusted: false", "untrusted: true"))
    with (folder / "server" / "app.py").open("a") as app:
        app.write(f"\nopen({str(tmp_path / 'ran')!r}, 'w')\n")
    place = ["--openenv-env", str(folder), "--openenv-level", "runtime"]
    (tmp_path / "elsewhere").mkdir()  # where pytest finds no tests of the package's own
    done = _pytest(tmp_path / "elsewhere", *place, DOCKER_HOST=f"unix://{tmp_path}/nowhere")
    assert done.returncode == 1 and "No Docker daemon answers" in done.stdout
    assert not (tmp_path / "ran").exists()


def test_a_folder_that_is_no_package(tmp_path: Path) -> None:
    done = _pytest(tmp_path, "--openenv-env", f"{tmp_path}/")
    assert done.returncode == 4 and "no environment package" in done.stderr


def test_without_the_option_it_does_nothing(tmp_path: Path) -> None:
    assert _pytest(tmp_path).returncode == 5  # no tests
