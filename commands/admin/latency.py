"""LATENCY: what took long, by kind of event; and how long the calls of each command take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ...protocol.replies import Pairs, Reply, Verbatim, status_lines
from ...store.errors import GenericError, shown
from ..core.table import TABLE, Argument, Flag, Row, Trait, all_rows, command, container
from ..observing.latency_report import doctor, graph

if TYPE_CHECKING:
    from ..execution.context import Context

ADMIN: Final = Flag.ADMIN | Flag.NOSCRIPT | Flag.LOADING | Flag.STALE
TIPS: Final = ("nondeterministic_output", "request_policy:all_nodes", "response_policy:special")
EVENT: Final = (Argument("event"),)

HELP: Final = status_lines(
    (
        b"LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        b"DOCTOR",
        b"    Return a human readable latency analysis report.",
        b"GRAPH <event>",
        b"    Return an ASCII latency graph for the <event> class.",
        b"HISTORY <event>",
        b"    Return time-latency samples for the <event> class.",
        b"LATEST",
        b"    Return the latest latency samples for all events.",
        b"RESET [<event> ...]",
        b"    Reset latency data of one or more <event> classes.",
        b"    (default: reset all data for all event classes)",
        b"HISTOGRAM [COMMAND ...]",
        b"    Return a cumulative distribution of latencies in the format of a histogram "
        b"for the specified command names.",
        b"    If no commands are specified then all histograms are replied.",
        b"HELP",
        b"    Print this help.",
    )
)

container(
    "LATENCY",
    group="server",
    since="2.8.13",
    summary="Container of the commands about slow events.",
    traits=Trait.ORDINARY,
)


@command(
    "LATENCY|LATEST",
    arity=2,
    flags=ADMIN,
    group="server",
    since="2.8.13",
    summary="Shows the last sample of every kind of event.",
    complexity="O(1)",
    tips=TIPS,
)
def latency_latest(context: Context, argv: list[bytes]) -> Reply:
    """LATENCY LATEST

    An array for each event there was: name, Unix seconds of its last sample, that sample and the longest one in ms.
    """
    return [
        [event.encode(), history.samples[-1].time_s, history.samples[-1].duration_ms, history.longest_ms]
        for event, history in context.latency.histories.items()
    ]


@command(
    "LATENCY|HISTORY",
    arity=3,
    flags=ADMIN,
    group="server",
    since="2.8.13",
    summary="Lists the samples of an event.",
    complexity="O(1)",
    arguments=EVENT,
    tips=TIPS,
)
def latency_history(context: Context, argv: list[bytes]) -> Reply:
    """LATENCY HISTORY event

    Pairs of Unix seconds and ms, oldest first; of each second only its longest. Empty for an event there was not.
    """
    history = context.latency.histories.get(_event(argv[2]))
    return [] if history is None else [[sample.time_s, sample.duration_ms] for sample in history.samples]


@command(
    "LATENCY|GRAPH",
    arity=3,
    flags=ADMIN,
    group="server",
    since="2.8.13",
    summary="Draws the samples of an event.",
    complexity="O(1)",
    arguments=EVENT,
    tips=TIPS,
)
def latency_graph(context: Context, argv: list[bytes]) -> Reply:
    """LATENCY GRAPH event

    Raises GenericError for an event there was not.
    """
    event = _event(argv[2])
    history = context.latency.histories.get(event)
    if history is None:
        raise GenericError(b"No samples available for event '%b'" % shown(argv[2]))
    return Verbatim(graph(event, history, context.now_ms // 1000).encode())


@command(
    "LATENCY|DOCTOR",
    arity=2,
    flags=ADMIN,
    group="server",
    since="2.8.13",
    summary="Reports slow events, and what to do about them.",
    complexity="O(1)",
    tips=TIPS,
    differs="Its words are our own.",
)
def latency_doctor(context: Context, argv: list[bytes]) -> Reply:
    """LATENCY DOCTOR"""
    return Verbatim(doctor(context.latency, context.now_ms // 1000).encode())


@command(
    "LATENCY|RESET",
    arity=-2,
    flags=ADMIN,
    group="server",
    since="2.8.13",
    summary="Forgets the samples of some events, or of all.",
    complexity="O(1)",
    arguments=(Argument("event", optional=True, multiple=True),),
    tips=("request_policy:all_nodes", "response_policy:agg_sum"),
)
def latency_reset(context: Context, argv: list[bytes]) -> Reply:
    """LATENCY RESET [event ...]

    Returns how many events were forgotten.
    """
    events = list(context.latency.histories) if len(argv) == 2 else map(_event, argv[2:])
    return sum(context.latency.reset(event) for event in events)


@command(
    "LATENCY|HISTOGRAM",
    arity=-2,
    flags=ADMIN,
    group="server",
    since="7.0.0",
    summary="Shows the durations of the calls of commands.",
    complexity="O(N) where N is the number of commands with latency information being retrieved.",
    arguments=(Argument("command", optional=True, multiple=True),),
    tips=TIPS,
)
def latency_histogram(context: Context, argv: list[bytes]) -> Reply:
    """LATENCY HISTOGRAM [command ...]

    A map from the name of each command that was called to a map of `calls` and `histogram_usec`, itself a map from a
    duration in microseconds to the calls that took no longer. Calls made while `latency-tracking` is off do not count.
    A container stands for its subcommands; what is no command is left out.
    """
    rows = all_rows() if len(argv) == 2 else [row for word in argv[2:] for row in _named(word)]
    found = Pairs()
    for row in rows:
        if not row.durations.is_empty and (counts := row.durations.cumulative_us()):
            _, calls = counts[-1]
            found.append((row.name_lower, {b"calls": calls, b"histogram_usec": dict(counts)}))
    return found


@command(
    "LATENCY|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    group="server",
    since="2.8.13",
    summary="Lists the subcommands of LATENCY.",
    complexity="O(1)",
)
def latency_help(context: Context, argv: list[bytes]) -> Reply:
    """LATENCY HELP"""
    return HELP


def _event(word: bytes) -> str:
    return word.decode("utf-8", "surrogateescape")


def _named(word: bytes) -> Iterator[Row]:
    """The rows that a name, such as `get`, `client` or `client|list`, stands for."""
    parent, _, subcommand = word.upper().partition(b"|")
    row = TABLE.get(parent)
    if row is None:
        return
    if subcommand:
        if subcommand in row.subcommands:
            yield row.subcommands[subcommand]
        return
    yield row
    yield from row.subcommands.values()
