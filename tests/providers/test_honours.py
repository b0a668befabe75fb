"""What the table in ``docs/providers.md`` says of each provider is what it does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.providers import PROVIDERS, Mount, Resources
from openenv_gym.providers.registry import provider_class


PAGE = Path(__file__).parents[2] / "docs" / "providers.md"
ASKED: dict[str, Any] = {
    "network": "open",
    "mounts": [Mount("a-volume", "/data")],
    "environment": {"COLOUR": "blue"},
    "runtime": "runsc",
}
WHOLE = {"memory_bytes": 1 << 30}
ISOLATION = "several untrusted sessions in a server"


def table() -> dict[str, dict[str, str]]:
    """Return what the page says, by option and provider."""
    section = PAGE.read_text().partition("## What each honours")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    names = [cell.strip("`") for cell in rows[0][1:]]
    return {
        row[0].strip("`"): dict(zip(names, row[1:], strict=True))
        for row in rows[2:]  # behind the rule
    }


def test_each_option_and_provider_has_its_place() -> None:
    options = {*Resources.__dataclass_fields__, *ASKED, ISOLATION}
    assert set(table()) == options
    assert all(list(row) == list(PROVIDERS) for row in table().values())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_a_provider_honours_and_refuses(provider: str) -> None:
    cls = provider_class(provider)
    for option, row in table().items():
        if option == ISOLATION:
            assert bool(row[provider]) == getattr(cls, "separates_sessions", False)
            continue
        assert bool(row[provider]) == (option in cls.honours), option
        asked = {option: ASKED[option]} if option in ASKED else {"resources": {option: 1}}
        if option in WHOLE:
            asked = {"resources": {option: WHOLE[option]}}
        if row[provider]:
            cls(**asked)
        else:
            with pytest.raises(errors.InvalidOptionError, match=re.escape(option)) as caught:
                cls(**asked)
            assert caught.value.field == option
