"""What stands for the sorted sets that a load leaves out, because a command that Headrace does not have changed them.

If nothing did, the next ZADD would begin a new sorted set with other members than Redis has. So each such key has an
empty stream until the load ends. Records delete it, rename it, copy it, give it an expiry time or replace it as in
Redis. Those that would read or change the sorted set are refused.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ...store.database import Database
from ...store.group import Group
from ...store.ids import ID_MIN
from ...store.stream import Stream
from ...store.value import Value


class Placeholders:
    """The placeholders of one load. A group with a random name marks each of them, so copies are marked too."""

    def __init__(self) -> None:
        self._mark = os.urandom(16)

    def put(self, db: Database, key: bytes, stream: Stream) -> None:
        """Store an empty stream as a placeholder. The expiry time of the key stays."""
        stream.add_group(Group(self._mark, ID_MIN, 0))
        db.put(key, stream, keep_expiry=True)

    def is_one(self, value: Value | None) -> bool:
        """Whether a value is a placeholder."""
        return isinstance(value, Stream) and self._mark in value.groups

    def remove_from(self, databases: Sequence[Database]) -> None:
        """Remove all placeholders, at the end of the load."""
        for db in databases:
            for key in [key for key, stream in db.streams.items() if self._mark in stream.groups]:
                stream = db.streams[key]
                stream.drop_group(self._mark)
                # GEOSEARCHSTORE may have deleted the key, and what was then written to it is a stream as in Redis.
                if not (stream.entries_added or stream.groups):
                    db.remove(key)
