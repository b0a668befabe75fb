"""``openenv-gym init``: what it makes passes its own tests, style and types; bad input is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from openenv_gym.cli.init import TEMPLATES, write_package
from openenv_gym.cli.licences import LICENCES
from openenv_gym.cli.main import main
from openenv_gym.conformance import RULES, Level, Subject, run_rules
from openenv_gym.conformance.targets import find_target
from openenv_gym.doctor.checks import State
from openenv_gym.models.manifest import load_manifest


ROOT = Path(__file__).parents[2]


def _init(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["init", *map(str, arguments)])


def _passes(folder: Path, *command: str) -> None:
    """Run a command in a package that is not installed, but on PYTHONPATH."""
    # mypy does not follow the hook by which a checkout is installed.
    paths = {"PYTHONPATH": str(folder.parent), "MYPYPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, **paths, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_package_passes_its_own_tests(template: str, tmp_path: Path) -> None:
    done = _init("burrow", "-o", tmp_path, "--template", template)
    assert done.exit_code == 0, done.output
    _passes(tmp_path / "burrow_env", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.mark.timeout(
    400
)  # mypy reads Gymnasium and Pydantic first, which takes long on a busy machine
def test_packages_pass_checks_of_their_types(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    # The library is found as a source here, and not, as for others, where errors are not told.
    options = ["--follow-imports=silent", "--cache-dir", str(tmp_path / "cache")]
    for template in TEMPLATES:
        _passes(write_package(f"{template}_burrow", tmp_path, template), "mypy", *options)


def test_packages_pass_checks_of_their_style_whatever_they_are_called(tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    for template in TEMPLATES:
        for name in ("q", "zoo", "burrow_2", "this_has_24_characters_x"):
            write_package(name, tmp_path / template, template)
    _passes(tmp_path, "ruff", "check", "--no-cache", ".")
    _passes(tmp_path, "ruff", "format", "--no-cache", "--check", ".")


def test_what_is_made(tmp_path: Path) -> None:
    done = _init("corn_burrow_env", "-o", tmp_path / "envs")
    assert done.exit_code == 0, done.output
    folder = tmp_path / "envs" / "corn_burrow_env"
    assert str(folder) in done.stdout and "openenv-gym build" in done.stdout
    made = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    assert made == [
        ".dockerignore",
        ".gitignore",
        "LICENSE",
        "README.md",
        "__init__.py",
        "client.py",
        "models.py",
        "openenv.yaml",
        "outputs/evals/.gitignore",
        "outputs/logs/.gitignore",
        "py.typed",
        "pyproject.toml",
        "server/Dockerfile",
        "server/__init__.py",
        "server/app.py",
        "server/corn_burrow_environment.py",
        "server/requirements.txt",
        "tests/conftest.py",
        "tests/test_corn_burrow_env.py",
    ]
    assert [path.name for path in (tmp_path / "envs").iterdir()] == ["corn_burrow_env"]
    manifest = load_manifest(folder / "openenv.yaml")
    assert manifest.name == "corn_burrow_env"
    assert [each.id for each in manifest.ids] == ["CornBurrow-v0"]
    assert manifest.distribution == "openenv-corn-burrow"
    texts = [(folder / name).read_text() for name in made]
    assert not [text for text in texts if "template" in text.lower()]


@pytest.mark.parametrize("template", TEMPLATES)
def test_it_keeps_all_rules(template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = write_package(f"{template}_den", tmp_path, template)
    with Subject(
        folder.name, folder=find_target(f"{folder}/").folder, provider="thread"
    ) as subject:
        checks = list(run_rules(subject, Level.CONFORMANCE))
    assert len(checks) == len(RULES)
    assert [check for check in checks if check.state not in (State.OK, State.ABSENT)] == []


@pytest.mark.parametrize("licence", LICENCES)
def test_licences(licence: str, tmp_path: Path) -> None:
    done = _init("burrow", "-o", tmp_path, "--license", licence, "--author", "Ada Lovelace 🦡")
    assert done.exit_code == 0, done.output
    folder = tmp_path / "burrow_env"
    assert load_manifest(folder / "openenv.yaml").license == LICENCES[licence]
    assert f'license = "{LICENCES[licence]}"' in (folder / "pyproject.toml").read_text()
    text = (folder / "LICENSE").read_text()
    assert "Ada Lovelace 🦡" in text and "[" not in text.partition("Ada")[2].splitlines()[0]


def test_whose_work_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "gitconfig"
    config.write_text("[user]\n\tname = Template Ada\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.chdir(tmp_path)
    write_package("burrow", tmp_path, "basic")
    assert " Template Ada\n" in (tmp_path / "burrow_env" / "LICENSE").read_text()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    write_package("zoo", tmp_path, "basic")
    assert " The authors of zoo_env\n" in (tmp_path / "zoo_env" / "LICENSE").read_text()


def test_only_lines_of_code_are_wrapped(tmp_path: Path) -> None:
    folder = write_package("this_has_24_characters_x", tmp_path, "mcp")
    rows = [x for x in (folder / "README.md").read_text().splitlines() if x.startswith("|")]
    assert len(rows) > 5 and all(row.endswith("|") for row in rows)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Corn-Burrow", "such as corn_burrow_env"),
        ("2048", "No environment package"),
        ("../burrow", "such as burrow_env"),
        ("", "No environment package"),
        ("_env", "No environment package"),
        ("class", "No environment package"),
        ("x" * 25, "at most 24"),
        ("echo", "openenv/Echo-v0 is of the package echo_env"),
        ("cart_pole_env", "such as my_cart_pole_env"),
    ],
)
def test_wrong_names(name: str, told: str, tmp_path: Path) -> None:
    done = _init(name, "-o", tmp_path)
    assert done.exit_code == 2
    assert told in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "burrow_env").mkdir()
    (tmp_path / "burrow_env" / "thesis.txt").write_text("precious")
    done = _init("burrow", "-o", tmp_path)
    assert done.exit_code == 1 and "is not empty" in done.stderr
    assert [path.name for path in (tmp_path / "burrow_env").iterdir()] == ["thesis.txt"]
    (tmp_path / "zoo_env").mkdir()  # an empty folder is nothing that could be lost
    assert _init("zoo", "-o", tmp_path).exit_code == 0


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = _init("burrow", "-o", tmp_path / "file" / "below")
    assert done.exit_code == 1 and "cannot be written" in done.stderr


def test_a_place_with_a_space_in_its_name(tmp_path: Path) -> None:
    done = _init("burrow", "-o", tmp_path / "ünï cödé")
    assert done.exit_code == 0 and f"cd '{tmp_path}/ünï cödé/burrow_env'" in done.stdout


def test_an_unknown_template() -> None:
    done = _init("burrow", "--template", "chess")
    assert done.exit_code == 2 and "'gymnasium'" in done.stderr
