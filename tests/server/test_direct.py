import threading
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.models import Action, Observation
from openenv_gym.server import Environment, create_app
from openenv_gym.server.direct import DirectCaller
from openenv_gym.server.server import Server
from tests.support.waiting import eventually


class Number(Action):
    value: int


class Total(Observation):
    total: int = 0


class Adding(Environment[Any, Any, Any]):
    action_model = Number
    observation_model = Total
    closed = 0
    begun: threading.Event
    gate: threading.Event

    def __init__(self) -> None:
        self.total = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Total:
        self.begin_episode(seed)
        self.total = 0
        return Total()

    def step(self, action: Number) -> Total:
        self.begun.set()
        assert self.gate.wait(600)
        if action.value < 0:
            raise ArithmeticError("below zero")
        self.total += action.value
        return Total(total=self.total, reward=1.0)

    def close(self) -> None:
        type(self).closed += 1


@pytest.fixture
def adding():
    """A class of its own for each test: environments of the one before may still be closed."""

    class Own(Adding):
        begun, gate = threading.Event(), threading.Event()

    Own.gate.set()
    yield Own
    Own.gate.set()


@pytest.fixture(params=[False, True], ids=["any thread", "one thread"])
def server(request, adding):
    server = Server(create_app(adding, thread_affinity=request.param), capacity=2)
    server.start()
    yield server
    server.stop()


def step(caller: DirectCaller, value: int, timeout_s: float = 60.0) -> Any:
    return caller.call("step_typed", [{"value": value}], timeout_s=timeout_s)[0]["total"]


def test_calls_act_on_one_environment_until_it_is_closed(server, adding):
    caller = DirectCaller(server.sessions, {}, timeout_s=10)
    caller.call("reset_typed", [{"seed": 1}], timeout_s=10)
    assert [step(caller, value) for value in (1, 2, 3)] == [1, 3, 6]
    caller.close()
    assert eventually(lambda: adding.closed == 1)
    with pytest.raises(errors.SessionClosedError):
        step(caller, 1)


def test_an_exception_is_raised_and_the_session_goes_on(server):
    caller = DirectCaller(server.sessions, {}, timeout_s=10)
    caller.call("reset_typed", [{}], timeout_s=10)
    with pytest.raises(ArithmeticError, match="below zero"):
        step(caller, -1)
    with pytest.raises(errors.InvalidActionError, match="value: Field required"):
        caller.call("step_typed", [{}], timeout_s=10)
    assert step(caller, 5) == 5


def test_it_takes_a_place_and_gives_it_back(server):
    callers = [DirectCaller(server.sessions, {}, timeout_s=10) for _ in range(2)]
    with pytest.raises(errors.CapacityError):
        DirectCaller(server.sessions, {}, timeout_s=10)
    callers[0].close()
    assert eventually(lambda: server.sessions.taken == 1)
    DirectCaller(server.sessions, {}, timeout_s=10).close()
    callers[1].close()


def test_options_that_are_not_taken_are_refused(server):
    with pytest.raises(errors.InvalidOptionError, match="Unknown option 'speed'"):
        DirectCaller(server.sessions, {"speed": 1}, timeout_s=10)


def test_a_call_waits_no_longer_than_it_may_and_the_next_one_gets_its_own_answer(server, adding):
    caller = DirectCaller(server.sessions, {}, timeout_s=10)
    caller.call("reset_typed", [{}], timeout_s=10)
    adding.gate.clear()
    first = threading.Thread(target=step, args=(caller, 1))
    first.start()
    assert adding.begun.wait(60)
    with pytest.raises(errors.DeadlineExceededError):
        step(caller, 10, timeout_s=0.05)
    adding.gate.set()
    first.join()
    assert step(caller, 100) in (101, 111)  # whether the second one had begun or not
