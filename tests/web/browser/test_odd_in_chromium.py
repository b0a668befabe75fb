"""In a real browser: what nobody expects of an environment."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.web.browser.test_in_chromium import WORLDS, choose, field, history, number, shown, step
from tests.web.browser.worlds import MARKED


pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]


def test_an_odd_environment_is_played(serve: Any, open_page: Any, keep: Any) -> None:
    # One test, for a page takes seconds to load.
    page = open_page(serve(f"{WORLDS}:Odd").url)
    _is_told_as_text(page)
    _sends_what_it_shows(page)
    _shows_rewards_that_are_not_finite(page)
    keep(page, "web-odd", full_page=True)
    page.reload()
    page.wait_for_selector("#oe-status.ok")
    page.wait_for_selector("#oe-step")
    page.get_by_role("tab", name="Watch").click()
    page.click("#oe-look")  # its own session is not listed, and the one before has ended
    page.wait_for_selector("#oe-watch-problem .oe-problem")
    assert "Nobody else" in page.locator("#oe-watch-problem").inner_text()


def _is_told_as_text(page: Any) -> None:
    for place in (".oe-kind-help", ".oe-about", ".oe-group-label"):
        assert MARKED in " ".join(page.locator(place).all_inner_texts())
    assert page.locator(".oe-left a, .oe-left img").count() == 0


def _sends_what_it_shows(page: Any) -> None:
    legal = field(page, "legal").locator("input")
    legal.focus()
    legal.click()
    page.get_by_role("option").first.click()
    page.wait_for_function(
        "() => document.querySelector('#oe-deed-1-text textarea, #oe-deed-1-text input')?.value"
        " == 'hello'"
    )
    step(page)
    said = json.loads(shown(page, "said"), parse_float=str)
    assert said == {
        "number": 2**53 + 1,
        "flag": False,
        "colours": None,
        "deed": {"kind": "talk", "text": "hello"},
        "inner": {"share": 1},
    }
    choose(page, "flag", "(nothing)")
    choose(page, "colours", "(empty)")
    step(page)
    said = json.loads(shown(page, "said"))
    assert (said["flag"], said["colours"]) == (None, [])


def _shows_rewards_that_are_not_finite(page: Any) -> None:
    step(page)
    assert [row[3] for row in history(page)[:3]] == ["nan", "1.5", "-inf"]
    assert number(page, "#oe-return") == "nan"
    step(page)
    assert history(page)[0][1] == "4"
