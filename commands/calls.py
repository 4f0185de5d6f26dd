"""Running a handler, and counting it on its row, its client and the server: what INFO and CLIENT LIST show of it.

A call counts when it has ended, so a command sees itself uncounted, and a blocked one counts once, whenever it is
answered. The dispatcher's fast path does the same for whole batches.
"""

from __future__ import annotations

import logging
from time import perf_counter_ns
from typing import TYPE_CHECKING

from ..protocol.replies import Reply
from ..store.errors import GenericError, ReplyError
from .blocking import Blocked

if TYPE_CHECKING:
    from .client import Client
    from .context import Context
    from .table import Row

logger = logging.getLogger(__name__)


def call(context: Context, row: Row, argv: list[bytes]) -> Reply:
    """Run the handler of `row`; whatever it raises becomes the reply."""
    handler, client = row.handler, context.client
    assert handler is not None
    started_ns = perf_counter_ns()
    try:
        reply = handler(context, argv)
    except ReplyError as error:
        reply = failed(context, row, error)
    except Exception:
        reply = broken(context, row, argv)
    duration_ns = perf_counter_ns() - started_ns
    if type(reply) is Blocked:
        reply.spent_ns = duration_ns
    else:
        row.durations.add(duration_ns)
        count_commands(context, client, 1)
    return reply


def count_commands(context: Context, client: Client, count: int) -> None:
    """`count` commands of this client have ended."""
    client.commands_count += count
    context.server.stats.commands_processed += count


def failed(context: Context, row: Row, error: ReplyError) -> ReplyError:
    """Count a call that ends in an error."""
    row.failed_calls += 1
    context.server.stats.count_error(error.wire_text)
    return error


def broken(context: Context, row: Row, argv: list[bytes]) -> ReplyError:
    """Our bug, not the client's: the whole traceback goes to the log, and the server goes on."""
    logger.exception("internal error in %s with %d arguments", row.name, len(argv) - 1)
    return failed(context, row, GenericError(b"internal error"))
