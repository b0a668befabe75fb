from __future__ import annotations

from openenv_gym.ray.ledger import Ledger, Work


WORKS = [Work(n, 4 * n, tuple(range(7 + 4 * n, 11 + 4 * n))) for n in range(3)]


def test_every_batch_is_given_out_once() -> None:
    ledger = Ledger(WORKS, attempts=3)
    assert [ledger.take(0), ledger.take(1), ledger.take(2)] == WORKS
    assert ledger.take(0) is None
    assert all(ledger.accept(work.batch, work.batch) for work in WORKS)
    assert ledger.over and not ledger.missing


def test_what_is_lost_is_given_out_first_and_then_counts_once() -> None:
    ledger = Ledger(WORKS, attempts=3)
    ledger.take(0)
    ledger.take(1)
    ledger.lost(0, 0, "killed")
    assert ledger.take(2) == WORKS[0]
    assert ledger.accept(0, 2)
    # The first worker was thought dead, and sends what it has after all.
    assert not ledger.accept(0, 0)
    assert not ledger.accept(0, 2)
    assert ledger.there == 1


def test_what_came_and_is_gone_again_is_played_again() -> None:
    ledger = Ledger(WORKS, attempts=3)
    ledger.take(0)
    ledger.accept(0, 0)
    ledger.lost(0, 0, "its node went")
    assert ledger.there == 0
    assert ledger.take(1) == WORKS[0]


def test_a_loss_that_somebody_else_made_good_changes_nothing() -> None:
    ledger = Ledger(WORKS, attempts=3)
    ledger.take(0)
    ledger.lost(0, 0, "killed")
    ledger.take(1)
    ledger.lost(0, 0, "killed")
    assert ledger.accept(0, 1)


def test_what_is_lost_too_often_is_missing_with_all_reasons() -> None:
    ledger = Ledger(WORKS, attempts=2)
    for worker in (4, 5):
        assert ledger.take(worker) == WORKS[0]
        ledger.lost(0, worker, f"no {worker}")
    assert ledger.given_up == 1
    assert ledger.take(6) == WORKS[1]
    ledger.accept(1, 6)
    ledger.take(6)
    ledger.accept(2, 6)
    assert ledger.over
    (missing,) = ledger.missing
    assert missing.rollouts == (0, 3) and missing.seeds == (7, 10)
    assert missing.worker == 5 and missing.reasons == ("no 4", "no 5")
    assert str(missing) == "rollouts 0 to 3 (seeds 7 to 10): no 4; no 5"


def test_what_raises_is_not_tried_again() -> None:
    ledger = Ledger(WORKS, attempts=3)
    ledger.take(0)
    ledger.failed(0, 0, "ValueError: no")
    assert ledger.take(0) == WORKS[1]
    assert [missing.reasons for missing in ledger.missing] == [("ValueError: no",), (), ()]


def test_what_was_not_begun_is_given_back_and_no_attempt() -> None:
    ledger = Ledger(WORKS, attempts=1)
    ledger.take(0)
    ledger.give_back(0, 0)
    assert ledger.waiting == 3 and not ledger.given_up
    assert ledger.take(1) == WORKS[0]
