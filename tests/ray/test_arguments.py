from __future__ import annotations

import io
import pickle
import sys
from typing import Any

import pytest

import openenv_gym
from openenv_gym import errors
from openenv_gym.client import TcpAddress
from openenv_gym.ray import Collector, Missing, collect
from openenv_gym.ray.ledger import missing_error
from openenv_gym.ray.progress import Progress
from openenv_gym.ray.sites import Site, site_of
from openenv_gym.registration import lookup


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("steps", {}),
        ("steps", {"steps": 1, "episodes": 1}),
        ("steps", {"steps": 0}),
        ("episodes", {"episodes": True}),
        ("num_workers", {"steps": 1, "num_workers": "two"}),
        ("rollouts", {"steps": 1, "rollouts": -3}),
        ("max_ahead", {"steps": 1, "max_ahead": 0}),
        ("seed", {"steps": 1, "seed": -1}),
        ("servers", {"steps": 1, "servers": []}),
        ("servers", {"steps": 1, "servers": ["http://a:1"], "provider": "process"}),
        ("servers", {"steps": 1, "servers": [7]}),
    ],
    ids=str,
)
def test_an_argument_that_does_not_hold_is_named(field: str, options: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidOptionError) as caught:
        Collector("openenv/CartPole-v1", **options)
    assert (caught.value.field == field and "expected" in str(caught.value)) or "neither" in str(
        caught.value
    )


def test_an_id_may_have_the_form_that_imports_the_library(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(errors.ProviderUnavailableError, match=r"openenv-gym\[ray\]"):
        collect("openenv_gym:openenv/CartPole-v1", steps=1)
    with pytest.raises(errors.UnknownEnvironmentError, match="CartPole-v1"):
        collect("openenv_gym:openenv/CartPol-v1", steps=1)


def test_a_server_is_told_to_workers_with_its_token_and_shown_without() -> None:
    class Running:
        address = TcpAddress("10.0.0.1", 8000)
        token = "secret"

    site = site_of(Running())
    assert site == pickle.loads(pickle.dumps(site)) == Site(Running.address, "secret")
    assert "secret" not in repr(site)
    assert site_of("http://10.0.0.1:8000") == "http://10.0.0.1:8000"


def test_a_server_that_only_its_owner_reaches_is_refused() -> None:
    with openenv_gym.start_server("openenv/CartPole-v1", provider="thread") as server:
        with pytest.raises(errors.InvalidOptionError, match="only the process that started") as e:
            site_of(server)
        assert e.value.field == "servers" and "provider=" in str(e.value)


def test_untrusted_code_shares_no_server() -> None:
    site = Site(TcpAddress("127.0.0.1", 9), None)
    with pytest.raises(errors.IsolationError, match="share no server"):
        site.connect(lookup("openenv/Coding-v0"), {})


def test_the_error_names_what_is_missing_in_words_and_data() -> None:
    missing = [Missing((n, n + 1), (7 + n, 8 + n), 3, (f"why {n}",)) for n in range(0, 24, 2)]
    error = missing_error(missing)
    assert "24 rollouts are missing" in str(error) and "and 2 more" in str(error)
    assert "rollouts 4 to 5 (seeds 11 to 12): why 4" in str(error)
    assert error.data["missing"][2] == {
        "rollouts": [4, 5],
        "seeds": [11, 12],
        "worker": 3,
        "reasons": ["why 4"],
    }
    assert error.partial is None and pickle.loads(pickle.dumps(error)).data == error.data


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_on_a_terminal() -> None:
    terminal = _Terminal()
    bar = Progress(4, shown=None, stream=terminal)
    bar.add(1200, 3)
    bar.draw(2, 2, 1, last=True)
    bar.draw(4, 0, 1, last=True)
    first, second = terminal.getvalue().rstrip("\n").split("\n")
    assert "[############            ] 2/4, 1,200 steps" in first and "1 lost" in first
    assert "4/4" in second


def test_progress_is_silent_where_nobody_looks_unless_it_is_asked_for() -> None:
    for shown, lines in ((None, 0), (False, 0), (True, 1)):
        stream = io.StringIO()
        bar = Progress(4, shown=shown, stream=stream)
        bar.draw(1, 1, 0)
        bar.draw(4, 0, 0, last=True)
        assert len(stream.getvalue().splitlines()) == lines
