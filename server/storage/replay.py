"""Loading: records run through the handlers of requests, by an unlisted client; keys of RDB files are stored."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ...commands.clients.client import Client
from ...commands.core.lookup import find_row
from ...commands.core.table import DECLARED, RunHandler
from ...commands.execution.calls import broken
from ...commands.execution.context import Context
from ...commands.permissions.users import open_user
from ...persistence.errors import LoadError, RdbError, UnknownRecord
from ...persistence.rdb.file import FileKey, FileReader
from ...store.errors import ReplyError
from ...store.stream import Stream

logger = logging.getLogger(__name__)


class Replay:
    """One load, which runs records and stores keys. Call `resume` after others have used the context."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._client = Client(0, db=context.store.databases[0])
        self._client.user = open_user(b"")
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
                raise UnknownRecord(argv[0].decode("utf-8", "replace")) from error
            raise LoadError(f"Bad record in the append only file: {error}") from error
        assert row.handler is not None
        try:
            reply = row.handler(self._context, argv)
        except ReplyError as error:
            reply = error
        except Exception as error:
            broken(self._context, row, argv)
            raise LoadError(f"A record of the append only file cannot be run: internal error in {row.name}") from error
        if isinstance(reply, ReplyError):
            logger.critical(
                "== CRITICAL == This server is sending an error to its AOF-loading-client: '%s' after processing the "
                "command '%s'",
                reply.wire_text.decode("utf-8", "backslashreplace"),
                row.name.lower(),
            )

    def take_run(self, run: list[bytes]) -> bool:
        """Apply a run of records. Returns False, and changes nothing, if they must be run one by one."""
        return self._run_handlers[run[0]](self._context, run)

    def open_rdb(self, blocks: Iterable[bytes], *, drops_expired: bool = False) -> FileReader:
        """A reader of an RDB file, with the limits in force. Keys of an AOF base are kept even if they have expired."""
        context = self._context
        config = context.server.config
        return FileReader(
            blocks,
            context.stream_limits,
            now_ms=context.now_ms,
            drops_expired=drops_expired,
            skips_foreign=config.rdb_skip_foreign_types,
            checks_checksum=config.rdbchecksum,
            databases_count=len(context.store.databases),
        )

    def put(self, key: FileKey) -> None:
        """Store one key of an RDB file. Raises RdbError if the key exists."""
        db = self._context.store.databases[key.db_index]
        if key.key in db.keys:
            text = key.key.decode("utf-8", "backslashreplace")
            raise RdbError(f"RDB has duplicated key '{text}' in DB {key.db_index}")
        db.put(key.key, key.value)
        if key.expires_ms is not None:
            db.expires[key.key] = key.expires_ms


@contextmanager
def loading(context: Context) -> Iterator[Replay]:
    """During the load, nothing expires, blocks or is logged, and no client is notified of changed keys."""
    client_before, db_before = getattr(context, "client", None), context.db
    was_logging, could_block, unlogged_count = context.logging, context.may_block, context.unlogged_count
    effects_count = len(context.effects)
    databases = context.store.databases
    context.loading, context.logging = True, False
    context.refresh_listeners()
    context.store.freeze("loading")
    replay = Replay(context)
    replay.resume()
    try:
        yield replay
    finally:
        context.loading, context.logging, context.may_block = False, was_logging, could_block
        context.refresh_listeners()
        if client_before is not None:
            context.client, context.db = client_before, db_before
        context.store.thaw("loading")
        for db in databases:
            for value in db.keys.values():
                if type(value) is Stream:
                    for group in value.groups.values():
                        group.forget_counts()
                        group.pending.put_in_order()
        context.store.expired_keys.clear()
        # The transaction that contains the command keeps the effects it had before.
        del context.effects[effects_count:]
        context.unlogged_count = unlogged_count
