"""Commands for operators: SHUTDOWN, LASTSAVE, BGREWRITEAOF, SAVE, BGSAVE, MONITOR."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.replies import OK, Reply, SimpleString
from ...store.errors import GenericError, syntax_error
from ..clients.blocking import Blocked
from ..core.table import Argument, Flag, Trait, command
from .save_failed import SaveFailed

if TYPE_CHECKING:
    from ..execution.context import Context


@command(
    "SHUTDOWN",
    arity=-1,
    flags=Flag.ADMIN | Flag.NOSCRIPT | Flag.LOADING | Flag.STALE | Flag.NO_MULTI | Flag.ALLOW_BUSY,
    group="server",
    since="1.0.0",
    summary="Saves the dataset and ends the server.",
    complexity="O(N) when a snapshot is written, where N is the number of keys and entries.",
    arguments=(
        Argument(
            "save-selector",
            "oneof",
            optional=True,
            arguments=(
                Argument("nosave", "pure-token", token="NOSAVE"),
                Argument("save", "pure-token", token="SAVE"),
            ),
        ),
        Argument("now", "pure-token", token="NOW", optional=True, since="7.0.0"),
        Argument("force", "pure-token", token="FORCE", optional=True, since="7.0.0"),
        Argument("abort", "pure-token", token="ABORT", optional=True, since="7.0.0"),
    ),
    history=(("7.0.0", "`NOW`, `FORCE` and `ABORT`."),),
)
def shutdown(context: Context, argv: list[bytes]) -> Reply:
    """SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]

    Waits for replicas that lag, at most for `shutdown-timeout`, but not with NOW; writes of clients are held meanwhile.
    Returns no reply if it succeeds; all connections are closed. Raises GenericError.
    """
    words = {word.upper() for word in argv[1:]}
    if words - {b"SAVE", b"NOSAVE", b"NOW", b"FORCE", b"ABORT"} or {b"SAVE", b"NOSAVE"} <= words:
        raise syntax_error()
    if b"ABORT" in words:
        if len(words) > 1:
            raise syntax_error()
        context.server.storage.abort_shutdown()
        return OK
    save = True if b"SAVE" in words else False if b"NOSAVE" in words else None
    wait = context.server.storage.shutdown(save=save, force=b"FORCE" in words, is_now=b"NOW" in words)
    return () if wait is None else Blocked([], argv, None, progress=wait, can_be_unblocked=False)


@command(
    "LASTSAVE",
    arity=1,
    flags=Flag.LOADING | Flag.STALE | Flag.FAST,
    categories=("admin", "dangerous"),
    group="server",
    since="1.0.0",
    summary="Returns when the dataset was last saved.",
    complexity="O(1)",
    tips=("nondeterministic_output",),
    traits=Trait.ORDINARY,
)
def last_save(context: Context, argv: list[bytes]) -> Reply:
    """LASTSAVE. Returns the time of the last save in Unix seconds."""
    return context.server.storage.last_save_ms // 1000


@command(
    "BGREWRITEAOF",
    arity=1,
    flags=Flag.ADMIN | Flag.NOSCRIPT | Flag.NO_ASYNC_LOADING,
    group="server",
    since="1.0.0",
    summary="Rewrites the append-only file in the background.",
    complexity="O(1)",
)
def bgrewriteaof(context: Context, argv: list[bytes]) -> Reply:
    """BGREWRITEAOF. Returns a status. Raises GenericError. Source: redis.io/commands/bgrewriteaof, Redis 1.0."""
    if context.server.storage.rewrite_log(may_start=context.may_block):
        return SimpleString(b"Background append only file rewriting started")
    return SimpleString(b"Background append only file rewriting scheduled")


@command(
    "SAVE",
    arity=1,
    flags=Flag.ADMIN | Flag.NOSCRIPT | Flag.NO_ASYNC_LOADING | Flag.NO_MULTI,
    group="server",
    since="1.0.0",
    summary="Writes the dataset to dump.rdb; no client is served meanwhile.",
    complexity="O(N) where N is the total number of keys and entries.",
)
def save(context: Context, argv: list[bytes]) -> Reply:
    """SAVE. Returns OK. Raises GenericError, and SaveFailed if the file cannot be written.

    Source: redis.io/commands/save, Redis 1.0.
    """
    return OK if context.server.storage.save() else SaveFailed()


@command(
    "BGSAVE",
    arity=-1,
    flags=Flag.ADMIN | Flag.NOSCRIPT | Flag.NO_ASYNC_LOADING,
    group="server",
    since="1.0.0",
    summary="Writes the dataset to dump.rdb in the background.",
    complexity="O(1)",
    arguments=(Argument("schedule", "pure-token", token="SCHEDULE", optional=True, since="3.2.2"),),
    history=(("3.2.2", "Added the `SCHEDULE` option."),),
)
def bgsave(context: Context, argv: list[bytes]) -> Reply:
    """BGSAVE [SCHEDULE]. Returns a status. Raises GenericError. Source: redis.io/commands/bgsave, Redis 1.0."""
    may_wait = len(argv) > 1
    if len(argv) > 2 or (may_wait and argv[1].upper() != b"SCHEDULE"):
        raise syntax_error()
    if context.server.storage.save_in_background(may_wait=may_wait, may_start=context.may_block):
        return SimpleString(b"Background saving started")
    return SimpleString(b"Background saving scheduled")


@command(
    "MONITOR",
    arity=1,
    flags=Flag.ADMIN | Flag.NOSCRIPT | Flag.LOADING | Flag.STALE,
    group="server",
    since="1.0.0",
    summary="Shows every command that the server runs, until RESET or the end of the connection.",
    complexity="O(1) for each command that is run.",
    differs="A monitor is disconnected when its user may no longer run the command.",
)
def monitor(context: Context, argv: list[bytes]) -> Reply:
    """MONITOR

    Shows each command in a line: Unix time, database, client address, words. Returns OK; no reply if repeated.
    Raises GenericError inside EXEC.
    """
    client = context.client
    if not context.may_block:
        raise GenericError(b"MONITOR isn't allowed for DENY BLOCKING client")
    if client.is_monitor or client.is_replica:
        return ()
    context.monitors.add(client)
    return OK
