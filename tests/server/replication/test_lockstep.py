"""A function on a thread of its own that works only while its caller waits."""

from __future__ import annotations

import pytest

from headrace.server.replication.lockstep import Lockstep


def test_the_function_and_its_caller_take_turns() -> None:
    seen: list[object] = []

    def work() -> None:
        for number in range(3):
            seen.append(number)
            lockstep.pause()

    lockstep = Lockstep(work)
    for number in range(3):
        assert not lockstep.run()
        seen.append(f"after {number}")
    assert lockstep.run()
    assert lockstep.has_ended
    assert seen == [0, "after 0", 1, "after 1", 2, "after 2"]


def test_what_the_function_raises_is_raised_in_its_caller() -> None:
    def work() -> None:
        lockstep.pause()
        raise ValueError("no")

    lockstep = Lockstep(work)
    assert not lockstep.run()
    with pytest.raises(ValueError, match="no"):
        lockstep.run()
    assert lockstep.has_ended


def test_an_abandoned_function_ends_where_it_is() -> None:
    left: list[str] = []

    def work() -> None:
        try:
            lockstep.pause()
            left.append("continued")
        finally:
            left.append("left")

    lockstep = Lockstep(work)
    lockstep.run()
    lockstep.abandon()
    assert left == ["left"]
    lockstep.abandon()
    assert lockstep._worker is not None
    lockstep._worker.join()


def test_a_function_that_was_not_begun_can_be_abandoned() -> None:
    lockstep = Lockstep(lambda: None)
    lockstep.abandon()
    assert lockstep.has_ended
