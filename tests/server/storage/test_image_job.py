"""The pace of a job: how long the loop serves clients between two slices."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.server.storage.image_job import REST_RATIO, REST_S_MIN, SLICE_S, Job
from headrace.store.image import StoreImage
from support.inprocess import Rig


class Work:
    """A target whose slices take the times that the test says."""

    size = 0

    def __init__(self, rig: Rig, times_s: list[float], *, is_brisk: bool) -> None:
        self.runner = rig.server.snapshots.runner
        self.now_s = 0.0
        self.times_s = times_s
        self.runner.read_clock_s = lambda: self.now_s
        self.rests_s: list[float] = []
        self.runner.call_later = self.call_later  # type: ignore[assignment]
        image = StoreImage(rig.server.store)
        self.runner.begin(Job(image, self, lambda size: None, lambda reason: None, is_brisk=is_brisk))
        while self.runner.job is not None:
            self.call()

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        self.rests_s.append(delay_s)
        self.call = call

    def step(self, is_over: Callable[[], bool]) -> bool:
        self.now_s += self.times_s.pop(0)
        return not self.times_s

    def wait(self) -> None: ...

    def abandon(self) -> None: ...


def test_a_job_rests_in_proportion_to_its_slices() -> None:
    work = Work(Rig(), [0.0, SLICE_S, 0.1, 0.0], is_brisk=False)
    assert work.rests_s[1:] == pytest.approx([REST_S_MIN, REST_RATIO * SLICE_S, REST_RATIO * 0.1])


def test_a_brisk_job_rests_only_when_there_is_nothing_to_do() -> None:
    """A slice that was full is followed by the next one in the next turn of the loop."""
    work = Work(Rig(), [0.0, SLICE_S, 0.1, SLICE_S / 5, SLICE_S], is_brisk=True)
    assert work.rests_s[1:] == pytest.approx([REST_S_MIN, 0.0, 0.0, REST_S_MIN])


def test_a_brisk_job_with_a_delay_for_each_key_rests() -> None:
    """`rdb-key-save-delay`: all slices end early then."""
    rig = Rig(rdb_key_save_delay=1000)
    work = Work(rig, [0.0, SLICE_S, 0.0], is_brisk=True)
    assert len(work.rests_s) == 3
    assert min(work.rests_s) >= REST_S_MIN
