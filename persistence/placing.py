"""The place of a dataset in a replication stream, and the line by which a log names it.

    #HR repl <replid> <offset> <database>\\r\\n

The line says: the records before it, from the base on, are the dataset that every server has which has applied this
many bytes of this history. Redis and its tools skip the line, as they skip every annotation. A line with a record after
it says nothing about the end of the log. So it does not matter how the end was lost, or by whom the log was continued.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

PLACE_PREFIX: Final = b"#HR repl "
_PLACE_LINE: Final = re.compile(re.escape(PLACE_PREFIX) + rb"([0-9a-f]{40}) (\d{1,18}) (\d{1,9})\r\n")


class StreamPlace(NamedTuple):
    """The place of a dataset in a replication stream: the database of the next record, the ID and the offset."""

    db_index: int
    replid: str
    offset: int


def place_line(place: StreamPlace) -> bytes:
    """The line of a place."""
    return b"%b%b %d %d\r\n" % (PLACE_PREFIX, place.replid.encode(), place.offset, place.db_index)


def read_place(line: bytes) -> StreamPlace | None:
    """The place that a line names; None if it names none."""
    match = _PLACE_LINE.fullmatch(line)
    return None if match is None else StreamPlace(int(match[3]), match[1].decode(), int(match[2]))
