"""A good environment keeps all rules; each defect breaks the rule that is about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from openenv_gym import errors
from openenv_gym.conformance import RULES, Level, Subject, rules_of, run_rules
from openenv_gym.conformance.play import Moment, play, where_different
from openenv_gym.doctor.checks import Check, State
from openenv_gym.models.comparing import equal


def _checks(name: str, level: Level = Level.CONFORMANCE) -> dict[str, Check]:
    with Subject(f"tests.conformance.worlds:{name}", provider="thread") as subject:
        return {check.name: check for check in run_rules(subject, level)}


def _broken(checks: dict[str, Check]) -> set[str]:
    return {name for name, check in checks.items() if check.state is State.FAILED}


def test_each_rule_has_a_name_of_its_own_and_says_what_to_do() -> None:
    names = [(rule.area, rule.name) for rule in RULES]
    assert len(set(names)) == len(names)
    assert all(rule.fix.endswith(".") for rule in RULES)


def test_a_good_one_keeps_all() -> None:
    checks = _checks("Good")
    assert {check.state for check in checks.values()} <= {State.OK, State.ABSENT}
    assert checks["save and restore"].state is State.OK
    assert len(checks) == len(rules_of(Level.CONFORMANCE, files=False))


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("GlobalChance", "equal seeds"),
        ("AlwaysSeeds", "no seed"),
        ("Shares", "apart"),
        ("Shares", "at once"),
        ("Forgets", "save and restore"),
        ("TakesAnything", "unknown options"),
        ("Infinite", "rewards and flags"),
    ],
)
def test_a_defect_is_named(name: str, rule: str) -> None:
    (found,) = [each for each in RULES if each.name == rule]
    with Subject(f"tests.conformance.worlds:{name}", provider="thread") as subject:
        check = found.check(subject)
    assert check.state is State.FAILED and check.fix


def test_what_takes_actions_that_are_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    (rule,) = [each for each in RULES if each.name == "wrong actions"]
    with Subject("tests.conformance.worlds:Clips", provider="thread") as subject:
        assert rule.check(subject).state is State.OK
    # A server of this library refuses by itself; others need not.
    monkeypatch.setattr("openenv_gym.server.host.check_hosted_action", lambda space, action: None)
    with Subject("tests.conformance.worlds:TakesAnyAction", provider="thread") as subject:
        check = rule.check(subject)
    assert check.state is State.FAILED
    assert check.found == "None is taken, and Discrete(3) has no such action"


def test_what_it_need_not_have() -> None:
    checks = _checks("Dull")
    assert not _broken(checks)
    assert {checks["other seeds"].state, checks["save and restore"].state} == {State.ABSENT}


def test_without_an_environment_nothing_is_known() -> None:
    checks = _checks("Unmakeable")
    assert _broken(checks) == {"starts"} and "no moon today" in checks["starts"].found
    assert {check.state for name, check in checks.items() if name != "starts"} == {State.UNKNOWN}


def test_levels() -> None:
    areas = {level: {rule.level for rule in rules_of(level)} for level in Level}
    assert [len(areas[level]) for level in Level] == [1, 2, 3]
    assert set(_checks("Good", Level.RUNTIME)) < set(_checks("Good"))


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "moon_env"
    (folder / "server").mkdir(parents=True)
    for name in ("__init__.py", "models.py", "client.py", "py.typed", "server/__init__.py"):
        (folder / name).touch()
    (folder / "server/app.py").write_text("app = 1\n")
    (folder / "LICENSE").write_text("MIT")
    (folder / "README.md").write_text("Observation, action, reward, episode end.")
    (folder / "openenv.yaml").write_text("name: moon_env\nlicense: MIT\nids: [{id: Moon-v0}]\n")
    (folder / "server/Dockerfile").write_text('CMD ["python", "-m", "openenv_gym.server"]')
    (folder / ".dockerignore").write_text(".venv\n")
    (folder / "pyproject.toml").write_text(
        '[project.entry-points."openenv_gym.environments"]\nmoon_env = "moon_env"\n'
    )
    yield folder


def _static(folder: Path) -> dict[str, Check]:
    with Subject(folder.name, folder=folder) as subject:
        return {check.name: check for check in run_rules(subject, Level.STATIC)}


def test_files_that_hold(package: Path) -> None:
    assert {check.state for check in _static(package).values()} == {State.OK}


@pytest.mark.parametrize(
    ("file", "text", "rule"),
    [
        ("openenv.yaml", "name: moon_env\nport: moon\n", "manifest"),
        ("openenv.yaml", "name: sun_env\n", "one name"),
        ("openenv.yaml", "name: moon_env\n", "ids"),
        ("openenv.yaml", "name: moon_env\napp: server.sun:app\n", "application"),
        ("server/app.py", "application = 1\n", "application"),
        ("models.py", "class Moon(:\n", "python"),
        ("client.py", None, "client"),
        ("py.typed", None, "types"),
        ("LICENSE", None, "licence"),
        ("README.md", "Observation and action.", "readme"),
        ("server/Dockerfile", "CMD true", "image"),
        (".dockerignore", "", "image"),
        ("pyproject.toml", "", "entry point"),
    ],
)
def test_files_that_do_not(package: Path, file: str, text: str | None, rule: str) -> None:
    path = package / file
    path.unlink() if text is None else path.write_text(text)
    checks = _static(package)
    assert checks[rule].state is State.FAILED and checks[rule].fix


def test_strangers_code_is_refused_whoever_names_it() -> None:
    """Without a folder, too, and as a module of it."""
    for package in ("coding_env", "coding_env.server.app:app"):
        with (
            Subject(package, provider="thread") as subject,
            pytest.raises(errors.IsolationError, match="coding_env"),
        ):
            subject.make()


def test_a_package_for_gymnasium_alone_needs_no_types(package: Path) -> None:
    for name in ("models.py", "client.py"):
        (package / name).unlink()
    checks = _static(package)
    assert {checks[name].state for name in ("models", "client")} == {State.ABSENT}
    (package / "server" / "app.py").write_text("from openenv_gym import Environment\napp = 1\n")
    checks = _static(package)
    assert {checks[name].state for name in ("models", "client")} == {State.FAILED}


def test_a_package_for_several_agents_needs_no_id() -> None:
    folder = Path(__file__).parents[2] / "envs" / "pettingzoo_env"
    with Subject(folder.name, folder=folder, provider="thread") as subject:
        checks = {check.name: check for check in run_rules(subject, Level.RUNTIME)}
    assert checks["ids"].state is State.ABSENT and checks["starts"].state is State.ABSENT
    assert not _broken(checks)


def test_tools_are_called_as_they_want_to_be() -> None:
    checks = _checks("Tools")
    assert {check.state for check in checks.values()} <= {State.OK, State.ABSENT}
    assert checks["rewards and flags"].found == "rewards from 0 to 9"


@pytest.mark.parametrize("name", ["Picky", "PickyInWords", "PickyInSeveralFields"])
def test_of_what_is_legal_chance_takes_that_alone(name: str) -> None:
    with Subject(f"tests.conformance.worlds:{name}", provider="thread") as subject:
        assert {moment.observation for moment in play(subject.make(), 20, seed=1)} == {0, 2}


def test_equality_is_to_the_bit() -> None:
    nan = float("nan")
    assert equal({"a": (1, np.array([nan, 1.0]))}, {"a": (1, np.array([nan, 1.0]))})
    assert not equal(np.zeros(2, np.float32), np.zeros(2, np.float64))
    assert not equal({"a": 1}, {"b": 1}) and not equal([1], [1, 2]) and equal(nan, nan)
    assert where_different([Moment(1, 0.5)], [Moment(1, 0.25)]) == (
        "moment 0: reward 0.5 against 0.25"
    )
