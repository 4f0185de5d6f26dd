"""df.write and df.writeStream, mode=settle: each row settles a pending entry of a consumer group.

The columns are `_stream`, `_id` and `_outcome`: `ack` acknowledges it; `fail`, `fatal` and `silent` release it (XNACK);
`retry:<n>` releases it with its delivery count set to n.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ..connection.client import Argument, Connection, ReplyError
from ..errors import PipelineError
from ..options.kinds import SettleOptions
from .encode import text
from .sink import Written

COLUMNS = ("_stream", "_id", "_outcome")
RELEASES = {b"fail": "FAIL", b"fatal": "FATAL", b"silent": "SILENT"}


def request(group: str, stream: bytes, outcome: bytes, ids: list[bytes]) -> list[Argument]:
    """Returns the command for entries with the same outcome. Raises PipelineError for an unknown outcome."""
    if outcome == b"ack":
        return ["XACK", stream, group, *ids]
    if outcome in RELEASES:
        return ["XNACK", stream, group, RELEASES[outcome], "IDS", len(ids), *ids]
    word, _, count = outcome.partition(b":")
    if word == b"retry" and count.isdigit():
        return ["XNACK", stream, group, "FAIL", "IDS", len(ids), *ids, "RETRYCOUNT", count]
    raise PipelineError("_outcome must be ack, fail, fatal, silent or retry:<n>")


class _Settler:
    def __init__(self, options: SettleOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Settles the entries of a partition. Entries that are no longer pending do not change."""
        count = 0
        with Connection(self.options) as connection:
            for records in iterator:
                for start in range(0, len(records), self.options.pipeline):
                    self._settle(connection, records.slice(start, self.options.pipeline))
                count += len(records)
        return Written(count)

    def _settle(self, connection: Connection, records: Any) -> None:
        ids_by_outcome: dict[tuple[bytes, bytes], list[bytes]] = {}
        columns = (text(records.column(name)).to_pylist() for name in COLUMNS)
        for stream, entry_id, outcome in zip(*columns, strict=True):
            if stream is None or entry_id is None or outcome is None:
                raise PipelineError("a row has null in _stream, _id or _outcome")
            ids_by_outcome.setdefault((stream, outcome.lower()), []).append(entry_id)
        requests = [
            request(self.options.group, stream, outcome, ids) for (stream, outcome), ids in ids_by_outcome.items()
        ]
        for reply in connection.call_all(requests):
            if isinstance(reply, ReplyError):
                raise connection.refused(f"group {self.options.group}", str(reply))


class SettleWriter(_Settler, DataSourceArrowWriter):
    """The writer of `df.write`."""


class StreamSettleWriter(_Settler, DataSourceStreamArrowWriter):
    """The writer of `df.writeStream`."""
