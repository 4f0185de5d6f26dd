"""A command on large values, in slices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final

from ...commands.clients.client import Client
from ...commands.execution.sliced_work import SlicedWork
from ...protocol.replies import POSTPONED
from .dispatch import Dispatcher
from .pause import ENDLESS_MS, Cause

# Between two turns of other clients: long enough to lose little time to the turns, and as short as a slow command.
SLICE_NS: Final = 2_000_000
# Before a command whose steps have all been taken during a pause is asked for again.
PAUSE_S: Final = 0.05


class LongCommands:
    """Takes the steps of one command at a time: `commands.execution.services.LongCommands`. `run_again` runs the
    command of a client at a time (Unix ms), and returns False while it must not run; `finish_turn` sends its reply.
    """

    def __init__(
        self, dispatcher: Dispatcher, run_again: Callable[[Client, int], bool], finish_turn: Callable[[], None]
    ) -> None:
        self._dispatcher = dispatcher
        self._run_again = run_again
        self._finish_turn = finish_turn
        # How long other clients wait for a slice, of one step at least.
        self.slice_ns = SLICE_NS
        # The command whose steps are taken, and whether all of them have been.
        self.work: SlicedWork | None = None
        self.is_done = False
        self._task: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a command is carried out, which may read values that have been removed meanwhile."""
        return self.work is not None

    def carry_out(self, work: SlicedWork) -> Any:
        """The result of a command that the running client sent, or of its steps if all have been taken. It is Blocked
        if one slice was not enough: then the commands of other clients that write wait. It is POSTPONED if another
        command has begun: then it must be run again when that one has ended. Without a loop, no
        clients are served, and all steps are taken. Raises what they raise.
        """
        if self.work is not None and self.is_done and self.work.client is work.client:
            return self.work.result()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            while work.take_step():
                pass
            return work.result()
        if not self._take_slice(work):
            return work.result()
        if self.work is not None:
            return POSTPONED
        self.work, self.is_done = work, False
        self._dispatcher.pause.worker = work.client
        self._dispatcher.begin_pause(ENDLESS_MS, writes_only=True, cause=Cause.WORK)
        self._task = loop.create_task(self._carry_out(work))
        return work.blocked

    def stop(self) -> None:
        """Take no more steps."""
        if self._task is not None:
            self._task.cancel()

    async def _carry_out(self, work: SlicedWork) -> None:
        """Take all steps and run the command again, unless its client no longer waits."""
        try:
            while self._is_awaited(work) and self._take_slice(work):
                await asyncio.sleep(0)
            self.is_done = True
            while self._is_awaited(work) and not self._is_answered(work):
                await asyncio.sleep(PAUSE_S)
        finally:
            self.work, self._dispatcher.pause.worker = None, None
            self._dispatcher.end_pause(Cause.WORK)
        self._finish_turn()

    def _is_answered(self, work: SlicedWork) -> bool:
        """Run the command again, at the time at which it began: values that have expired since are still there, as they
        were for its steps. Its reads have been counted. Returns False if it must not run yet.
        """
        hits, misses = work.db.hits, work.db.misses
        try:
            return self._run_again(work.client, work.now_ms)
        finally:
            work.db.hits, work.db.misses = hits, misses

    def _is_awaited(self, work: SlicedWork) -> bool:
        waiter = self._dispatcher.serving.waiters.of(work.client)
        return waiter is not None and waiter.blocked is work.blocked

    def _take_slice(self, work: SlicedWork) -> bool:
        """Take steps for a moment. Returns whether there are more."""
        context = self._dispatcher.context
        client, db, now_ms = context.client, context.db, context.now_ms
        context.client, context.db, context.now_ms = work.client, work.db, work.now_ms
        started_ns = perf_counter_ns()
        try:
            while work.take_step():
                if perf_counter_ns() >= started_ns + self.slice_ns:
                    return True
        finally:
            context.client, context.db, context.now_ms = client, db, now_ms
            work.blocked.spent_ns += perf_counter_ns() - started_ns
        return False
