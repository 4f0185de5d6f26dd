"""The slow log: the last calls that took at least `slowlog-log-slower-than` microseconds, without secrets.

Source: SLOWLOG of Redis 8.10.2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ...persistence.grammar.streams import words_of
from ..core.request_size import request_size
from ..core.secrets import redact
from ..core.slow_tally import SlowTally

if TYPE_CHECKING:
    from ..clients.client import Client
    from ..core.table import Row


# Bytes of an entry without its words.
SLOW_CALL_SIZE: Final = 200
# Bytes of a request that is kept as it is until it is shown.
UNCUT_SIZE_MAX: Final = 1024


class SlowCall:
    """One entry. A short request is kept as it is, since most entries are never shown."""

    __slots__ = ("_request", "_shown", "address", "duration_us", "id", "memory_size", "name", "time_s")

    def __init__(
        self, number: int, client: Client, row: Row, argv: list[bytes], duration_us: int, now_ms: int, config: Any
    ) -> None:
        self.id = number
        # Unix seconds.
        self.time_s = now_ms // 1000
        self.duration_us = duration_us
        self.address = client.address
        self.name = client.name
        # The request, and the largest number and size of words that are shown.
        self._request = (row, argv, config.slowlog_entry_max_argc, config.slowlog_entry_max_string_len)
        # The words that are shown and how many there were; None until they are asked for.
        self._shown: tuple[list[bytes], int] | None = None
        # Bytes of the entry.
        self.memory_size = SLOW_CALL_SIZE + request_size(argv)
        if self.memory_size > UNCUT_SIZE_MAX or row.secrets is not None or row.enclosed_at:
            words = self.shown()[0]
            self._request = (row, [], 0, 0)
            self.memory_size = SLOW_CALL_SIZE + request_size(words)

    def shown(self) -> tuple[list[bytes], int]:
        """The words without secrets, cut to `slowlog-entry-max-argc` and `slowlog-entry-max-string-len` as they were
        then, and how many words there were.
        """
        if self._shown is None:
            row, argv, count_max, size_max = self._request
            words = words_of(argv)
            self._shown = cut(redact(row, words), count_max, size_max), len(words)
        return self._shown


class SlowLog:
    """Entries by age."""

    def __init__(self) -> None:
        self._calls: deque[SlowCall] = deque()
        # Bytes of the entries.
        self.memory_size = 0
        self._next_id = 0
        self.tally = SlowTally()

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, client: Client, row: Row, argv: list[bytes], duration_us: int, now_ms: int, config: Any) -> None:
        """Add a call of `client`. The oldest entries are removed when there are more than `slowlog-max-len`."""
        call = SlowCall(self._next_id, client, row, argv, duration_us, now_ms, config)
        self._calls.appendleft(call)
        self.memory_size += call.memory_size
        self._next_id += 1
        while len(self._calls) > config.slowlog_max_len:
            self.memory_size -= self._calls.pop().memory_size
        self.tally.add(duration_us)
        row.slow_tally.add(duration_us)

    def latest(self, count: int) -> Iterator[SlowCall]:
        """The newest entries, newest first."""
        return islice(self._calls, count)

    def clear(self) -> None:
        """SLOWLOG RESET. Later entries continue the numbers."""
        self._calls.clear()
        self.memory_size = 0

    def reset_statistics(self) -> None:
        """CONFIG RESETSTAT: the entries stay."""
        self.tally = SlowTally()


def cut(argv: list[bytes], count_max: int, size_max: int) -> list[bytes]:
    """At most `count_max` words of at most `size_max` bytes, with a text in place of what is omitted."""
    kept = argv if len(argv) <= count_max else argv[: count_max - 1]
    words = [
        word if len(word) <= size_max else b"%b... (%d more bytes)" % (word[:size_max], len(word) - size_max)
        for word in kept
    ]
    if len(kept) < len(argv):
        words.append(b"... (%d more arguments)" % (len(argv) - len(kept)))
    return words
