"""Stores the keys of RDB files in databases."""

from __future__ import annotations

from ...persistence.errors import RdbError
from ...persistence.rdb.file import FileKey, FileKeys
from ...store.database import Database


class Filling:
    """Takes the keys of a file: a `persistence.rdb.file.KeysTarget`."""

    def __init__(self, databases: list[Database]) -> None:
        self._databases = databases

    def put(self, key: FileKey) -> None:
        """Store one key. Raises RdbError if it exists."""
        db = self._databases[key.db_index]
        if key.key in db.keys:
            raise _duplicated(key.key, key.db_index)
        db.put(key.key, key.value)
        if key.expires_ms is not None:
            db.expires[key.key] = key.expires_ms

    def put_many(self, part: FileKeys) -> None:
        """Store keys with strings or short streams. Raises RdbError if one exists."""
        double = self._databases[part.db_index].add_many(part.values)
        if double is not None:
            raise _duplicated(double, part.db_index)


def _duplicated(key: bytes, db_index: int) -> RdbError:
    text = key.decode("utf-8", "backslashreplace")
    return RdbError(f"RDB has duplicated key '{text}' in DB {db_index}")
