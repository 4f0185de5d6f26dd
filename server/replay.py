"""Loading: records run through the same handlers as requests, by a client nobody sees."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import hiredis

from ..commands.client import Client
from ..commands.context import Context
from ..commands.lookup import find_row
from ..commands.table import TABLE
from ..persistence.aof import AppendOnlyLog
from ..persistence.errors import LoadError, UnknownRecord
from ..persistence.loading import LoadResult
from ..store.errors import ReplyError

logger = logging.getLogger(__name__)


@contextmanager
def loading(context: Context) -> Iterator[None]:
    """Nothing expires, blocks or is logged meanwhile, and nobody is told of the keys that change."""
    client_before, db_before = getattr(context, "client", None), context.db
    was_logging, could_block = context.logging, context.may_block
    databases = context.store.databases
    was_frozen = databases[0].frozen
    context.loading, context.logging, context.may_block = True, False, False
    context.client = Client(0, db=databases[0])
    context.db = databases[0]
    for db in databases:
        db.frozen = True
    try:
        yield
    finally:
        context.loading, context.logging, context.may_block = False, was_logging, could_block
        if client_before is not None:
            context.client, context.db = client_before, db_before
        for db in databases:
            db.frozen = was_frozen
            db.expired_keys.clear()
        context.effects.clear()


def replay(log: AppendOnlyLog, context: Context) -> LoadResult:
    """Fill the store from the log. Raises LogError, OSError."""
    with loading(context):
        return log.load(lambda argv: apply(context, argv))


def replay_records(records: Iterable[tuple[int, bytes]], context: Context) -> None:
    """Fill the store from (database index, record) pairs. Raises LogError."""
    parser = hiredis.Reader()
    with loading(context):
        for db_index, record in records:
            context.db = context.client.db = context.store.databases[db_index]
            parser.feed(record)
            while argv := parser.gets():
                apply(context, argv)


def apply(context: Context, argv: list[bytes]) -> None:
    """Run one record. An error reply is logged and passed over, as in Redis.

    Raises UnknownRecord for a command that does not exist, LoadError for one with too few or too many words.
    """
    try:
        row = find_row(argv)
    except ReplyError as error:
        if argv[0].upper() not in TABLE:
            raise UnknownRecord(argv[0].decode("utf-8", "replace")) from error
        raise LoadError(f"Bad record in the append only file: {error}") from error
    assert row.handler is not None
    try:
        reply = row.handler(context, argv)
    except ReplyError as error:
        reply = error
    if isinstance(reply, ReplyError):
        logger.critical("error %r while loading a %s record of the append only file", str(reply), row.name)
