from __future__ import annotations

import random
from collections import defaultdict, deque

import pytest

from openenv_gym.ray.crew import Crew, End, Limits, Open, Play
from openenv_gym.ray.ledger import Ledger, Work


def works(count: int) -> list[Work]:
    return [Work(n, 2 * n, (2 * n, 2 * n + 1)) for n in range(count)]


def crew_with(count: int, *, attempts: int = 3, **options: int) -> tuple[Crew, Ledger]:
    crew = Crew(**{"num_workers": 4, "ahead": 100, **options})  # type: ignore[arg-type]
    ledger = Ledger(works(count), attempts=attempts)
    crew.begin(ledger)
    return crew, ledger


def plays(orders: list[object]) -> list[tuple[int, int]]:
    return [(order.worker, order.work.batch) for order in orders if isinstance(order, Play)]


def ramped_up(crew: Crew, workers: int) -> None:
    """Open workers until so many have environments."""
    while True:
        opened = [order.worker for order in crew.orders(0.0) if isinstance(order, Open)]
        for worker in opened:
            crew.opened(worker)
        if not opened or max(opened) >= workers - 1:
            return


def test_one_worker_begins_and_others_follow_when_it_has_its_environments() -> None:
    crew, _ = crew_with(10)
    assert crew.orders(0.0) == [Open(0, None)]
    assert crew.orders(0.0) == []
    crew.opened(0)
    # It has two batches at once, so that it need not wait for the second.
    assert crew.orders(0.0) == [Play(0, works(1)[0]), Play(0, works(2)[1]), Open(1, None)]


def test_no_more_workers_than_there_is_work() -> None:
    crew, _ = crew_with(1)
    assert crew.orders(0.0) == [Open(0, None)]
    crew.opened(0)
    assert plays(crew.orders(0.0)) == [(0, 0)]
    crew.finished(0, 1.0, 10, 1.0)
    assert crew.orders(0.0) == []


def test_nothing_is_begun_while_the_caller_takes_nothing() -> None:
    crew, _ = crew_with(10, num_workers=1, ahead=3)
    ramped_up(crew, 1)
    assert plays(crew.orders(0.0)) == [(0, 0), (0, 1)]
    crew.finished(0, 1.0, 10, 0.0)
    assert plays(crew.orders(0.0)) == [(0, 2)]
    crew.finished(0, 1.0, 10, 0.0)
    crew.finished(0, 1.0, 10, 0.0)
    assert plays(crew.orders(0.0)) == []
    crew.taken()
    assert plays(crew.orders(0.0)) == [(0, 3)]


def test_what_a_lost_worker_had_is_played_by_others() -> None:
    crew, ledger = crew_with(2, num_workers=1)
    ramped_up(crew, 1)
    crew.orders(0.0)
    crew.worker_lost(0, "killed", 0.0)
    assert crew.orders(0.0) == []  # not at once
    assert crew.orders(1.0) == [Open(1, None)]
    crew.opened(1)
    assert plays(crew.orders(1.0)) == [(1, 0), (1, 1)]
    for _ in range(2):
        assert crew.finished(1, 1.0, 10, 2.0)
    assert ledger.over and not ledger.missing
    assert crew.losses == 1


def test_a_worker_that_lost_its_server_goes_to_another_one() -> None:
    crew, _ = crew_with(4, num_workers=1, num_servers=2)
    assert crew.orders(0.0) == [Open(0, 0)]
    crew.opened(0)
    crew.orders(0.0)
    crew.server_lost(0, "gone", 0.0)
    assert crew.orders(1.0) == [Open(0, 1)]


def test_what_a_worker_sends_that_was_given_up_is_not_counted() -> None:
    crew, ledger = crew_with(1, num_workers=2)
    ramped_up(crew, 1)
    crew.orders(0.0)
    crew.worker_lost(0, "late", 0.0)
    assert crew.finished(0, 1.0, 10, 0.0) is None
    assert ledger.there == 0


def test_who_takes_too_long_is_ended() -> None:
    crew = Crew(num_workers=1, ahead=10, limits=Limits(start_s=5.0, batch_s=20.0))
    ledger = Ledger(works(1), attempts=1)
    crew.begin(ledger)
    assert crew.orders(0.0) == [Open(0, None)]
    assert crew.orders(5.0) == []
    assert crew.orders(5.1) == [End(0)]
    assert crew.orders(6.0) == [Open(1, None)]
    crew.opened(1)
    assert plays(crew.orders(7.0)) == [(1, 0)]
    assert crew.orders(27.1) == [End(1)]
    (missing,) = ledger.missing
    assert missing.reasons == ("worker 1 is lost: its batch took more than 20 s",)
    assert crew.losses == 1  # the first one had nothing yet


