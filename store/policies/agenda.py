"""When the owned entries of a group are given again: what REDELIVER says of each delivery.

All deliveries with one step of REDELIVER become due in the order of their times. So there is a list by time for each
step, and nothing has to be searched.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Final

from ..pending_parts import Delivery
from ..runs import RunsByTime
from .group_policy import GroupPolicy

# Later than any time: not due at all.
NEVER_MS: Final = 2**63 - 1
# Deliveries in a list before those without entries are looked for.
CLEANING_MIN: Final = 128


class Step:
    """Deliveries that become due equally long after their time."""

    __slots__ = ("clean_at", "is_spent", "runs", "wait_ms")

    def __init__(self, wait_ms: int, *, is_spent: bool) -> None:
        self.wait_ms: Final = wait_ms
        # Whether their entries are not delivered again, but become dead letters.
        self.is_spent: Final = is_spent
        self.runs = RunsByTime()
        # Number of deliveries from which on those without entries are removed.
        self.clean_at = CLEANING_MIN

    def add(self, delivery: Delivery) -> None:
        """Add a delivery. From time to time, those without entries are removed."""
        self.runs.add(delivery)
        if len(self.runs) > self.clean_at:
            self.runs.clean(0)
            self.clean_at = max(CLEANING_MIN, 2 * len(self.runs))

    def due(self, now_ms: int) -> Iterator[tuple[int, Delivery]]:
        """Due times and deliveries up to now, earliest first."""
        for run in self.runs.live():
            due_ms = run.time_ms + self.wait_ms
            if due_ms > now_ms:
                return
            yield due_ms, run


def _due_ms(pair: tuple[int, Delivery]) -> int:
    return pair[0]


class Agenda:
    """The owned deliveries of a group with REDELIVER."""

    __slots__ = ("_policy", "_spent", "_steps")

    def __init__(self, policy: GroupPolicy) -> None:
        self._policy = policy
        self._steps = [Step(wait_ms, is_spent=False) for wait_ms in policy.redeliver_ms]
        self._spent = [Step(wait_ms, is_spent=True) for wait_ms in policy.redeliver_ms]

    def add(self, delivery: Delivery) -> int:
        """Add a delivery. Returns when it is due, in Unix ms; NEVER_MS if it stays with its owner."""
        count, steps = delivery.count, self._steps
        if self._policy.is_spent(count):
            if not self._policy.dead_letter_key:
                return NEVER_MS
            steps = self._spent
        step = steps[min(max(count, 1), len(steps)) - 1]
        step.add(delivery)
        return delivery.time_ms + step.wait_ms

    def next_due_ms(self, after_ms: int = -1) -> int:
        """The first due time after `after_ms`, NEVER_MS if there is none."""
        found = NEVER_MS
        for steps in (self._steps, self._spent):
            for step in steps:
                if step.runs:
                    run = step.runs.first_after(after_ms - step.wait_ms)
                    if run is not None:
                        found = min(found, run.time_ms + step.wait_ms)
        return found

    def due(self, now_ms: int) -> Iterator[Delivery]:
        """Deliveries whose entries may be given again, earliest due time first. Nothing may change meanwhile."""
        if len(self._steps) == 1:
            for _, run in self._steps[0].due(now_ms):
                yield run
            return
        for _, run in merge(*[step.due(now_ms) for step in self._steps], key=_due_ms):
            yield run

    def take_spent(self, now_ms: int) -> list[Delivery]:
        """Remove and return the deliveries that have become due and are not delivered again."""
        taken: list[Delivery] = []
        for step in self._spent:
            if step.runs:
                taken += step.runs.take_until(now_ms - step.wait_ms)
        return taken
