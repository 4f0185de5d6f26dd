"""Commands on large values are carried out in slices: other clients are served between two of them.

A handler gives the steps of its work to `carried_out`. While they are taken, the commands of other clients that write
wait, as they would in Redis; those that read are served. So all steps find the same dataset, and the command is run
again at the time at which it began.
"""

from __future__ import annotations

from typing import Any, Final

from ...protocol.replies import POSTPONED
from ..clients.blocking import Blocked
from .context import Context
from .sliced_work import SlicedWork, Steps

# Members that a step treats.
STEP_COUNT: Final = 4096
# From this number of members on, work is done in slices: it would take some 10 ms.
LONG_COUNT: Final = 32_768


def carried_out(context: Context, argv: list[bytes], count: int, steps: Steps) -> Any:
    """The result of steps over `count` members. It is Blocked if some are left, and the client waits for them; then the
    command is run again when they have been taken. It is POSTPONED while those of another command are. Both are replies
    of the handler. Raises what the steps raise.
    """
    if count < LONG_COUNT or not context.may_block or context.client.is_primary:
        return result_of(steps)
    work = SlicedWork(context.client, context.db, context.now_ms, argv, steps)
    return context.server.long_commands.carry_out(work)


def is_awaited(result: Any) -> bool:
    """Whether a result of `carried_out` is only a reply of the handler."""
    return type(result) is Blocked or result is POSTPONED


def free_in_steps(items: list[Any]) -> Steps:
    """Empties a list: a million objects would take a while to be freed at once."""
    while items:
        del items[-STEP_COUNT:]
        yield


def result_of(steps: Steps) -> Any:
    """The result of steps that are all taken now. Raises what they raise."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
