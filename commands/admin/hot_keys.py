"""HOTKEYS: which keys cost the most CPU time or network traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol.replies import OK, Reply, status_lines
from ...store.errors import GenericError, syntax_error
from ..core.numbers import integer_between
from ..core.table import Argument, Flag, Trait, command, container
from ..observing.hot_keys import HotKeysRequest

if TYPE_CHECKING:
    from ..execution.context import Context

ADMIN: Final = Flag.ADMIN | Flag.NOSCRIPT
METRICS: Final = (b"CPU", b"NET")
COUNT_DEFAULT: Final = 10
COUNT_MAX: Final = 64
DURATION_S_MAX: Final = 1_000_000
SAMPLE_RATIO_MAX: Final = 2**31 - 1

HELP: Final = status_lines(
    (
        b"HOTKEYS <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        b"START <METRICS count [CPU] [NET]> [COUNT k] [DURATION duration] [SAMPLE ratio] [SLOTS count slot...]",
        b"    Starts hotkeys tracking with specified metrics.",
        b"    * METRICS count [CPU] [NET]",
        b"        Specify count of metrics and choose amongst:",
        b"        - CPU: Track hotkeys by CPU time percentage",
        b"        - NET: Track hotkeys by network bytes percentage",
        b"    * COUNT k",
        b"        Specifies the value of K for the top-K hotkeys tracking. Default: 10",
        b"    * DURATION duration",
        b"        Specifies tracking duration in seconds. 0 means tracking will continue until manually stopped. "
        b"Default: 0",
        b"    * SAMPLE ratio",
        b"        Keys are tracked with probability 1/ratio. Default: 1 (tracks every key)",
        b"    * SLOTS count slot...",
        b"        Specify which slots to track keys from. Only available in cluster mode. "
        b"Default: empty (track all slots)",
        b"STOP",
        b"    Stop hotkeys tracking. Results are still available via GET",
        b"GET",
        b"    Get results from hotkeys tracking.",
        b"RESET",
        b"    Reset memory used for hotkeys tracking. Tracking must have been stopped.",
        b"    Results will no longer be available after this command.",
        b"HELP",
        b"    Print this help.",
    )
)

container(
    "HOTKEYS",
    group="server",
    since="8.6.0",
    summary="Container of the commands about the keys that cost the most.",
)


@command(
    "HOTKEYS|START",
    arity=-2,
    flags=ADMIN,
    group="server",
    since="8.6.0",
    summary="Starts to measure which keys cost the most.",
    complexity="O(1)",
    arguments=(
        Argument(
            "metrics",
            "block",
            token="METRICS",
            arguments=(
                Argument("count", "integer"),
                Argument("cpu", "pure-token", token="CPU", optional=True),
                Argument("net", "pure-token", token="NET", optional=True),
            ),
        ),
        Argument("k", "integer", token="COUNT", optional=True),
        Argument("seconds", "integer", token="DURATION", optional=True),
        Argument("ratio", "integer", token="SAMPLE", optional=True),
        Argument(
            "slots",
            "block",
            token="SLOTS",
            optional=True,
            arguments=(Argument("count", "integer"), Argument("slot", "integer", multiple=True)),
        ),
    ),
    tips=("request_policy:special",),
)
def hotkeys_start(context: Context, argv: list[bytes]) -> Reply:
    """HOTKEYS START METRICS count [CPU] [NET] [COUNT k] [DURATION seconds] [SAMPLE ratio] [SLOTS count slot [slot ...]]

    Measures the CPU time, the network traffic, or both, of the commands on each key, until HOTKEYS STOP or for
    `seconds`. Of `ratio` commands, one is measured on average. The result has the `k` keys with the largest sums. The
    result of an earlier measurement is dropped. SLOTS is for clusters. Raises GenericError, also while it measures.
    Source: redis.io/commands/hotkeys-start, Redis 8.6.
    """
    if context.hot_keys.is_active:
        raise GenericError(b"hotkey tracking session already in progress")
    context.hot_keys.start(_parse_start(argv), context.now_ms)
    return OK


def _parse_start(argv: list[bytes]) -> HotKeysRequest:
    metrics, rest = _parse_metrics(argv)
    count, duration_ms, sample_ratio = COUNT_DEFAULT, None, 1
    while rest:
        option = rest[0].upper()
        if len(rest) == 1 or option not in (b"COUNT", b"DURATION", b"SAMPLE", b"SLOTS"):
            raise syntax_error()
        if option == b"COUNT":
            count = integer_between(rest[1], 1, COUNT_MAX, b"COUNT must be between 1 and 64")
        elif option == b"DURATION":
            text = b"DURATION must be between 1 and 1000000"
            duration_ms = 1000 * integer_between(rest[1], 1, DURATION_S_MAX, text)
        elif option == b"SAMPLE":
            sample_ratio = integer_between(rest[1], 1, SAMPLE_RATIO_MAX, b"SAMPLE ratio must be positive")
        else:
            raise GenericError(b"SLOTS parameter cannot be used in non-cluster mode")
        rest = rest[2:]
    return HotKeysRequest(b"CPU" in metrics, b"NET" in metrics, count, duration_ms, sample_ratio)


def _parse_metrics(argv: list[bytes]) -> tuple[set[bytes], list[bytes]]:
    """The metrics, and the words after them. Other words among the metrics are ignored, as in Redis."""
    if len(argv) < 4 or argv[2].upper() != b"METRICS":
        raise GenericError(b"METRICS parameter is required")
    count = integer_between(argv[3], 1, len(METRICS), b"METRICS count must be > 0 and <= 2")
    words = [word.upper() for word in argv[4 : 4 + count]]
    if len(words) < count:
        raise GenericError(b"METRICS count does not match number of metric types provided")
    metrics = {word for word in words if word in METRICS}
    for metric in METRICS:
        if words.count(metric) > 1:
            raise GenericError(b"METRICS %b defined more than once!" % metric)
    if not metrics:
        raise GenericError(b"METRICS no valid metrics passed. Supported: CPU|NET")
    return metrics, argv[4 + count :]


@command(
    "HOTKEYS|STOP",
    arity=2,
    flags=ADMIN,
    group="server",
    since="8.6.0",
    summary="Stops measuring which keys cost the most.",
    complexity="O(1)",
    tips=("request_policy:special",),
)
def hotkeys_stop(context: Context, argv: list[bytes]) -> Reply:
    """HOTKEYS STOP. Keeps the result. Returns null if nothing is being measured."""
    return OK if context.hot_keys.stop(context.now_ms) else None


@command(
    "HOTKEYS|GET",
    arity=2,
    flags=ADMIN,
    group="server",
    since="8.6.0",
    summary="Lists the keys that cost the most.",
    complexity="O(K) where K is the number of hotkeys returned.",
    tips=("nondeterministic_output", "request_policy:special", "response_policy:special"),
    differs="Keys with equal sums are in the order of their first use. Sums are exact for up to 4,096 keys; Redis "
    "estimates them. An inline request counts as if it were an array, and invalidations that a command sends to its "
    "own client do not count.",
    traits=Trait.ORDINARY,
)
def hotkeys_get(context: Context, argv: list[bytes]) -> Reply:
    """HOTKEYS GET

    An array with one map: whether keys are measured, the sample, the totals of all commands with keys, the start (Unix
    ms) and the duration, and for each metric a flat array of keys and their sums, largest first. CPU time is in
    microseconds. Null if there is no result.
    Source: redis.io/commands/hotkeys-get, Redis 8.6.
    """
    measurement = context.hot_keys.last
    return None if measurement is None else [measurement.report(context.now_ms)]


@command(
    "HOTKEYS|RESET",
    arity=2,
    flags=ADMIN,
    group="server",
    since="8.6.0",
    summary="Drops the result of HOTKEYS.",
    complexity="O(1)",
    tips=("request_policy:special",),
)
def hotkeys_reset(context: Context, argv: list[bytes]) -> Reply:
    """HOTKEYS RESET. Raises GenericError while keys are measured."""
    if context.hot_keys.is_active:
        raise GenericError(b"hotkey tracking session in progress, stop tracking first")
    context.hot_keys.reset()
    return OK


@command(
    "HOTKEYS|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    group="server",
    since="8.6.1",
    summary="Lists the subcommands of HOTKEYS.",
    complexity="O(1)",
    traits=Trait.ORDINARY,
)
def hotkeys_help(context: Context, argv: list[bytes]) -> Reply:
    """HOTKEYS HELP"""
    return HELP