def test_it_is_hopeless_when_nobody_ever_comes() -> None:
    crew, _ = crew_with(1)
    now_s = 0.0
    for _ in range(1000):
        now_s += 1.0
        for order in crew.orders(now_s):
            assert isinstance(order, Open)
            crew.refused(order.worker, "no room", now_s)
        if crew.hopeless:
            break
    assert crew.hopeless == "worker 0: no room"


def test_it_is_not_hopeless_while_somebody_works() -> None:
    crew, _ = crew_with(100)
    ramped_up(crew, 1)
    for second in range(100):
        for order in crew.orders(float(second)):
            if isinstance(order, Open):
                crew.refused(order.worker, "the server is full", float(second))
    assert crew.hopeless is None and crew.at_work == 1


def test_an_earlier_collection_gives_nothing_to_the_next() -> None:
    crew, _ = crew_with(2, num_workers=1)
    ramped_up(crew, 1)
    crew.orders(0.0)
    ledger = Ledger(works(2), attempts=1)
    crew.begin(ledger)
    assert crew.orders(0.0) == []  # it is busy with what nobody wants any more
    assert crew.finished(0, 1.0, 10, 0.0) is None
    assert plays(crew.orders(0.0)) == [(0, 0)]
    assert crew.finished(0, 1.0, 10, 0.0) is None
    assert crew.finished(0, 1.0, 10, 0.0) == works(1)[0]
    assert ledger.there == 1


@pytest.mark.parametrize("seed", range(200))
def test_whatever_happens_each_batch_is_there_once_or_is_named(seed: int) -> None:
    """A random world: workers and servers that come, go, refuse, raise and lose what was there."""
    world = random.Random(seed)
    count, num_workers, ahead = world.randint(1, 20), world.randint(1, 6), world.randint(1, 9)
    num_servers, trouble = world.choice([0, 1, 3]), world.choice([0.0, 0.05, 0.3])
    crew = Crew(num_workers=num_workers, num_servers=num_servers, ahead=ahead)
    ledger = Ledger(works(count), attempts=3)
    crew.begin(ledger)
    opening: set[int] = set()
    alive: set[int] = set()
    queues: dict[int, deque[Work]] = defaultdict(deque)
    ready: deque[tuple[int, Work]] = deque()
    taken: list[int] = []
    now_s = 0.0
    while not ((ledger.over and not ready) or crew.hopeless):
        now_s += 0.5
        assert now_s < 20_000
        for order in crew.orders(now_s):
            assert not isinstance(order, End)  # nobody is late here
            if isinstance(order, Open):
                opening.add(order.worker)
                alive.add(order.worker)
                assert (order.server is None) == (num_servers == 0)
            else:
                assert order.worker in alive and order.worker not in opening
                queues[order.worker].append(order.work)
        assert len(alive) <= num_workers
        assert sum(map(len, queues.values())) + len(ready) <= ahead
        for worker in sorted(alive):
            if world.random() < trouble / 3:
                crew.worker_lost(worker, "killed", now_s)
                alive.remove(worker)
                opening.discard(worker)
                queues[worker].clear()
            elif worker in opening:
                opening.remove(worker)
                if world.random() < trouble:
                    crew.refused(worker, "full", now_s)
                else:
                    crew.opened(worker)
            elif queues[worker]:
                work = queues[worker].popleft()
                fate = world.random()
                if fate < trouble / 4:
                    queues[worker].clear()
                    crew.server_lost(worker, "gone", now_s)
                elif fate < trouble / 2:
                    crew.failed(worker, "ValueError", now_s)
                else:
                    assert crew.finished(worker, world.random(), 10, now_s) == work
                    ready.append((worker, work))
        while ready and world.random() < 0.7:
            worker, work = ready.popleft()
            if world.random() < trouble / 4:
                crew.data_lost(work, worker, "its node went")
            else:
                crew.taken()
                taken.append(work.batch)
    assert len(taken) == len(set(taken))
    named = [missing.rollouts[0] // 2 for missing in ledger.missing]
    assert sorted(taken + named) == list(range(count)) or crew.hopeless
    if trouble == 0.0:
        assert len(taken) == count and crew.losses == 0
