"""Running a handler, and counting the call on its row, its client and the server, for INFO and CLIENT LIST.

A call counts when it has ended. So a command does not see its own call, and a blocked one counts once, when it is
answered. The dispatcher's fast path counts whole batches in the same way.
"""

from __future__ import annotations

import logging
import sys
import traceback
from time import perf_counter_ns
from typing import Any, Final

from ...persistence.grammar.streams import words_of
from ...protocol.replies import POSTPONED, Reply
from ...store.companions.companion import Companion
from ...store.errors import GenericError, ReplyError
from ...store.stream import Stream
from ..clients.blocking import Blocked
from ..clients.client import Client
from ..core.keys import find_keys
from ..core.table import Flag, Handler, Row, Trait
from .context import NEVER_NS, Context

logger = logging.getLogger(__name__)

# Compiled code looks an imported function up by its name at each call.
read_clock: Final = perf_counter_ns
READONLY: Final = Flag.READONLY.value
SKIP_SLOWLOG: Final = Flag.SKIP_SLOWLOG.value
FAST: Final = Flag.FAST.value
ALWAYS_TOUCHES: Final = Trait.ALWAYS_TOUCHES.value
# Where these bits of a row equal READONLY, the command itself has read its keys. A script reads by other commands.
READS: Final = (Flag.READONLY | Flag.SCRIPT_RUNNER).value


def call(
    context: Context, row: Row, handler: Handler | None, argv: list[bytes], sent: list[bytes] | None = None
) -> Reply:
    """Run a handler of `row`. An exception becomes the reply. `sent` is what the client sent, if not `argv`."""
    client, db = context.client, context.db
    assert handler is not None
    untouched = _use_times(context, row, argv) if client.no_touch else ()
    own_keys = context.own_keys
    has_own_keys = own_keys.is_on and row.is_write and not client.is_primary
    due_times = own_keys.prepare(db, row, argv, context.now_ms) if has_own_keys else None
    started_ns = read_clock()
    try:
        reply = handler(context, argv)
    except ReplyError as error:
        reply = failed(context, row, error)
    except Exception:
        reply = broken(context, row, words_of(argv))
    duration_ns = read_clock() - started_ns
    if client.blocked is not None:
        duration_ns += client.blocked.spent_ns
    for value, used_ms in untouched:
        value.used_ms = used_ms
    if due_times is not None:
        own_keys.remember(db, row, due_times)
    if reply is POSTPONED:
        return reply
    if context.records_uses:
        context.note_uses(row, argv, keeps_times=client.no_touch and not row.trait_bits & ALWAYS_TOUCHES)
    if context.is_counting and row.is_write:
        context.recount(row, argv)
    if context.monitors.clients and client.blocked is None:
        context.monitors.show(client, row, words_of(argv))
    if client.tracking is not None and row.flag_bits & READS == READONLY and client.tracking.remembers:
        context.tracking.remember(client, [key for key, _ in find_keys(row, argv)])
    if type(reply) is Blocked:
        reply.spent_ns = duration_ns
    else:
        if context.hot_keys.is_active and client.blocked is None:
            context.hot_keys.note(client, row, words_of(argv), reply, duration_ns)
        count_call(context, client, row, sent or argv, duration_ns)
        count_commands(context, client, 1)
    return reply


def _use_times(context: Context, row: Row, argv: list[bytes]) -> list[tuple[Stream | Companion, int]]:
    """The streams and companions that a command is about to use, with the times of their last use: for CLIENT NO-TOUCH,
    except by TOUCH.
    """
    if row.trait_bits & ALWAYS_TOUCHES:
        return []
    values = [context.db.keys.get(key) for key, _ in find_keys(row, argv)]
    return [(value, value.used_ms) for value in values if value is not None and not isinstance(value, bytes)]


def count_call(context: Context, client: Client, row: Row, argv: list[bytes], duration_ns: int) -> None:
    """Count a call that has ended. A slow one is passed to the slow log and the latency monitor."""
    row.recorder.add(duration_ns)
    if duration_ns < context.watched_ns:
        return
    config = context.server.config
    threshold_us = config.slowlog_log_slower_than
    duration_us = duration_ns // 1000
    if 0 <= threshold_us <= duration_us and config.slowlog_max_len and not row.flag_bits & SKIP_SLOWLOG:
        context.slow_log.add(client, row, argv, duration_us, context.now_ms, config)
    if context.latency.threshold_ms:
        event = "fast-command" if row.flag_bits & FAST else "command"
        context.latency.note(event, duration_ns, context.now_ms)


def watched_ns(config: Any) -> int:
    """The duration from which `count_call` must check a call, according to the directives."""
    thresholds_ns = [NEVER_NS]
    if config.slowlog_log_slower_than >= 0 and config.slowlog_max_len:
        thresholds_ns.append(config.slowlog_log_slower_than * 1000)
    if config.latency_monitor_threshold:
        thresholds_ns.append(config.latency_monitor_threshold * 1_000_000)
    return min(thresholds_ns)


def count_commands(context: Context, client: Client, count: int) -> None:
    """Count `count` commands of this client that have ended."""
    client.commands_count += count
    context.server.stats.commands_processed += count


def failed(context: Context, row: Row, error: ReplyError) -> ReplyError:
    """Count a call that ends in an error."""
    row.failed_calls += 1
    context.server.stats.count_error(error.code)
    if context.client.is_primary:
        context.server.stats.unexpected_error_replies += 1
        context.divergences.note(error, row.name_lower, context.now_ms)
    return error


def broken(context: Context, row: Row, argv: list[bytes]) -> ReplyError:
    """Log a defect of ours and continue. The log line has the place, but not the text of the exception, which may
    quote the request.
    """
    kind, _, place = sys.exc_info()
    name = "" if kind is None else kind.__name__
    lines = "".join(traceback.format_tb(place))
    logger.error("internal error in %s with %d arguments: %s at\n%s", row.name, len(argv) - 1, name, lines)
    return failed(context, row, GenericError(b"internal error"))
