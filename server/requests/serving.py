"""Blocked commands: park them, run them again when a key of theirs is touched, and end their wait.

`Waiters` knows which client waits for what. The dispatcher runs the commands.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import ClassVar, Final

from ...commands.clients.blocking import Blocked
from ...commands.clients.client import Client
from ...commands.core.lookup import find_row
from ...commands.core.table import DECLARED, Row, Trait
from ...commands.execution.calls import count_call, count_commands, failed
from ...commands.execution.context import Context
from ...commands.execution.enforcement import refusal_of
from ...protocol.replies import NULL_ARRAY, Reply
from ...store.errors import ReplyError
from ...store.stream import Stream
from ...store.value import Value
from .runner import Runner
from .session import Session
from .waiters import LineKey, Waiter, Waiters

logger = logging.getLogger(__name__)

# Rounds of serving blocked readers after one command. A key that expires while readers are served starts another round;
# more rounds than this mean that serving a key signals it again, without end.
SERVING_ROUNDS_MAX: Final = 1000

WAITS_FOR_GROUP: Final = Trait.WAITS_FOR_GROUP.value

# Waiters that are served before their replies are sent. These clients then work while the others are served. Each time
# costs a write to the log if serving makes records (benchmark row wake-up).
SERVED_AT_ONCE: Final = 8


class Unblocked(ReplyError):
    """CLIENT UNBLOCK id ERROR."""

    prefix: ClassVar[bytes] = b"UNBLOCKED"

    def __init__(self) -> None:
        super().__init__(b"client unblocked via CLIENT UNBLOCK")


class RoleChanged(ReplyError):
    """The server follows another one now, and the blocked command may not be possible there."""

    prefix: ClassVar[bytes] = b"UNBLOCKED"

    def __init__(self) -> None:
        super().__init__(b"force unblock from blocking operation, instance state changed (master -> replica?)")


class Serving:
    """The blocked commands of one server. `monotonic` returns the ms by which waits are timed."""

    def __init__(self, context: Context, runner: Runner, monotonic: Callable[[], int]) -> None:
        self._context = context
        self._runner = runner
        self._monotonic = monotonic
        # Sends the replies of some sessions while others are still served; set by `Turns`.
        self.send_early: Callable[[list[Session]], None] = lambda sessions: None
        self.waiters = Waiters()

    def park(self, session: Session, blocked: Blocked) -> None:
        """Let the client wait. Keys that were touched before do not count: the command has just read them."""
        client = session.client
        if not self.waiters.by_client:
            self.forget_ready()
        client.blocked = blocked
        deadline_ms, wake_ms = self._time_after(blocked.block_ms), self._time_after(blocked.wake_in_ms)
        self.waiters.add(client, client.db.index, blocked, deadline_ms, wake_ms)

    def _time_after(self, delay_ms: int | None) -> int | None:
        return None if delay_ms is None else self._monotonic() + delay_ms

    def forget_ready(self) -> None:
        """Forget the touched keys, since no client waits."""
        for db in self._context.store.databases:
            db.is_all_ready = False
            if db.ready:
                db.ready.clear()

    def serve_ready(self) -> None:
        """Run again the readers blocked on touched keys: in touch order, and on each key the longest wait first.

        Each run is a unit of its own: the effects of the running client have been logged before. The running client and
        its database are restored.
        """
        lines = self._take_ready_lines()
        if not lines or self._runner.is_over:
            return
        context = self._context
        assert not context.effects, "a unit is logged before another client's begins"
        client, db = context.client, context.db
        try:
            self._serve_lines(lines)
        finally:
            context.client, context.db = client, db

    def _serve_lines(self, lines: list[LineKey]) -> None:
        served: list[Session] = []
        for _ in range(SERVING_ROUNDS_MAX):
            for db_index, key in lines:
                self._serve_line(db_index, key, served)
            lines = self._take_ready_lines()
            if not lines:
                return
        logger.error("stopped serving blocked readers after %d rounds", SERVING_ROUNDS_MAX)

    def _serve_line(self, db_index: int, key: bytes, served: list[Session]) -> None:
        """Run again the clients that wait for a key. `served` are those whose replies were not sent yet."""
        db = self._context.store.databases[db_index]
        waiting = self.waiters.in_line(db_index, key)
        self._context.shared_reads = {} if len(waiting) > 1 else None
        try:
            for waiter in waiting:
                # The value is looked up for each: the one before may have taken the last member.
                value = db.keys.get(key)
                if value is None and waiter.blocked.waits_for is not Stream:
                    continue  # it stays in its place, and so may do thousands after it
                if waiter.lines and self._run_again(waiter, value):
                    served.append(self._runner.sessions[waiter.client.id])
                    if len(served) == SERVED_AT_ONCE:
                        self.send_early(served)
                        served.clear()
        finally:
            self._context.shared_reads = None

    def _take_ready_lines(self) -> list[LineKey]:
        lines: list[LineKey] = []
        for index in list(self.waiters.databases):
            db = self._context.store.databases[index]
            if db.is_all_ready:
                lines += [line for line in self.waiters.lines if line[0] == index]
                db.is_all_ready = False
                db.ready.clear()
            elif db.ready:
                lines += [(index, key) for key in db.ready if (index, key) in self.waiters.lines]
                db.ready.clear()
        return lines

    def _run_again(self, waiter: Waiter, value: Value | None) -> bool:
        """Run a blocked command again. Returns True if it was answered; False if it continues to wait, with its old
        deadline.

        `value` is that of the touched key. One of another type than the command waits for, or none, concerns only
        readers of a group, which learn that their group was deleted. XREAD waits for a new stream.
        """
        pause = self._runner.pause
        if pause.end_ms is None and self._would_wait_on(waiter):
            self.waiters.requeue(waiter, waiter.wake_ms)
            return False
        client = waiter.client
        row = find_row(waiter.blocked.argv, DECLARED)
        if not isinstance(value, waiter.blocked.waits_for) and not row.trait_bits & WAITS_FOR_GROUP:
            return False
        if pause.concerns(client, row):
            self._hold(waiter)
            return False
        return self._run(waiter, row)

    def run_after_work(self, client: Client, now_ms: int) -> bool:
        """Run again the command of a client that waits for work between the turns of clients, which has ended. Returns
        False, with nothing done, while a pause concerns it.
        """
        waiter = self.waiters.of(client)
        if waiter is None or self._runner.is_over:
            return True
        row = find_row(waiter.blocked.argv, DECLARED)
        if self._runner.pause.end_ms is not None and self._runner.pause.concerns(client, row):
            return False
        context = self._context
        context.now_ms = now_ms
        running, db = context.client, context.db
        try:
            self._run(waiter, row)
        finally:
            context.client, context.db = running, db
        self.serve_ready()
        return True

    def _run(self, waiter: Waiter, row: Row) -> bool:
        """Run a blocked command. Returns False if it continues to wait."""
        client, context = waiter.client, self._context
        context.client, context.db = client, context.store.databases[waiter.db_index]
        if not client.user.is_unrestricted and (refusal := refusal_of(context, row, waiter.blocked.argv)) is not None:
            self._end_wait(waiter, self._runner.rejected(client, row, waiter.blocked.argv, refusal))
            return True
        reply = self._runner.run_unit(row, waiter.blocked.argv, waiter.blocked.sent)
        if type(reply) is Blocked:
            self.waiters.requeue(waiter, self._time_after(reply.wake_in_ms))
        else:
            self._end_wait(waiter, reply)
        self._runner.end_run(self._runner.sessions[client.id], waiter.blocked.argv)
        return type(reply) is not Blocked

    def _hold(self, waiter: Waiter) -> None:
        """Hold the command for CLIENT PAUSE. As in Redis, it is a new request after the pause, with a new wait."""
        client = waiter.client
        self.waiters.remove(waiter)
        client.blocked = None
        self._runner.hold(self._runner.sessions[client.id], waiter.blocked.argv)

    def _would_wait_on(self, waiter: Waiter) -> bool:
        """Whether a check without a run shows that a blocked command continues to wait; False if it must be run."""
        blocks_again, client, context = waiter.blocked.blocks_again, waiter.client, self._context
        return (
            blocks_again is not None
            and client.user.is_unrestricted
            and not client.no_touch
            and context.image is None
            and blocks_again(context.store.databases[waiter.db_index], context.now_ms)
        )

    def _end_wait(self, waiter: Waiter, reply: Reply) -> None:
        client = waiter.client
        self.waiters.remove(waiter)
        client.blocked = None
        session = self._runner.sessions[client.id]
        self._runner.answer(session, reply, client.reply_mode)
        self._runner.outgoing[session] = None
        if session.has_more:
            self._runner.resumable[session] = None

    # -- ends without data -----------------------------------------------------------------------

    def run_timers(self, now_ms: int) -> None:
        """Answer waits past their deadline with the null array, and run those again whose wake time has passed.

        `now_ms` is Unix time, for the commands that are run.
        """
        expired, woken = self.waiters.take_due(self._monotonic())
        for waiter in expired:
            self._end_at_deadline(waiter)
        if woken:
            self._context.now_ms = now_ms
            for db_index, key in woken:
                self._context.store.databases[db_index].signal_ready(key)
            self.serve_ready()

    def _end_at_deadline(self, waiter: Waiter) -> None:
        progress = waiter.blocked.progress
        self._end_without_run(waiter, NULL_ARRAY if progress is None else progress.reply())

    def _end_without_run(self, waiter: Waiter, reply: Reply) -> None:
        """End a wait with this reply, without another run. It counts as the end of a call."""
        blocked = waiter.blocked
        row = find_row(blocked.argv, DECLARED)
        count_call(self._context, waiter.client, row, blocked.sent or blocked.argv, blocked.spent_ns)
        count_commands(self._context, waiter.client, 1)
        self._end_wait(waiter, reply)

    def serve_progress(self) -> None:
        """Answer the WAITs and WAITAOFs that an fsync of the log, or a confirmation of a replica, has fulfilled."""
        for waiter in list(self.waiters.by_client.values()):
            progress = waiter.blocked.progress
            if progress is None:
                continue
            try:
                if progress.is_enough():
                    self._end_without_run(waiter, progress.reply())
            except ReplyError as error:
                self._end_without_run(waiter, failed(self._context, find_row(waiter.blocked.argv, DECLARED), error))

    def serve_expired(self, now_ms: int) -> None:
        """After active expiry, log the keys that it removed, and serve the readers blocked on them."""
        self._runner.units.log_expired()
        if self.waiters.by_client:
            self._context.now_ms = now_ms
            self.serve_ready()

    def end_all(self) -> None:
        """End all waits with an error, and close these clients once they have it."""
        for waiter in list(self.waiters.by_client.values()):
            client = waiter.client
            self._runner.sessions[client.id].drop_requests()
            row = find_row(waiter.blocked.argv, DECLARED)
            self._end_without_run(waiter, failed(self._context, row, RoleChanged()))
            client.close_after_reply = True

    def unblock(self, client: Client, *, with_error: bool) -> bool:
        """End a wait early; False if the client was not waiting."""
        waiter = self.waiters.of(client)
        if waiter is None or not waiter.blocked.can_be_unblocked:
            return False
        if with_error:
            self._end_without_run(waiter, failed(self._context, find_row(waiter.blocked.argv, DECLARED), Unblocked()))
        else:
            self._end_at_deadline(waiter)
        return True
