"""SLOWLOG: the calls that took long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol.replies import OK, Reply, status_lines
from ..core.lookup import subcommand_syntax_error
from ..core.numbers import INT64_MAX, integer_between
from ..core.table import Argument, Flag, Trait, command, container

if TYPE_CHECKING:
    from ..execution.context import Context

ADMIN: Final = Flag.ADMIN | Flag.LOADING | Flag.STALE
COUNT_DEFAULT: Final = 10

HELP: Final = status_lines(
    (
        b"SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        b"GET [<count>]",
        b"    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
        b"    Entries are made of:",
        b"    id, timestamp, time in microseconds, arguments array, client IP and port,",
        b"    client name",
        b"LEN",
        b"    Return the length of the slowlog.",
        b"RESET",
        b"    Reset the slowlog.",
        b"HELP",
        b"    Print this help.",
    )
)

container(
    "SLOWLOG",
    group="server",
    since="2.2.12",
    summary="Container of the commands about slow calls.",
    traits=Trait.ORDINARY,
)


@command(
    "SLOWLOG|GET",
    arity=-2,
    flags=ADMIN,
    group="server",
    since="2.2.12",
    summary="Lists the latest slow calls.",
    complexity="O(N) where N is the number of entries returned",
    arguments=(Argument("count", "integer", optional=True),),
    history=(
        ("4.0.0", "The client's address and name."),
        ("8.10.0", "The number of arguments there were."),
    ),
    tips=("request_policy:all_nodes", "nondeterministic_output"),
)
def slowlog_get(context: Context, argv: list[bytes]) -> Reply:
    """SLOWLOG GET [count]

    The latest `count` entries, 10 unless given, all of them for -1; newest first. Each is an array: number, Unix time
    in seconds, duration in microseconds, arguments, client address, client name, number of arguments.
    Source: redis.io/commands/slowlog-get, Redis 8.10.
    """
    if len(argv) > 3:
        raise subcommand_syntax_error(b"SLOWLOG", argv[1])
    count = COUNT_DEFAULT
    if len(argv) == 3:
        count = integer_between(argv[2], -1, INT64_MAX, b"count should be greater than or equal to -1")
    log = context.slow_log
    entries: list[Reply] = []
    for call in log.latest(len(log) if count == -1 else count):
        words, words_count = call.shown()
        entries.append([call.id, call.time_s, call.duration_us, words, call.address, call.name, words_count])
    return entries


@command(
    "SLOWLOG|LEN",
    arity=2,
    flags=ADMIN,
    group="server",
    since="2.2.12",
    summary="Counts the entries of the slow log.",
    complexity="O(1)",
    tips=("request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"),
)
def slowlog_len(context: Context, argv: list[bytes]) -> Reply:
    """SLOWLOG LEN"""
    return len(context.slow_log)


@command(
    "SLOWLOG|RESET",
    arity=2,
    flags=ADMIN,
    group="server",
    since="2.2.12",
    summary="Empties the slow log.",
    complexity="O(N) where N is the number of entries in the slowlog",
    tips=("request_policy:all_nodes", "response_policy:all_succeeded"),
)
def slowlog_reset(context: Context, argv: list[bytes]) -> Reply:
    """SLOWLOG RESET

    Later entries continue the numbers.
    """
    context.slow_log.clear()
    return OK


@command(
    "SLOWLOG|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    group="server",
    since="6.2.0",
    summary="Lists the subcommands of SLOWLOG.",
    complexity="O(1)",
)
def slowlog_help(context: Context, argv: list[bytes]) -> Reply:
    """SLOWLOG HELP"""
    return HELP
