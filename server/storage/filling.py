"""Stores the keys of RDB files in databases."""

from __future__ import annotations

from ...commands.execution.context import Context
from ...commands.policies.lines import apply_line_in, warn_of_unknown
from ...persistence.errors import RdbError, UnknownPolicyLine
from ...persistence.rdb.file import FileKey, FileKeys, FileLibrary, FilePolicy
from ...store.database import Database
from ...store.errors import ReplyError


class Filling:
    """Takes the keys of a file: a `persistence.rdb.file.KeysTarget`. With `is_of_primary`, policy lines that are not
    known are left out; a start is stopped by them."""

    def __init__(self, databases: list[Database], context: Context, *, is_of_primary: bool = False) -> None:
        self._databases = databases
        self._context = context
        self._is_of_primary = is_of_primary
        # Whether a library of the file takes the place of a present one; else that is an error.
        self.replaces_libraries = False

    def put(self, key: FileKey) -> None:
        """Store one key. Raises RdbError if it exists."""
        db = self._databases[key.db_index]
        if key.key in db.keys:
            raise _duplicated(key.key, key.db_index)
        db.put(key.key, key.value)
        if key.expires_ms is not None:
            db.expires[key.key] = key.expires_ms
        if key.use is not None and db.uses is not None:
            db.uses.load(key.key, key.value, key.use, self._context.now_ms)

    def put_many(self, part: FileKeys) -> None:
        """Store keys with strings or short streams. Raises RdbError if one exists."""
        double = self._databases[part.db_index].add_many(part.values)
        if double is not None:
            raise _duplicated(double, part.db_index)

    def put_policy(self, policy: FilePolicy) -> None:
        """Apply a policy line. Raises UnknownPolicyLine, RdbError if its words make no sense."""
        try:
            apply_line_in(self._context, self._databases[policy.db_index], policy.words)
        except UnknownPolicyLine as unknown:
            if not self._is_of_primary:
                raise
            warn_of_unknown(unknown)
        except ReplyError as error:
            raise RdbError(f"A policy line cannot be applied: {error}") from error

    def put_library(self, library: FileLibrary) -> None:
        """Load a library of functions. Raises RdbError."""
        try:
            self._context.libraries.load(library.code, replace=self.replaces_libraries)
        except ReplyError as error:
            raise RdbError(f"Failed creating the library: {error}") from error


def _duplicated(key: bytes, db_index: int) -> RdbError:
    text = key.decode("utf-8", "backslashreplace")
    return RdbError(f"RDB has duplicated key '{text}' in DB {db_index}")
