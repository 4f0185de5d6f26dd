"""Blocked clients by key: bookkeeping without clock, loop or sockets. Times are monotonic ms.

A wait ends with data, at its deadline, by CLIENT UNBLOCK or with its connection. The waiters of a key are in order of
arrival, so that the longest wait is served first. A waiter that was run again without success goes to the end of its
lines, as in Redis.
"""

from __future__ import annotations

import heapq
from typing import Final

from ...commands.clients.blocking import Blocked
from ...commands.clients.client import Client

# Timers of ended waits that may be in the heap before it is cleaned: rare enough to cost no time, and too few to cost
# memory.
VOID_TIMERS_MAX: Final = 1024

# (database index, key).
LineKey = tuple[int, bytes]


class Waiter:
    """One blocked command."""

    __slots__ = ("blocked", "client", "db_index", "deadline_ms", "lines", "ticket", "wake_ms")

    def __init__(
        self, client: Client, db_index: int, blocked: Blocked, deadline_ms: int | None, wake_ms: int | None
    ) -> None:
        self.client = client
        self.db_index = db_index
        self.blocked = blocked
        self.deadline_ms = deadline_ms
        self.wake_ms = wake_ms
        # Changed whenever the waiter joins its lines: timers with an older ticket are void.
        self.ticket = 0
        self.lines: list[LineKey] = []


class Waiters:
    """All blocked reads."""

    def __init__(self) -> None:
        # Waiters of a key in order of arrival; a line is never empty.
        self.lines: dict[LineKey, dict[Waiter, None]] = {}
        self.by_client: dict[int, Waiter] = {}
        # The number of waiters of each database; databases without waiters are not in it.
        self.databases: dict[int, int] = {}
        # Heap of (time from which on it is due in ms, ticket, whether it is the deadline, waiter).
        self._timers: list[tuple[int, int, bool, Waiter]] = []
        self._tickets = 0

    def __len__(self) -> int:
        return len(self.by_client)

    def add(
        self,
        client: Client,
        db_index: int,
        blocked: Blocked,
        deadline_ms: int | None = None,
        wake_ms: int | None = None,
    ) -> Waiter:
        """Make `client` wait until its deadline, without end if that is None. It is run again at `wake_ms`."""
        assert client.id not in self.by_client, "a client waits for one command at a time"
        waiter = Waiter(client, db_index, blocked, deadline_ms, wake_ms)
        self.by_client[client.id] = waiter
        self.databases[db_index] = self.databases.get(db_index, 0) + 1
        self._join(waiter)
        return waiter

    def remove(self, waiter: Waiter) -> None:
        """End a wait."""
        del self.by_client[waiter.client.id]
        self._leave(waiter)
        remaining = self.databases[waiter.db_index] - 1
        if remaining:
            self.databases[waiter.db_index] = remaining
        else:
            del self.databases[waiter.db_index]

    def requeue(self, waiter: Waiter, wake_ms: int | None) -> None:
        """Put the waiter at the end of its lines after a run without success, with its old deadline and a new wake
        time.
        """
        if wake_ms is None and waiter.wake_ms is None:
            for line_key in waiter.lines:
                line = self.lines[line_key]
                del line[waiter]
                line[waiter] = None
            return
        self._leave(waiter)
        waiter.wake_ms = wake_ms
        self._join(waiter)

    def of(self, client: Client) -> Waiter | None:
        """The wait of a client; None if it is not blocked."""
        return self.by_client.get(client.id)

    def in_line(self, db_index: int, key: bytes) -> list[Waiter]:
        """The waiters of a key, longest wait first."""
        return list(self.lines.get((db_index, key), ()))

    # -- time ------------------------------------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """The earliest ms at which `take_due` returns something; None if there is none."""
        timers = self._timers
        while timers and timers[0][3].ticket != timers[0][1]:
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def take_due(self, now_ms: int) -> tuple[list[Waiter], list[LineKey]]:
        """Returns waiters past their deadline, and keys whose pending entries may have become idle enough; each is
        returned once.

        Both are due after their millisecond has passed: the clock is cut to whole milliseconds, so within that
        millisecond the wait could still end too early.
        """
        expired: list[Waiter] = []
        woken: dict[LineKey, None] = {}
        while (due_ms := self.next_due_ms()) is not None and due_ms <= now_ms:
            _, _, is_deadline, waiter = heapq.heappop(self._timers)
            if is_deadline:
                waiter.ticket = 0
                expired.append(waiter)
            else:
                woken.update(dict.fromkeys(waiter.lines))
        return expired, list(woken)

    # -- lines -----------------------------------------------------------------------------------

    def _join(self, waiter: Waiter) -> None:
        self._tickets += 1
        waiter.ticket = self._tickets
        waiter.lines = [(waiter.db_index, key) for key in dict.fromkeys(waiter.blocked.keys)]
        for line_key in waiter.lines:
            self.lines.setdefault(line_key, {})[waiter] = None
        deadline_ms, wake_ms = waiter.deadline_ms, waiter.wake_ms
        if deadline_ms is not None:
            heapq.heappush(self._timers, (deadline_ms + 1, waiter.ticket, True, waiter))
        if wake_ms is not None:
            heapq.heappush(self._timers, (wake_ms + 1, waiter.ticket, False, waiter))
        if len(self._timers) > VOID_TIMERS_MAX + 4 * len(self.by_client):
            self._drop_void_timers()

    def _leave(self, waiter: Waiter) -> None:
        for line_key in waiter.lines:
            line = self.lines[line_key]
            del line[waiter]
            if not line:
                del self.lines[line_key]
        waiter.lines = []
        waiter.ticket = 0

    def _drop_void_timers(self) -> None:
        """Remove void timers from the heap if they are too many: waiters that are served at once leave long timers."""
        self._timers = [timer for timer in self._timers if timer[3].ticket == timer[1]]
        heapq.heapify(self._timers)
