"""Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...persistence.grammar.streams import words_of
from ...protocol.encoder import ENCODERS
from ...protocol.replies import NULL_ARRAY, OK, Pushed, Reply
from ...store.errors import GenericError
from ..clients.client import ReplyMode
from ..clients.transaction import WATCHED_KEY_SIZE, Queued, Transaction
from ..core.table import Argument, Flag, Handler, KeySpec, Row, Trait, command
from ..execution.calls import call
from ..execution.enforcement import refusal_at_exec
from ..execution.transactions import ExecAborted, discard, unwatch_all
from ..observing.hot_keys import RunningExec

if TYPE_CHECKING:
    from ..execution.context import Context

REPLY_OFF: Final = ReplyMode.OFF
TRANSACTION: Final = ("transaction",)
QUEUE_FLAGS: Final = Flag.NOSCRIPT | Flag.LOADING | Flag.STALE | Flag.FAST | Flag.ALLOW_BUSY


@command(
    "MULTI",
    arity=1,
    flags=QUEUE_FLAGS,
    categories=TRANSACTION,
    group="transactions",
    since="1.2.0",
    summary="Starts a transaction.",
    complexity="O(1)",
    traits=Trait.ORDINARY | Trait.NOT_QUEUED,
)
def multi(context: Context, argv: list[bytes]) -> Reply:
    """MULTI

    The commands that follow are queued until EXEC. Raises GenericError if already in one, which does not abort it.
    """
    transaction = context.client.transaction
    if transaction.queue is not None:
        raise GenericError(b"MULTI calls can not be nested")
    transaction.queue = []
    return OK


@command(
    "EXEC",
    arity=1,
    flags=Flag.NOSCRIPT | Flag.LOADING | Flag.STALE | Flag.SKIP_SLOWLOG,
    categories=TRANSACTION,
    group="transactions",
    since="1.2.0",
    summary="Runs the queued commands of a transaction.",
    complexity="Depends on commands in the transaction",
    traits=Trait.ORDINARY | Trait.NOT_QUEUED | Trait.RUNS_QUEUE,
)
def execute(context: Context, argv: list[bytes]) -> Reply:
    """EXEC

    Returns the replies of the queued commands, including errors; the null array if a watched key changed or expired.
    Queued commands do not block. Raises ExecAborted if a command was refused when it was queued, even if a watched key
    changed.
    """
    client = context.client
    transaction = client.transaction
    queue = transaction.queue
    if queue is None:
        raise GenericError(b"EXEC without MULTI")
    is_dirty = transaction.dirty or _watched_key_has_expired(context, transaction)
    was_aborted = transaction.aborted
    unwatch_all(context.store, client)
    if was_aborted or is_dirty:
        discard(context.store, client)
        if was_aborted:
            raise ExecAborted
        return NULL_ARRAY
    could_block, context.may_block = context.may_block, False
    try:
        return _run_queue(context, argv, queue)
    finally:
        context.hot_keys.running_exec = None
        context.may_block = could_block
        discard(context.store, client)


def _run_queue(context: Context, sent: list[bytes], queue: list[Queued]) -> tuple[bytes, ...]:
    """Run the queued commands; `sent` is the EXEC. Each reply is encoded at once: HELLO may change the protocol, CLIENT
    REPLY OFF may end the replies.

    Keys that a command found expired are logged before its own effects, as outside of a transaction.
    """
    pieces = [b"*%d\r\n" % len(queue)]
    effects, hot_keys = context.effects, context.hot_keys
    for row, handler, argv in queue:
        if hot_keys.is_active and hot_keys.running_exec is None:
            hot_keys.running_exec = RunningExec(sent, pieces)
        effects_before = len(effects)
        reply = _run_one(context, row, handler, argv)
        if context.store.expired_keys:
            effects[effects_before:effects_before] = context.take_expired()
        if context.client.reply_mode is not REPLY_OFF or type(reply) is Pushed:
            ENCODERS[context.client.protocol](reply, pieces)
    return tuple(pieces)


def _run_one(context: Context, row: Row, handler: Handler, argv: list[bytes]) -> Reply:
    """Run one queued command and count it like any other. An exception becomes its element of the reply."""
    if not context.client.may_run(argv):
        refusal = refusal_at_exec(context, row, words_of(argv))
        if refusal is not None:
            context.server.stats.count_error(refusal.code)
            return refusal
    context.preserve(row, argv)
    return call(context, row, handler, argv)


def _watched_key_has_expired(context: Context, transaction: Transaction) -> bool:
    """Whether a watched key has expired. That counts as a change even before the key is removed."""
    for db_index, key in transaction.watched:
        db = context.store.databases[db_index]
        if db.is_stale(key, context.now_ms) and not db.was_stale(key, transaction):
            return True
    return False


@command(
    "DISCARD",
    arity=1,
    flags=QUEUE_FLAGS,
    categories=TRANSACTION,
    group="transactions",
    since="2.0.0",
    summary="Drops a transaction.",
    complexity="O(N), when N is the number of queued commands",
    traits=Trait.ORDINARY | Trait.NOT_QUEUED,
)
def discard_transaction(context: Context, argv: list[bytes]) -> Reply:
    """DISCARD

    Forgets the queue and every watched key. Raises GenericError outside MULTI.
    """
    if context.client.transaction.queue is None:
        raise GenericError(b"DISCARD without MULTI")
    discard(context.store, context.client)
    return OK


@command(
    "WATCH",
    arity=-2,
    flags=QUEUE_FLAGS,
    keys=(KeySpec(1, -1, 1, ("RO",)),),
    categories=TRANSACTION,
    group="transactions",
    since="2.2.0",
    summary="Makes the next EXEC fail if one of the keys changes.",
    complexity="O(1) for every key.",
    arguments=(Argument("key", "key", multiple=True, key_spec_index=0),),
    traits=Trait.ORDINARY | Trait.NOT_QUEUED | Trait.KEEPS_USE_TIMES,
)
def watch(context: Context, argv: list[bytes]) -> Reply:
    """WATCH key [key ...]

    The removal of a key that has already expired is no change. Raises GenericError inside MULTI, without aborting the
    transaction.
    """
    transaction = context.client.transaction
    if transaction.queue is not None:
        raise GenericError(b"WATCH inside MULTI is not allowed")
    if transaction.dirty:
        return OK  # it would not change the result
    db = context.db
    for key in argv[1:]:
        if (db.index, key) in transaction.watched:
            continue
        db.watch(key, transaction, is_stale=db.is_stale(key, context.now_ms))
        transaction.watched[db.index, key] = None
        transaction.watched_size += WATCHED_KEY_SIZE + len(key)
    return OK


@command(
    "UNWATCH",
    arity=1,
    flags=QUEUE_FLAGS,
    categories=TRANSACTION,
    group="transactions",
    since="2.2.0",
    summary="Forgets the watched keys.",
    complexity="O(1)",
    traits=Trait.ORDINARY,
)
def unwatch(context: Context, argv: list[bytes]) -> Reply:
    """UNWATCH"""
    unwatch_all(context.store, context.client)
    return OK
