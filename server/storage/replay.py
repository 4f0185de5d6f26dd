"""Loading: records run through the handlers of requests, by an unlisted client; keys of RDB files are stored.

If records or keys of types that Headrace does not have are left out, the others must not tell another story. A key that
was overwritten by such a value is removed, also by RENAME, COPY and RESTORE of one.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ...commands.clients.client import Client
from ...commands.core.keys import find_keys
from ...commands.core.lookup import find_row
from ...commands.core.table import DECLARED, Row, RunHandler, Trait
from ...commands.execution.calls import broken
from ...commands.execution.context import Context
from ...commands.observing.unserved import foreign_name
from ...commands.permissions.known import REDIS_CONTAINERS
from ...commands.permissions.users import open_user
from ...commands.policies.lines import apply_line
from ...persistence.errors import ForeignRecord, LoadError, UnknownRecord
from ...persistence.rdb.file import FileReader
from ...store.errors import ReplyError
from .filling import Filling

logger = logging.getLogger(__name__)


class Replay(Filling):
    """One load, which runs records and stores keys. Call `resume` after others have used the context."""

    def __init__(self, context: Context) -> None:
        Filling.__init__(self, context.store.databases, context)
        self._client = Client(0, db=context.store.databases[0])
        self._client.user = open_user(b"")
        # Records that were left out, by command: of those that Headrace does not have, and of others on keys left out.
        self.skipped: Counter[bytes] = Counter()
        # The RDB files of this load: dump.rdb, or the base of the log.
        self._rdb_readers: list[FileReader] = []
        config = context.server.config
        self._skips_records = config.aof_skip_foreign_commands
        # Whether some keys may be missing because they were left out.
        self._is_partial = config.aof_skip_foreign_commands or config.rdb_skip_foreign_types
        # Records that ended in an error.
        self.errors_count = 0
        self._run_handlers: dict[bytes, RunHandler] = dict(row.run_form for row in DECLARED.values() if row.run_form)

    def resume(self) -> None:
        """Take the context, since records of the load run next. They never block."""
        context = self._context
        context.client, context.db, context.may_block = self._client, self._client.db, False

    def pause(self) -> None:
        """Let clients use the context between two steps of the load."""
        self._context.may_block = True

    def apply(self, argv: list[bytes]) -> None:
        """Run one record. An error reply is logged, and the load continues, as in Redis.

        Raises UnknownRecord for a command that does not exist, LoadError for one with too few or too many words.
        """
        try:
            row = find_row(argv, DECLARED)
        except ReplyError as error:
            if argv[0].upper() not in DECLARED:
                self._skip(argv, error)
                return
            raise LoadError(f"Bad record in the append only file: {error}") from error
        assert row.handler is not None
        try:
            reply = row.handler(self._context, argv)
        except ReplyError as error:
            # Without its traceback, which has this frame: no garbage is collected during a load.
            reply = error.with_traceback(None)
        except Exception as fault:
            broken(self._context, row, argv)
            raise LoadError(f"A record of the append only file cannot be run: internal error in {row.name}") from fault
        if self._is_partial and self._is_of_skipped(row, argv, reply):
            self.skipped[row.name.encode()] += 1
        elif isinstance(reply, ReplyError):
            self._note_error(reply, row.name.lower())

    def _note_error(self, error: ReplyError, name: str) -> None:
        self.errors_count += 1
        logger.critical(
            "== CRITICAL == This server is sending an error to its AOF-loading-client: '%s' after processing the "
            "command '%s'",
            error.wire_text.decode("utf-8", "backslashreplace"),
            name,
        )

    def take_policy(self, words: list[bytes]) -> None:
        """Apply a policy line of a log. An error is logged as that of a record. Raises UnknownPolicyLine."""
        try:
            apply_line(self._context, words)
        except ReplyError as error:
            self._note_error(error.with_traceback(None), words[0].decode("utf-8", "backslashreplace"))

    def _skip(self, argv: list[bytes], error: ReplyError) -> None:
        """Leave out a record of a command that does not exist. Raises UnknownRecord if that is not allowed."""
        name = foreign_name(argv[0])
        text = argv[0].decode("utf-8", "replace")
        if name is None:
            raise UnknownRecord(text) from error
        if not self._skips_records:
            raise ForeignRecord(text) from error
        self.skipped[name] += 1
        db = self._client.db
        for key in written_keys(name, argv):
            db.remove(key)

    def _is_of_skipped(self, row: Row, argv: list[bytes], reply: object) -> bool:
        """Whether a record concerned a key that was left out: it read one that is missing, or restored a foreign value.

        The keys that it overwrote are then removed.
        """
        keys = find_keys(row, argv)
        overwritten = [key for key, spec in keys if "OW" in spec.access]
        is_source_missing = any("OW" not in spec.access and key not in self._client.db.keys for key, spec in keys)
        if not overwritten or not (isinstance(reply, ReplyError) or (reply == 0 and is_source_missing)):
            return isinstance(reply, ReplyError) and is_source_missing
        db = self._client.db
        if Trait.ACROSS_DATABASES in row.traits and len(argv) > 4:
            words = [word.upper() for word in argv[3:-1]]
            if b"DB" in words:
                db = self._context.store.databases[int(argv[3 + words.index(b"DB") + 1])]
        for key in overwritten:
            db.remove(key)
        return True

    def finish(self) -> None:
        """Log what was left out."""
        self._log_skipped()

    @property
    def keys_left_out(self) -> int:
        """Number of keys of other types in RDB files."""
        return sum(reader.foreign_count for reader in self._rdb_readers)

    @property
    def is_exact(self) -> bool:
        """Whether the dataset is the one that was written: nothing was left out, and no record ended in an error."""
        return not (self.skipped or self.keys_left_out or self.errors_count)

    def _log_skipped(self) -> None:
        """Log how many keys of RDB files were left out, and how many records, by command."""
        if keys_count := self.keys_left_out:
            logger.warning(
                "Keys of other types left out of the RDB file: %d. The next snapshot or rewrite of the log leaves them "
                "out of the file.",
                keys_count,
            )
        if self.skipped:
            counts = ", ".join(f"{name.decode()} {count}" for name, count in sorted(self.skipped.items()))
            logger.warning(
                "Records of the append only file were left out, because they concern types that Headrace does not "
                "have: %s. Their keys are missing, and the next rewrite of the log leaves them out of the file.",
                counts,
            )

    def take_run(self, run: list[bytes]) -> bool:
        """Apply a run of records. Returns False, and changes nothing, if they must be run one by one."""
        return self._run_handlers[run[0]](self._context, run)

    def open_rdb(self, blocks: Iterable[bytes], *, drops_expired: bool = False) -> FileReader:
        """A reader of an RDB file, with the limits in force. Keys of an AOF base are kept even if they have expired."""
        context = self._context
        config = context.server.config
        reader = FileReader(
            blocks,
            context.limits,
            now_ms=context.now_ms,
            drops_expired=drops_expired,
            skips_foreign=config.rdb_skip_foreign_types,
            checks_checksum=config.rdbchecksum,
            databases_count=len(context.store.databases),
        )
        self._rdb_readers.append(reader)
        return reader


def written_keys(name: bytes, argv: list[bytes]) -> list[bytes]:
    """The keys that a record of a foreign command writes. What they had before is lost."""
    if name.lower() in REDIS_CONTAINERS:
        return []
    return argv[1:2]


@contextmanager
def loading(context: Context) -> Iterator[Replay]:
    """During the load, nothing expires, blocks or is logged, and no client is notified of changed keys."""
    client_before, db_before = getattr(context, "client", None), context.db
    was_logging, could_block = context.logging, context.may_block
    unlogged_count, counted_apart = context.unlogged_count, context.counted_apart
    effects_count = len(context.effects)
    databases = context.store.databases
    context.loading, context.replaying, context.logging = True, True, False
    context.refresh_listeners()
    context.store.freeze()
    replay = Replay(context)
    replay.resume()
    try:
        yield replay
        replay.finish()
    finally:
        context.loading, context.replaying, context.logging, context.may_block = False, False, was_logging, could_block
        context.refresh_listeners()
        if client_before is not None:
            context.client, context.db = client_before, db_before
        context.store.thaw()
        for db in databases:
            for stream in db.streams.values():
                for group in stream.groups.values():
                    group.pending.forget_totals()
                    group.pending.put_in_order()
        context.store.expired_keys.clear()
        # The transaction that contains the command keeps the effects it had before.
        del context.effects[effects_count:]
        context.unlogged_count, context.counted_apart = unlogged_count, counted_apart
