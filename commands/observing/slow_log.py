"""The slow log: the last calls that took at least `slowlog-log-slower-than` microseconds, without secrets.

Source: SLOWLOG of Redis 8.10.2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Final

from ...store.memory import text_size
from ..core.secrets import redact
from ..core.slow_tally import SlowTally

if TYPE_CHECKING:
    from ..clients.client import Client
    from ..core.table import Row


# Bytes of an entry without its words.
SLOW_CALL_SIZE: Final = 200


@dataclass(frozen=True, slots=True)
class SlowCall:
    """One entry. `argv` is cut to `slowlog-entry-max-argc` and `slowlog-entry-max-string-len`."""

    id: int
    # Unix seconds.
    time_s: int
    duration_us: int
    argv: list[bytes]
    address: bytes
    name: bytes
    # Before cutting.
    argument_count: int

    @property
    def memory_size(self) -> int:
        """Bytes of the entry."""
        return SLOW_CALL_SIZE + getsizeof(self.argv) + sum(map(text_size, self.argv))


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
        shown = cut(redact(row, argv), config.slowlog_entry_max_argc, config.slowlog_entry_max_string_len)
        call = SlowCall(self._next_id, now_ms // 1000, duration_us, shown, client.address, client.name, len(argv))
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
