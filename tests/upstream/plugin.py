"""pytest plugin that points Gymnasium's own tests at this library's ids.

Gymnasium's tests take what they test from lists that ``tests/envs/utils.py`` makes of the ids that
Gymnasium registers. This plugin puts ``openenv/NAME`` in the place of each of them before test
modules read the lists; the tests themselves run as they are. `run.py` beside this file starts
pytest with it.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import warnings
from typing import TYPE_CHECKING, Any

import gymnasium
import pytest


if TYPE_CHECKING:
    from collections.abc import Iterable

    from gymnasium.envs.registration import EnvSpec


# Test (its name with the parameter) -> why it cannot hold for an environment that is elsewhere:
# a reason that upstream would accept.
EXCLUSIONS: dict[str, str] = {}
MOST_EXCLUSIONS = 5

_FOUND = pytest.StashKey[list[str]]()
_MISSING = pytest.StashKey[list[str]]()
_NOT_TESTED = re.compile(r"Not testing (\S+) due to error")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("openenv", "Gymnasium's tests on openenv/ ids")
    group.addoption(
        "--openenv-local",
        action="store_true",
        help="leave the lists as they are: checks the checkout and this harness",
    )
    group.addoption(
        "--openenv-provider", default="thread", help="where environments run (default: thread)"
    )


def pytest_configure(config: pytest.Config) -> None:
    if len(EXCLUSIONS) > MOST_EXCLUSIONS:
        raise pytest.UsageError(
            f"{len(EXCLUSIONS)} tests are excluded, and at most {MOST_EXCLUSIONS} may be."
        )
    # Test modules import `tests.envs.utils`; so does this, from the same place.
    sys.path.insert(0, str(config.rootpath))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        upstream = importlib.import_module("tests.envs.utils")
    missing = [match[1] for entry in caught if (match := _NOT_TESTED.search(str(entry.message)))]
    config.stash[_MISSING] = missing
    _check_installed(config)
    if config.getoption("--openenv-local"):
        config.stash[_FOUND] = [spec.id for spec in upstream.all_testing_env_specs]
        return
    # For those tests that make environments by their ids alone.
    os.environ["OPENENV_PROVIDER"] = config.getoption("--openenv-provider")
    for env in upstream.all_testing_initialised_envs:
        env.close()
    specs = _hosted(spec.id for spec in upstream.all_testing_env_specs)
    envs: list[gymnasium.Env[Any, Any]] = []
    config.add_cleanup(lambda: _close(envs))
    envs += [spec.make(disable_env_checker=True).unwrapped for spec in specs]
    upstream.all_testing_env_specs[:] = specs
    upstream.all_testing_initialised_envs[:] = envs
    config.stash[_FOUND] = [spec.id for spec in specs]


def _check_installed(config: pytest.Config) -> None:
    """Refuse to test the checkout's own ``gymnasium`` in place of the installed one."""
    location = os.path.realpath(gymnasium.__file__)
    if location.startswith(os.path.realpath(config.rootpath) + os.sep):
        raise pytest.UsageError(
            f"gymnasium is imported from {location}, and the installed one is wanted. "
            "Start through run.py, which lays out the tests alone."
        )


def _hosted(ids: Iterable[str]) -> list[EnvSpec]:
    import openenv_gym  # noqa: F401 (registers the ids)

    names = {id_: f"openenv/{id_.replace('/', '-')}" for id_ in ids}
    if missing := [name for name in names.values() if name not in gymnasium.registry]:
        raise pytest.UsageError(
            f"Gymnasium ships environments that the catalogue lacks: {', '.join(missing)}."
        )
    return [gymnasium.spec(name) for name in names.values()]


def _close(envs: list[gymnasium.Env[Any, Any]]) -> None:
    for env in envs:
        env.close()


def pytest_report_header(config: pytest.Config) -> list[str]:
    where = "local"
    if not config.getoption("--openenv-local"):
        where = f"provider {config.getoption('--openenv-provider')}"
    found, missing = config.stash[_FOUND], config.stash[_MISSING]
    lines = [f"upstream: gymnasium {gymnasium.__version__}, {where}: {', '.join(found)}"]
    if missing:
        lines.append(f"upstream: packages are missing here for {', '.join(missing)}")
    return lines


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--openenv-local"):
        return
    unused = set(EXCLUSIONS) - {item.name for item in items}
    # Only a run of everything can tell that an exclusion is no longer needed.
    if unused and not (config.option.keyword or re.search("::", " ".join(config.args))):
        raise pytest.UsageError(f"Excluded, and no such test: {', '.join(sorted(unused))}.")
    for item in items:
        if reason := EXCLUSIONS.get(item.name):
            item.add_marker(pytest.mark.skip(reason=reason))
