"""pytest plugin that lets Gymnasium's tests of `AsyncVectorEnv` test `RemoteVectorEnv`.

The class takes the place of `gymnasium.vector.AsyncVectorEnv` before a test module imports it;
``make_vec(..., vectorization_mode="async")`` looks it up there, too. The tests run as they are.
`run.py` beside this file starts pytest with it.
"""

from __future__ import annotations

import re

import gymnasium
import gymnasium.vector
import pytest


# Test (its name with the parameter) -> why it cannot hold for sub-environments that are elsewhere:
# a reason that upstream would accept.
EXCLUSIONS = {
    "test_custom_space_async_vector_env": (
        "a subclass of Space made for a test is code, and spaces travel as data"
    ),
    "test_async_vector_subenv_error": (
        "steps with scalars where the action space is a Box of shape (1,): actions of another "
        "shape are refused before any sub-environment moves (tests/vector/test_errors.py has the "
        "same test with actions of the space)"
    ),
}
MOST_EXCLUSIONS = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("openenv", "Gymnasium's tests on RemoteVectorEnv")
    group.addoption(
        "--openenv-local",
        action="store_true",
        help="leave AsyncVectorEnv as it is: checks the checkout and this harness",
    )
    group.addoption("--openenv-provider", help="without effect: what tests make is served here")


def pytest_configure(config: pytest.Config) -> None:
    if len(EXCLUSIONS) > MOST_EXCLUSIONS:
        raise pytest.UsageError(
            f"{len(EXCLUSIONS)} tests are excluded, and at most {MOST_EXCLUSIONS} may be."
        )
    if not config.getoption("--openenv-local"):
        from openenv_gym import RemoteVectorEnv

        gymnasium.vector.AsyncVectorEnv = RemoteVectorEnv  # type: ignore[misc]


def pytest_report_header(config: pytest.Config) -> str:
    return f"upstream: gymnasium {gymnasium.__version__}, {gymnasium.vector.AsyncVectorEnv}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> object:
    """Skip what needs a package that is not installed here."""
    try:
        return (yield)
    except gymnasium.error.DependencyNotInstalled as error:
        pytest.skip(str(error))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--openenv-local"):
        return
    unused = set(EXCLUSIONS) - {item.name for item in items}
    # Only a run of everything can tell that an exclusion is no longer needed.
    if unused and not (config.option.keyword or re.search(r"::|tests/", " ".join(config.args))):
        raise pytest.UsageError(f"Excluded, and no such test: {', '.join(sorted(unused))}.")
    for item in items:
        if reason := EXCLUSIONS.get(item.name):
            item.add_marker(pytest.mark.skip(reason=reason))
