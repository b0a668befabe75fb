"""The page in a real browser, as its users have it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import openenv_gym  # noqa: F401  # registers the ids
from tests.support.waiting import eventually
from tests.web.test_watching import play


pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

WORLDS = "tests.web.browser.worlds"


def field(page: Any, key: str) -> Any:
    """Return where a field is filled in."""
    name = "".join(each if each.isalnum() else "-" for each in key)
    return page.locator(f"#oe-{name}")


def fill(page: Any, key: str, text: str) -> None:
    field(page, key).locator("input, textarea").first.fill(text)


def choose(page: Any, key: str, label: str) -> None:
    field(page, key).get_by_label(label, exact=True).check()


def step(page: Any) -> None:
    before = number(page, "#oe-step-number")
    page.click("#oe-step")
    page.wait_for_function(
        f"() => document.querySelector('#oe-step-number')?.textContent != '{before}'"
    )


def number(page: Any, selector: str) -> str:
    return str(page.locator(selector).inner_text())


def shown(page: Any, label: str) -> str:
    """Return the text of a panel."""
    return str(page.locator(f"[data-key='text/{label}'] pre").inner_text())


def history(page: Any) -> list[list[str]]:
    rows = page.locator("#oe-history tbody tr").all()
    return [[cell.inner_text() for cell in row.locator("td").all()] for row in rows]


# -- forms ----------------------------------------------------------------------------------


def test_a_field_of_every_kind_is_filled_in(serve: Any, open_page: Any, keep: Any) -> None:
    page = open_page(serve(f"{WORLDS}:Everything").url)
    fill(page, "number", "-12")
    choose(page, "small", "4")
    fill(page, "level", "0.25")
    field(page, "flag").locator("input").check()
    fill(page, "word", "word")
    choose(page, "colour", "blue")
    choose(page, "way", "down")
    choose(page, "colours", "red")
    choose(page, "colours", "green")
    fill(page, "pair.0", "3")
    fill(page, "pair.1", "4")
    fill(page, "many", "[1, 2.5]")
    fill(page, "inner.share", "0.75")
    fill(page, "inner.name", "somebody")
    choose(page, "deed?", "talk")
    fill(page, "deed|1.text", "hello")
    step(page)
    keep(page, "web-form", full_page=True)
    assert json.loads(shown(page, "said")) == {
        "number": -12,
        "small": 4,
        "level": 0.25,
        "flag": True,
        "word": "word",
        "colour": "blue",
        "way": "down",
        "colours": ["green", "red"],
        "pair": [3, 4],
        "many": [1, 2.5],
        "inner": {"share": 0.75, "name": "somebody"},
        "deed": {"kind": "talk", "text": "hello"},
        "maybe": None,
    }
    assert history(page)[0][1:2] == ["1"] and history(page)[0][3] == "0.5"


def test_what_is_wrong_is_said_beside_its_field(serve: Any, open_page: Any, keep: Any) -> None:
    page = open_page(serve(f"{WORLDS}:Everything").url)

    def problem(key: str) -> str:
        within = page.locator(".oe-field").filter(has=field(page, key))
        return str(within.locator(".oe-problem").inner_text())

    fill(page, "number", "seven")
    fill(page, "level", "2")
    fill(page, "many", "[1, 2")
    page.click("#oe-step")
    page.wait_for_selector(".oe-problem")
    assert problem("number") == "'seven' is no number."
    assert problem("level") == "2 is not from -1 to 1."
    assert problem("many").startswith("This is no JSON")
    keep(page, "web-problems", full_page=True)
    # What the form cannot know the environment's own model says.
    fill(page, "number", "7")
    fill(page, "level", "1")
    fill(page, "many", "[]")
    fill(page, "word", "Word")
    page.click("#oe-step")
    page.wait_for_function("() => document.querySelectorAll('.oe-problem').length == 1")
    assert "pattern" in problem("word")
    assert len(history(page)) == 1  # the reset alone
    fill(page, "word", "word")
    step(page)
    assert page.locator(".oe-problem").count() == 0


def test_every_space_of_gymnasium_has_a_form(serve: Any, open_page: Any) -> None:
    page = open_page(serve(f"{WORLDS}:Spaces").url)
    choose(page, "discrete", "2")
    fill(page, "large", "4000")
    fill(page, "box.0", "-0.5")
    fill(page, "box.1", "1")
    fill(page, "pixels", "[[1, 2, 3], [4, 5, 6]]")
    choose(page, "bits", "0")
    choose(page, "bits", "2")
    choose(page, "several.0", "2")
    choose(page, "several.1", "1")
    fill(page, "text", "abc")
    choose(page, "nested.inner", "1")
    choose(page, "both.0", "1")
    fill(page, "both.1", "xy")
    fill(page, "row", "[2, 0]")
    choose(page, "either?", "1: array")
    fill(page, "either|1.value.0", "0.5")
    fill(page, "either|1.value.1", "0.25")
    fill(page, "graph.nodes", "[[0.5], [1]]")
    step(page)
    said = json.loads(shown(page, "observation"))
    assert said == {
        "discrete": 2,
        "large": 4000,
        "box": [-0.5, 1],
        "pixels": [[1, 2, 3], [4, 5, 6]],
        "bits": [1, 0, 1],
        "several": [2, 1],
        "text": "abc",
        "nested": {"inner": 1},
        "both": [1, "xy"],
        "row": [2, 0],
        "either": {"index": 1, "value": [0.5, 0.25]},
        "graph": {"nodes": [[0.5], [1]], "edges": None, "edge_links": None},
    }


def test_an_episode_begins_with_a_seed_and_options(serve: Any, open_page: Any) -> None:
    page = open_page(serve(f"{WORLDS}:Everything").url)
    fill(page, "seed", "12")
    page.get_by_text("Options of the episode").click()
    fill(page, "options", '{"a": 1}')
    page.click("#oe-reset")
    page.wait_for_function("() => document.querySelectorAll('#oe-history tbody tr').length == 2")
    assert shown(page, "said") == 'seed 12 options {"a": 1}'
    fill(page, "options", "[1]")
    page.click("#oe-reset")
    page.wait_for_selector(".oe-problem")
    assert "Expected a map in JSON" in page.locator(".oe-problem").inner_text()
    page.click("#oe-raw-button")
    page.wait_for_function("() => document.querySelector('#oe-raw').textContent.includes('said')")


def test_the_tools_of_an_environment_are_called(serve: Any, open_page: Any) -> None:
    page = open_page(serve("echo_env").url)
    field(page, "kind").locator("input").click()
    page.get_by_role("option", name="tool: echo_message").click()
    page.wait_for_function("() => !document.querySelector('#oe-message .oe-problem')")
    page.locator("#oe-message textarea, #oe-message input").last.wait_for()
    page.wait_for_timeout(500)
    page.locator(".oe-field textarea").first.fill("Hello")
    step(page)
    assert "Hello" in page.locator(".oe-panels").inner_text()


# -- games ----------------------------------------------------------------------------------


def test_a_game_of_chess_is_played_by_keyboard_alone(serve: Any, open_page: Any, keep: Any) -> None:
    server = serve("chess_env", "--option", "opponent=self")
    page = open_page(server.url)
    move = field(page, "move").locator("input, textarea")
    for count, each in enumerate(("f2f3", "e7e5", "g2g4"), 1):
        move.focus()
        page.keyboard.press("Control+A")
        page.keyboard.type(each)
        page.keyboard.press("Enter")
        page.wait_for_function(
            f"() => document.querySelector('#oe-step-number').textContent == '{count}'"
        )
    keep(page, "web-chess")
    # The last one is chosen from the legal ones.
    legal = field(page, "legal").locator("input")
    legal.focus()
    page.keyboard.type("d8h4")
    page.get_by_role("option", name="d8h4").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('#oe-move input, #oe-move textarea').value == 'd8h4'"
    )
    step(page)
    assert number(page, "#oe-over") == "over"
    assert [row[2] for row in history(page)] == ["d8h4", "g2g4", "e7e5", "f2f3", "reset"]
    board = page.locator(".oe-picture")
    assert board.evaluate("image => image.complete && image.naturalWidth > 100")


def test_atari_is_played_by_keyboard(serve: Any, open_page: Any, keep: Any) -> None:
    page = open_page(serve("atari_env", "--option", "game=breakout").url)
    page.click("#oe-play")
    page.wait_for_selector("#oe-play.on")
    page.keyboard.press("Space", delay=300)  # which serves the ball
    page.keyboard.down("ArrowRight")
    began, before = time.monotonic(), page.evaluate("window.openenvShown")
    assert eventually(lambda: page.evaluate("window.openenvShown") >= before + 90, 60)
    rate = (page.evaluate("window.openenvShown") - before) / (time.monotonic() - began)
    print(f"displayed: {rate:.1f} frames a second")
    keep(page, "web-atari")
    page.keyboard.up("ArrowRight")
    page.keyboard.press("Escape")
    page.wait_for_selector("#oe-play:not(.on)")
    actions = {row[2] for row in history(page)}
    assert "2: RIGHT" in actions and "1: FIRE" in actions
    # Where the paddle is: at the right, where it was led.
    left, right = page.locator(".oe-picture").evaluate(
        """image => {
            const canvas = document.createElement("canvas");
            [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
            const context = canvas.getContext("2d");
            context.drawImage(image, 0, 0);
            const row = context.getImageData(8, 190, 144, 1).data;
            const red = [...Array(144).keys()].filter(x => row[4 * x] > 150 && row[4 * x + 1] < 110);
            return [Math.min(...red), Math.max(...red)];
        }"""
    )
    assert left > 72 and right > 100


def test_numbers_are_plotted_and_an_environment_is_exchanged(
    serve: Any, open_page: Any, keep: Any
) -> None:
    page = open_page(serve("gymnasium", "--option", "env_id=CartPole-v1").url)
    step(page)
    step(page)
    assert page.locator("[data-key='numbers/observation'] polyline").count() == 4
    assert page.locator(".oe-picture").count() == 1  # what it draws
    page.get_by_text("Environment", exact=True).click()
    fill(page, "make", '{"env_id": "NoSuch-v0"}')
    page.click("#oe-renew")
    page.wait_for_selector(".oe-problem")
    assert "NoSuch" in page.locator(".oe-problem").first.inner_text()
    fill(page, "make", '{"env_id": "Pendulum-v1"}')
    page.click("#oe-renew")
    field(page, "action.0").wait_for()
    fill(page, "action.0", "1.5")
    step(page)
    keep(page, "web-pendulum", full_page=True)
    assert history(page)[0][2] == "[1.5]"


# -- tabs, watching -------------------------------------------------------------------------


def test_two_tabs_are_two_sessions(serve: Any, open_page: Any) -> None:
    url = serve("chess_env", "--option", "opponent=self").url
    first, second = open_page(url), open_page(url)
    for page, moves in ((first, ["e2e4", "e7e5"]), (second, ["d2d4"])):
        for each in moves:
            fill(page, "move", each)
            step(page)
    assert [row[2] for row in history(first)] == ["e7e5", "e2e4", "reset"]
    assert [row[2] for row in history(second)] == ["d2d4", "reset"]
    assert "4p3/4P3" in shown(first, "fen") and "3P4" in shown(second, "fen")


def test_a_trainer_is_watched_and_does_not_notice(serve: Any, open_page: Any, keep: Any) -> None:
    url = serve("gymnasium", "--option", "env_id=CartPole-v1").url

    def make() -> Any:
        return gymnasium.make(
            "openenv/Remote-v0", base_url=url, env_id="Acrobot-v1", render_mode="rgb_array"
        )

    env = make()
    alone = play(env, 600)  # so long that a watcher, told 60 times a second, sees several
    env.close()
    env = make()
    page = open_page(url)
    page.get_by_role("tab", name="Watch").click()
    page.click("#oe-look")
    page.wait_for_function(
        "() => document.querySelector('#oe-sessions input').value.includes('Acrobot')"
    )
    page.click("#oe-watch")
    page.wait_for_selector(".oe-badge.watch")
    assert play(env, 600) == alone
    page.wait_for_function("() => document.querySelectorAll('#oe-history tbody tr').length > 5")
    observation = env.step(1)[0]
    time.sleep(0.1)
    observation = env.step(1)[0]
    first = f"{np.round(float(observation[0]), 4):g}"
    page.wait_for_function(
        f"() => document.querySelector('.oe-values')?.textContent.includes('{first}')"
    )
    keep(page, "web-watch")
    assert page.locator(".oe-picture").evaluate("image => image.naturalWidth") == 500
    page.click("#oe-unwatch")
    env.close()


def test_one_of_many_is_watched(serve: Any, open_page: Any) -> None:
    url = serve("gymnasium", "--option", "env_id=CartPole-v1").url
    envs = gymnasium.make_vec("openenv/Remote-v0", num_envs=3, base_url=url, env_id="CartPole-v1")
    page = open_page(url)
    page.get_by_role("tab", name="Watch").click()
    page.click("#oe-look")
    field(page, "index").locator("input, textarea").wait_for()
    fill(page, "index", "7")
    page.click("#oe-watch")
    page.wait_for_selector("#oe-watch-problem .oe-problem")
    assert "3 sub-environments" in page.locator("#oe-watch-problem").inner_text()
    fill(page, "index", "2")
    page.click("#oe-watch")
    page.wait_for_selector(".oe-badge.watch")
    observations, _ = envs.reset(seed=3)
    first = f"{np.round(float(observations[2][0]), 4):g}"
    page.wait_for_function(
        f"() => document.querySelector('.oe-values')?.textContent.includes('{first}')"
    )
    assert "2 of 3" in page.locator(".oe-badge.watch").inner_text()
    envs.close()


# -- servers, devices -----------------------------------------------------------------------


def test_a_server_that_was_killed_and_started_again_is_found(serve: Any, open_page: Any) -> None:
    server = serve("chess_env", "--option", "opponent=self")
    page = open_page(server.url)
    fill(page, "move", "e2e4")
    step(page)
    server.kill()
    page.wait_for_selector("#oe-status.lost")
    assert "gone" in number(page, "#oe-status")
    server.start()
    page.wait_for_selector("#oe-status.ok")
    page.wait_for_selector("#oe-step")
    page.wait_for_function("() => document.querySelectorAll('#oe-history tbody tr').length == 1")
    fill(page, "move", "d2d4")
    step(page)
    assert [row[2] for row in history(page)] == ["d2d4", "reset"]


def test_the_token_is_a_password(serve: Any, open_page: Any, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret-token")
    server = serve("chess_env", "--token-file", str(tmp_path / "token"))
    user = {"username": "anybody", "password": "secret-token"}
    page = open_page(server.url, http_credentials=user)
    fill(page, "move", "e2e4")
    step(page)
    assert history(page)[0][2] == "e2e4"


def test_it_can_be_read_on_a_phone(serve: Any, open_page: Any, keep: Any) -> None:
    page = open_page(
        serve("atari_env", "--option", "game=pong").url,
        viewport={"width": 390, "height": 844},
        has_touch=True,
        is_mobile=True,
    )
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390
    page.tap("#oe-play")
    up = page.get_by_label("right", exact=True)
    up.wait_for()
    before = page.evaluate("window.openenvShown")
    assert eventually(lambda: page.evaluate("window.openenvShown") > before + 10)
    keep(page, "web-phone")
    sizes = page.locator(".oe-pad button").evaluate_all(
        "buttons => buttons.map(each => Math.min(each.offsetWidth, each.offsetHeight))"
    )
    assert min(sizes) >= 44  # what a finger hits
    page.tap(".oe-pad .oe-stop")
    page.wait_for_selector("#oe-play:not(.on)")
