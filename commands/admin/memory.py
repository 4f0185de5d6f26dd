"""MEMORY: memory of keys and of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol.replies import OK, Reply, Verbatim, status_lines
from ...store.errors import syntax_error
from ..core.numbers import integer
from ..core.table import Argument, Flag, KeySpec, Trait, command, container

if TYPE_CHECKING:
    from ..execution.context import Context

TIPS: Final = ("nondeterministic_output", "request_policy:all_shards", "response_policy:special")

HELP: Final = status_lines(
    (
        b"MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        b"DOCTOR",
        b"    Return memory problems reports.",
        b"MALLOC-STATS",
        b"    Return internal statistics report from the memory allocator.",
        b"PURGE",
        b"    Attempt to purge dirty pages for reclamation by the allocator.",
        b"STATS",
        b"    Return information about the memory usage of the server.",
        b"USAGE <key> [SAMPLES <count>]",
        b"    Return memory in bytes used by <key> and its value. Nested values are",
        b"    sampled up to <count> times (default: 5, 0 means sample all).",
        b"HELP",
        b"    Print this help.",
    )
)

container("MEMORY", group="server", since="4.0.0", summary="Commands about memory.", traits=Trait.KEEPS_USE_TIMES)


@command(
    "MEMORY|USAGE",
    arity=-3,
    flags=Flag.READONLY,
    keys=(KeySpec(2, 2, 1, ("RO",)),),
    categories=("read",),
    group="server",
    since="4.0.0",
    summary="Returns the size of a key in memory.",
    complexity="O(N) where N is the number of samples.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("count", "integer", token="SAMPLES", optional=True),
    ),
    differs="Sizes are those of Headrace, always of the whole value; names in groups and producers are sampled. "
    "A string of 5 bytes with a name of 5 bytes has 96 bytes, where Redis has 40.",
)
def memory_usage(context: Context, argv: list[bytes]) -> Reply:
    """MEMORY USAGE key [SAMPLES count]

    Returns the bytes of the key, its value and its expiry time, within a tenth; null if the key is missing. As in
    Redis, the tables that find keys are not included: MEMORY STATS has them. An expired key has a size until it is
    removed. Raises GenericError. Source: redis.io/commands/memory-usage, Redis 4.0.
    """
    for index in range(3, len(argv), 2):
        if argv[index].upper() != b"SAMPLES" or index + 1 == len(argv):
            raise syntax_error()
        if integer(argv[index + 1]) < 0:
            raise syntax_error()
    key = argv[2]
    return context.db.key_size(key) if key in context.db.keys else None


@command(
    "MEMORY|STATS",
    arity=2,
    group="server",
    since="4.0.0",
    summary="Describes how memory is used.",
    complexity="O(1)",
    tips=TIPS,
    traits=Trait.KEEPS_CHECKS,
)
def memory_stats(context: Context, argv: list[bytes]) -> Reply:
    """MEMORY STATS. Returns a map from names to bytes, counts, ratios (1 is equal) and percentages."""
    return context.server.reports.memory_stats()


@command(
    "MEMORY|DOCTOR",
    arity=2,
    group="server",
    since="4.0.0",
    summary="Reports problems of memory use.",
    complexity="O(1)",
    tips=TIPS,
    differs="The texts are those of Headrace.",
    traits=Trait.ORDINARY,
)
def memory_doctor(context: Context, argv: list[bytes]) -> Reply:
    """MEMORY DOCTOR. Returns a text about problems of memory use."""
    return Verbatim(context.server.reports.memory_doctor().encode())


@command(
    "MEMORY|MALLOC-STATS",
    arity=2,
    group="server",
    since="4.0.0",
    summary="Returns the allocator's statistics, if it has any.",
    complexity="Depends on how much memory is allocated, could be slow",
    tips=TIPS,
    traits=Trait.ORDINARY,
)
def memory_malloc_stats(context: Context, argv: list[bytes]) -> Reply:
    """MEMORY MALLOC-STATS. Returns a text: the allocators of Python and C have no statistics."""
    return b"Stats not supported for the current allocator"


@command(
    "MEMORY|PURGE",
    arity=2,
    group="server",
    since="4.0.0",
    summary="Returns free memory to the system.",
    complexity="Depends on how much memory is allocated, could be slow",
    tips=("request_policy:all_shards", "response_policy:all_succeeded"),
    traits=Trait.ORDINARY,
)
def memory_purge(context: Context, argv: list[bytes]) -> Reply:
    """MEMORY PURGE. Drops unpacked copies of data and returns free memory to the system. Returns OK."""
    context.server.reports.purge_memory()
    return OK


@command(
    "MEMORY|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    group="server",
    since="4.0.0",
    summary="Lists the subcommands of MEMORY.",
    complexity="O(1)",
    traits=Trait.ORDINARY,
)
def memory_help(context: Context, argv: list[bytes]) -> Reply:
    """MEMORY HELP. Returns lines of text."""
    return HELP
