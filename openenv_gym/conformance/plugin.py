"""The rules as tests: ``pytest -p openenv_gym.conformance.plugin --openenv-env NAME``.

It is no plug-in that pytest finds by itself: each run of pytest on the machine would import this
library. A project names it once, in its ``conftest.py`` (``pytest_plugins``) or in ``addopts``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from openenv_gym.conformance.catalogue import rules_of
from openenv_gym.conformance.rules import Level, Rule
from openenv_gym.conformance.subject import Subject
from openenv_gym.conformance.targets import find_target
from openenv_gym.doctor.checks import State
from openenv_gym.errors import UnknownEnvironmentError


__all__: list[str] = []

_SUBJECT: pytest.StashKey[Subject] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--openenv-env`` and ``--openenv-level``."""
    group = parser.getgroup("openenv-gym")
    group.addoption(
        "--openenv-env",
        metavar="PATH|NAME|URL",
        help="test that this environment keeps the rules (openenv-gym validate)",
    )
    group.addoption(
        "--openenv-level",
        choices=[level.value for level in Level],
        default=Level.CONFORMANCE.value,
        help="how much is looked at",
    )


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add a test for each rule."""
    text = config.getoption("--openenv-env")
    if text is None:
        return
    subject = _subject(text)
    config.stash[_SUBJECT] = subject
    level = Level(config.getoption("--openenv-level"))
    for rule in rules_of(level, files=subject.has_files):
        name = f"openenv[{rule.area}: {rule.name}]"
        items.append(RuleItem.from_parent(session, name=name, rule=rule, subject=subject))


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Stop the server."""
    yield
    if (subject := session.config.stash.get(_SUBJECT, None)) is not None:
        subject.close()


class RuleItem(pytest.Item):
    """One rule as a test; it is skipped where it is about something that is not there."""

    def __init__(self, *, rule: Rule, subject: Subject, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._rule = rule
        self._subject = subject

    def runtest(self) -> None:
        """Look at the rule."""
        check = self._rule.check(self._subject)
        if check.state is State.ABSENT:
            pytest.skip(check.found)
        if check.state is not State.OK:
            pytest.fail(f"{check.found}\n-> {check.fix}", pytrace=False)

    def reportinfo(self) -> tuple[str, None, str]:
        """Return what pytest shows as the place of this test."""
        return "openenv_gym/conformance", None, self.name


def _subject(text: str) -> Subject:
    if "://" in text:
        return Subject(url=text)
    try:
        target = find_target(text)
    except UnknownEnvironmentError as error:
        raise pytest.UsageError(f"--openenv-env: {error}") from error
    return Subject(target.name, folder=target.folder)
