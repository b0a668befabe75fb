"""Whether something is in use: by its owner, or by a lease where that is on another machine."""

from __future__ import annotations

import datetime
import os

import pytest

from openenv_gym.providers.inventory import Item, Survey
from openenv_gym.providers.owner import Owner


NOW = datetime.datetime.now(datetime.timezone.utc)
AN_HOUR = datetime.timedelta(hours=1)
HERE = Owner.current()
GONE = Owner((1 << 30) + os.getpid(), "1", HERE.place)
ELSEWHERE = Owner(os.getpid(), "1", "another machine")


@pytest.mark.parametrize(
    ("owner", "lease", "expected"),
    [
        (HERE, None, True),
        (HERE, NOW - AN_HOUR, True),  # the machine slept, and its owner renews it soon
        (GONE, NOW + AN_HOUR, False),
        (ELSEWHERE, None, None),
        (ELSEWHERE, NOW + AN_HOUR, None),
        (ELSEWHERE, NOW - AN_HOUR, False),
        (None, NOW - AN_HOUR, False),
        (None, None, None),
    ],
)
def test_who_uses_it(
    owner: Owner | None, lease: datetime.datetime | None, expected: bool | None
) -> None:
    item = Item("kubernetes", "statefulset", "default/x", owner, lease=lease)
    assert item.in_use is expected
    assert Survey((item,), {}).removable() == ([item] if expected is False else [])
