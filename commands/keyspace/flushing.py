"""Commands on whole databases: FLUSHDB, FLUSHALL, SWAPDB."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import OK, Reply
from ...store.errors import GenericError, syntax_error
from ..core.numbers import integer_between
from ..core.table import Argument, Flag, command
from ..execution.context import Context
from ..execution.databases import INT32_MAX, INT32_MIN

_FLUSH_ARGUMENTS: Final = (
    Argument(
        "flush-type",
        "oneof",
        optional=True,
        arguments=(
            Argument("async", "pure-token", token="ASYNC", since="4.0.0"),
            Argument("sync", "pure-token", token="SYNC", since="6.2.0"),
        ),
    ),
)
_FLUSH_HISTORY: Final = (("4.0.0", "Added `ASYNC`."), ("6.2.0", "Added `SYNC`."))


def _require_flush_word(argv: list[bytes]) -> None:
    if len(argv) > 2 or (len(argv) == 2 and argv[1].upper() not in (b"ASYNC", b"SYNC")):
        raise syntax_error()


def _invalidate(context: Context, argv: list[bytes]) -> None:
    """Sends invalidation messages of a flush to tracking clients, in the order of Redis.

    Without ASYNC, Redis replies only when a thread has freed the memory. So the client receives its own messages before
    the reply, and other clients are served before it continues.
    """
    context.tracking.note_flush()
    if context.may_block and (len(argv) == 1 or argv[1].upper() == b"SYNC"):
        context.tracking.send_before_reply()
        context.yields_turn = True


@command(
    "FLUSHDB",
    arity=-1,
    flags=Flag.WRITE,
    categories=("keyspace", "dangerous"),
    group="server",
    since="1.0.0",
    summary="Removes all keys of the database.",
    complexity="O(N) in the number of keys.",
    arguments=_FLUSH_ARGUMENTS,
    history=_FLUSH_HISTORY,
    tips=("request_policy:all_shards", "response_policy:all_succeeded"),
)
def flushdb(context: Context, argv: list[bytes]) -> Reply:
    """FLUSHDB [ASYNC | SYNC]. Returns OK. Raises GenericError. Source: Redis 6.2."""
    _require_flush_word(argv)
    keys_count = context.db.clear()
    _invalidate(context, argv)
    context.log_words(argv, keys_count)
    return OK


@command(
    "FLUSHALL",
    arity=-1,
    flags=Flag.WRITE,
    categories=("keyspace", "dangerous"),
    group="server",
    since="1.0.0",
    summary="Removes all keys of all databases.",
    complexity="O(N) in the number of keys.",
    arguments=_FLUSH_ARGUMENTS,
    history=_FLUSH_HISTORY,
    tips=("request_policy:all_shards", "response_policy:all_succeeded"),
)
def flushall(context: Context, argv: list[bytes]) -> Reply:
    """FLUSHALL [ASYNC | SYNC]. With save points, dump.rdb is written too. Returns OK. Raises GenericError.

    Source: Redis 6.2.
    """
    _require_flush_word(argv)
    keys_count = sum(db.clear() for db in context.store.databases)
    _invalidate(context, argv)
    context.log_words(argv, keys_count)
    if not context.loading:
        context.server.storage.save_flushed()
    return OK


@command(
    "SWAPDB",
    arity=3,
    flags=Flag.WRITE | Flag.FAST,
    categories=("keyspace", "dangerous"),
    group="server",
    since="4.0.0",
    summary="Swaps two databases.",
    complexity="O(N) in the number of keys watched or waited for.",
    arguments=(Argument("index1", "integer"), Argument("index2", "integer")),
)
def swapdb(context: Context, argv: list[bytes]) -> Reply:
    """SWAPDB index1 index2. Clients of both see the swapped keys at once.

    Returns OK. Raises GenericError. Source: Redis 4.0.
    """
    first = integer_between(argv[1], INT32_MIN, INT32_MAX, b"invalid first DB index")
    second = integer_between(argv[2], INT32_MIN, INT32_MAX, b"invalid second DB index")
    databases = context.store.databases
    if not (0 <= first < len(databases) and 0 <= second < len(databases)):
        raise GenericError(b"DB index is out of range")
    databases[first].swap_with(databases[second], context.now_ms)
    context.visits.swap(first, second)
    context.log(*argv)
    return OK
