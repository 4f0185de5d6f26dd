"""MEMORY: what keys and the server take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..protocol.replies import OK, Reply, SimpleString, Verbatim
from ..store.errors import syntax_error
from .numbers import integer
from .table import Argument, Flag, KeySpec, command, container

if TYPE_CHECKING:
    from .context import Context

TIPS: Final = ("nondeterministic_output", "request_policy:all_shards", "response_policy:special")

HELP_LINES: Final = (
    b"MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    b"DOCTOR",
    b"    What is remarkable about memory, and what may be done about it, in words.",
    b"MALLOC-STATS",
    b"    What the allocator tells of itself; Python's tells nothing.",
    b"PURGE",
    b"    Let go of unpacked copies of data, and give free memory back to the system.",
    b"STATS",
    b"    How much memory is taken, and by what.",
    b"USAGE <key> [SAMPLES <count>]",
    b"    Bytes that deleting the key would free. SAMPLES is accepted; what is counted does not depend on it.",
    b"HELP",
    b"    Print this help.",
)

container("MEMORY", group="server", since="4.0.0", summary="Container of the commands about memory.")


@command(
    "MEMORY|USAGE",
    arity=-3,
    flags=Flag.READONLY,
    keys=(KeySpec(2, 2, 1, ("RO",)),),
    categories=("read",),
    group="server",
    since="4.0.0",
    summary="Tells how much memory a key takes.",
    complexity="O(N) where N is the number of samples.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("count", "integer", token="SAMPLES", optional=True),
    ),
    differs="Sizes are ours, and always of the whole value; a group's and a producer's names are sampled.",
)
def memory_usage(context: Context, argv: list[bytes]) -> Reply:
    """MEMORY USAGE key [SAMPLES count]

    Returns bytes, within a tenth of what deleting the key frees; null without key.
    Raises GenericError. Source: redis.io/commands/memory-usage, Redis 4.0.
    """
    for index in range(3, len(argv), 2):
        if argv[index].upper() != b"SAMPLES" or index + 1 == len(argv):
            raise syntax_error()
        if integer(argv[index + 1]) < 0:
            raise syntax_error()
    key = argv[2]
    return None if context.db.get(key, context.now_ms) is None else context.db.key_size(key)


@command(
    "MEMORY|STATS",
    arity=2,
    group="server",
    since="4.0.0",
    summary="Describes how memory is used.",
    complexity="O(1)",
    tips=TIPS,
)
def memory_stats(context: Context, argv: list[bytes]) -> Reply:
    """MEMORY STATS. A map from names to bytes, counts, ratios (of 1) and percentages."""
    return context.server.memory_stats()


@command(
    "MEMORY|DOCTOR",
    arity=2,
    group="server",
    since="4.0.0",
    summary="Reports what is remarkable about memory.",
    complexity="O(1)",
    tips=TIPS,
    differs="Its words are our own.",
)
def memory_doctor(context: Context, argv: list[bytes]) -> Reply:
    """MEMORY DOCTOR"""
    return Verbatim(context.server.memory_report().encode())


@command(
    "MEMORY|MALLOC-STATS",
    arity=2,
    group="server",
    since="4.0.0",
    summary="Returns the allocator's statistics, if it has any.",
    complexity="Depends on how much memory is allocated, could be slow",
    tips=TIPS,
)
def memory_malloc_stats(context: Context, argv: list[bytes]) -> Reply:
    """MEMORY MALLOC-STATS. Python's allocator, like the C library's, has none to show."""
    return b"Stats not supported for the current allocator"


@command(
    "MEMORY|PURGE",
    arity=2,
    group="server",
    since="4.0.0",
    summary="Gives free memory back to the system.",
    complexity="Depends on how much memory is allocated, could be slow",
    tips=("request_policy:all_shards", "response_policy:all_succeeded"),
)
def memory_purge(context: Context, argv: list[bytes]) -> Reply:
    """MEMORY PURGE"""
    context.server.purge_memory()
    return OK


@command(
    "MEMORY|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    group="server",
    since="4.0.0",
    summary="Lists the subcommands of MEMORY.",
    complexity="O(1)",
)
def memory_help(context: Context, argv: list[bytes]) -> Reply:
    """MEMORY HELP"""
    return [SimpleString(line) for line in HELP_LINES]
