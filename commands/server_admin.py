"""Stopping the server: SHUTDOWN; and LASTSAVE, which monitoring tools ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.replies import Reply, SimpleString
from ..store.errors import GenericError, syntax_error
from .table import Argument, Flag, command

if TYPE_CHECKING:
    from .context import Context


@command(
    "SHUTDOWN",
    arity=-1,
    flags=Flag.ADMIN | Flag.NOSCRIPT | Flag.LOADING | Flag.STALE | Flag.NO_MULTI | Flag.ALLOW_BUSY,
    group="server",
    since="1.0.0",
    summary="Flushes the append-only file and ends the server.",
    complexity="O(1)",
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
    differs="No snapshot is written, whatever SAVE or NOSAVE say: the append-only file is the only persistence.",
)
def shutdown(context: Context, argv: list[bytes]) -> Reply:
    """SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]

    Answers nothing when it succeeds: every connection sees its end instead.
    """
    words = {word.upper() for word in argv[1:]}
    if words - {b"SAVE", b"NOSAVE", b"NOW", b"FORCE", b"ABORT"} or {b"SAVE", b"NOSAVE"} <= words:
        raise syntax_error()
    if b"ABORT" in words:
        if len(words) > 1:
            raise syntax_error()
        raise GenericError(b"No shutdown in progress.")
    save = True if b"SAVE" in words else False if b"NOSAVE" in words else None
    context.server.shutdown(save=save, now=b"NOW" in words, force=b"FORCE" in words)
    return ()


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
    differs="No snapshots are taken: this is the time the server started.",
)
def last_save(context: Context, argv: list[bytes]) -> Reply:
    """LASTSAVE

    Returns Unix seconds.
    """
    return int(context.server.stats.started_ms // 1000)


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
    if context.server.rewrite_log(may_start=context.may_block):
        return SimpleString(b"Background append only file rewriting started")
    return SimpleString(b"Background append only file rewriting scheduled")
