"""What MULTI and WATCH have begun for a client."""

from __future__ import annotations

from typing import Final

from ...persistence.grammar.streams import words_of
from ...store.observed import Watcher
from ..core.request_size import request_size
from ..core.table import Handler, Row

# Bytes of a watched key in the tables of client and database, without the key itself, as measured over a hundred
# thousand keys.
WATCHED_KEY_SIZE: Final = 410

# (row, its handler, request) of a command that waits for EXEC.
Queued = tuple[Row, Handler, "list[bytes]"]


class Transaction(Watcher):
    """MULTI's queue and the result of WATCH. If a watched key has changed, it is dirty, and EXEC returns null."""

    __slots__ = (
        "_measured_count",
        "_queue_memory_size",
        "_queue_size",
        "aborted",
        "is_ordinary",
        "queue",
        "watched",
        "watched_size",
    )

    def __init__(self) -> None:
        super().__init__()
        # (database index, key) of every WATCH, in order.
        self.watched: dict[tuple[int, bytes], None] = {}
        # Bytes of the watched keys in the tables of client and database.
        self.watched_size = 0
        self.end()

    def end(self) -> None:
        """Forget the queue. The watched keys must have been forgotten before."""
        # Queued commands; None outside MULTI.
        self.queue: list[Queued] | None = None
        # Whether all of them are ordinary, so that EXEC changes nothing about the client.
        self.is_ordinary = True
        # Whether a command was refused when it was queued: EXEC then returns EXECABORT.
        self.aborted = False
        # The first commands of the queue are measured: so many, with so many bytes in their arguments and in memory.
        self._measured_count = self._queue_size = self._queue_memory_size = 0

    @property
    def queue_size(self) -> int:
        """Bytes of the queued arguments alone: `multi-mem` of CLIENT LIST, as in Redis."""
        self._measure()
        return self._queue_size

    @property
    def queue_memory_size(self) -> int:
        """Bytes that the queue takes; limits count these."""
        self._measure()
        return self._queue_memory_size

    def _measure(self) -> None:
        """Measure what was queued since the last call: queueing itself is to cost nothing else."""
        queue = self.queue
        if queue is None:
            return
        for _, _, argv in queue[self._measured_count :]:
            words = words_of(argv)
            self._queue_size += sum(map(len, words))
            self._queue_memory_size += request_size(words)
        self._measured_count = len(queue)

    def has_flag(self, flag_bit: int) -> bool:
        """Whether a queued command has this flag."""
        return any(row.flag_bits & flag_bit for row, _, _ in self.queue or ())
