"""How a stream recognises repeated rows: `XADD key IDMP producer row ..` adds nothing if it knows the row.

A stream remembers the newest `idmp-maxsize` rows of each producer for `idmp-duration` seconds, as XCFGSET says.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .connection import Connection, ReplyError
from .errors import PipelineError, Unsupported
from .options import WriteOptions

PRODUCERS_MAX = 1000
"""Producers of a task that are told of: those with most rows."""


@dataclass
class Tally:
    """How many rows were written under each producer, beside how many of them their stream remembers.

    It counts every row, also those that the stream knew.
    """

    rows: Counter[tuple[bytes, bytes]] = field(default_factory=Counter)
    """By stream and producer."""
    remembered: dict[bytes, int] = field(default_factory=dict)
    """By stream: rows of each producer."""

    def fullest(self) -> Tally:
        """The same of the producers with most rows."""
        return Tally(Counter(dict(self.rows.most_common(PRODUCERS_MAX))), self.remembered)

    @classmethod
    def together(cls, tallies: Iterable[Tally]) -> Tally:
        """The sum."""
        total = cls()
        for tally in tallies:
            total.rows.update(tally.rows)
            total.remembered.update(tally.remembered)
        return total

    def complaints(self) -> list[str]:
        """A line for each stream that would not know all these rows again."""
        most: dict[bytes, int] = {}
        for (stream, _), count in self.rows.items():
            most[stream] = max(count, most.get(stream, 0))
        return [
            f"stream {stream.decode('utf-8', 'replace')}: {count} rows of a batch have the same producer, of which the "
            f"stream remembers {self.remembered[stream]} rows: if the batch is repeated, the earlier ones are written "
            "again. Write smaller batches, or spread the rows over producers with a column _pid"
            for stream, count in most.items()
            if count > self.remembered[stream]
        ]


def prepare_stream(connection: Connection, key: bytes, options: WriteOptions) -> int:
    """See to it that the stream remembers enough rows, long enough; says how many of each producer it does. Raises
    PipelineError.

    XCFGSET with another value forgets all rows that the stream remembers, so it is sent only while there are none.
    """
    name = key.decode("utf-8", "replace")
    known = _stream_settings(connection, key, name)
    if known is None:
        _make_stream(connection, key)
        known = _stream_settings(connection, key, name) or {}
    if b"idmp-maxsize" not in known:
        raise Unsupported(
            "this server cannot recognise rows (XADD IDMP is in Headrace and in Redis 8.6): set idempotency=none (for "
            "the job replay: --ids keep)"
        )
    size, duration = int(known[b"idmp-maxsize"]), int(known[b"idmp-duration"])
    if size >= options.idmp_max_size and duration >= options.idmp_duration:
        return size
    if known.get(b"iids-tracked"):
        raise PipelineError(
            f"stream {name} remembers {size} rows of a producer for {duration} s and is in use so: set idmpMaxSize and "
            "idmpDuration to no more, or XCFGSET it while its producers rest"
        )
    size, duration = max(size, options.idmp_max_size), max(duration, options.idmp_duration)
    connection.call("XCFGSET", key, "IDMP-DURATION", duration, "IDMP-MAXSIZE", size, doing=f"stream {name}")
    return size


def _stream_settings(connection: Connection, key: bytes, name: str) -> dict[bytes, Any] | None:
    reply = connection.call_all([("XINFO", "STREAM", key)])[0]
    if isinstance(reply, ReplyError):
        if str(reply) == "ERR no such key":
            return None
        raise connection.refused(f"stream {name}", str(reply))
    return dict(zip(reply[::2], reply[1::2], strict=True))


def _make_stream(connection: Connection, key: bytes) -> None:
    """An empty stream: a group that goes again is the only way to make one."""
    group = "headrace:maker:" + uuid.uuid4().hex
    replies = connection.call_all(
        [("XGROUP", "CREATE", key, group, "0", "MKSTREAM"), ("XGROUP", "DESTROY", key, group)]
    )
    for reply in replies:
        if isinstance(reply, ReplyError):
            raise connection.refused(f"making stream {key.decode('utf-8', 'replace')}", str(reply))
