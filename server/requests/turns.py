"""One turn of the loop: requests are run, and their replies are sent once the log has what they promise.

run(), send_rest(), run_timers()    end with finish()
  finish() -> send_outgoing()       at once, if the log has nothing new
           -> flush()               else at the end of the turn: writes the log, then sends
           -> arm_timer()           one loop timer for the earliest of all waits
send_early()                        sends some replies while the dispatcher still serves others, without an fsync
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter_ns
from typing import Final

from ...commands.policies.retention import Retention
from ...store.policies.agenda import NEVER_MS
from .dispatch import Dispatcher
from .session import Session
from .upkeep import Upkeep

# Requests of one client that are run before others have their turn: at most some 4 ms of short commands, and far more
# than a pipeline needs for full speed.
SLICE_COUNT: Final = 256

# The policies of used streams are applied at the end of a turn, but not again for some time, the shorter one if there
# was nothing to remove. To remove a hundred entries one by one takes many times as long as to remove them at once.
RETENTION_REST_NS: Final = 10_000_000
IDLE_RETENTION_REST_NS: Final = 2_000_000


class Turns:
    """Drives a dispatcher. `clock` returns Unix ms and is read once per read of a socket. `write_log` gives the log to
    the disk and returns whether replies may be sent, and so does `write_log_early` within a turn. `broadcast` sends
    invalidations in broadcasting mode.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        clock: Callable[[], int],
        write_log: Callable[[], bool],
        write_log_early: Callable[[], bool],
        broadcast: Callable[[], None],
        upkeep: Upkeep,
    ) -> None:
        self.dispatcher = dispatcher
        self._upkeep = upkeep
        dispatcher.serving.send_early = self.send_early
        self._clock = clock
        self.retention = Retention(dispatcher.context)
        # The streams with a policy that were used since it was last applied.
        self._used_governed = dispatcher.context.store.used_governed
        # From then on policies may be applied again, by `perf_counter_ns`.
        self.retention_due_ns = 0
        self._write_log = write_log
        self._write_log_early = write_log_early
        self._is_flush_scheduled = False
        self._broadcast = broadcast
        # Whether keys have changed that broadcasts are about.
        self.has_broadcasts = False
        self._is_stopped = False
        # Set while a wait or a pause has an end.
        self.timer: asyncio.TimerHandle | None = None
        self._timer_due_ms: int | None = None
        # The time of the next visit of a group, Unix ms, as of the last time the timer was set.
        self._timer_visit_ms = NEVER_MS

    def run(self, session: Session, requests: list[list[bytes]]) -> None:
        """Run the requests of one read. Those that must wait go to the session's backlog."""
        if self.dispatcher.runner.is_over:
            return
        now_ms = self._clock()
        client = session.client
        client.last_active_ms = now_ms
        if len(requests) <= SLICE_COUNT:
            self.dispatcher.execute(session, requests, now_ms)
        else:
            self._run_slice(session, requests, now_ms)
        if client.close_after_reply:
            self.dispatcher.outgoing[session] = None
        self.finish()

    def _run_slice(self, session: Session, requests: list[list[bytes]], now_ms: int) -> None:
        """Run the first part of a long pipeline. The rest is run when others have had their turn, and if the peer takes
        its replies.
        """
        self.dispatcher.execute(session, requests[:SLICE_COUNT], now_ms)
        if not session.client.close_after_reply:
            session.backlog.extend(requests[SLICE_COUNT:])
            self.dispatcher.resumable[session] = None

    def finish(self) -> None:
        """Send the replies: at once if the log has nothing new, else together with all of this loop turn.

        Clients whose data arrived in one turn share one write to the log, and with `appendfsync always` one fsync.
        """
        dispatcher = self.dispatcher
        if self._used_governed and perf_counter_ns() >= self.retention_due_ns:
            self.retain()
        if not dispatcher.units.has_unflushed_records:
            self.send_outgoing()
        elif not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)
        if dispatcher.resumable:
            self._resume_sessions()
        # After the clients that were served: they run what they sent before, and then the turn is over (Redis 8.10.2).
        if self.has_broadcasts:
            self.has_broadcasts = False
            asyncio.get_running_loop().call_soon(self._broadcast)
        if dispatcher.pause.end_ms is not None:
            self.arm_timer()
        elif dispatcher.waiters.by_client or self._timer_due_ms is not None or self._upkeep.has_visits:
            self._follow_waits()

    def _follow_waits(self) -> None:
        if (
            self.dispatcher.waiters.next_due_ms() != self._timer_due_ms
            or self._upkeep.next_due_ms() != self._timer_visit_ms
        ):
            self.arm_timer()

    def send_rest(self, session: Session) -> None:
        """Send a session's output outside of its turn: output that the peer had no room for, or that was made since."""
        self.dispatcher.outgoing[session] = None
        self.finish()

    def flush(self) -> None:
        """Write the log to the disk as `appendfsync` says, then send the replies that waited for it."""
        self._is_flush_scheduled = False
        if self.dispatcher.units.has_unflushed_records and not self._write_log():
            return
        self.send_outgoing()

    def retain(self) -> None:
        """Remove what the policies of the used streams do not keep, and log that. Nothing goes once the server has
        written its data for the last time: a snapshot of SHUTDOWN would still have it.
        """
        if self.dispatcher.runner.is_over:
            return
        assert not self.dispatcher.context.effects, "a unit is logged before that of a policy begins"
        removed = self.retention.act(self._clock())
        self.dispatcher.units.log_own()
        self.dispatcher.serving.serve_ready()
        self.retention_due_ns = perf_counter_ns() + (RETENTION_REST_NS if removed else IDLE_RETENTION_REST_NS)

    def send_outgoing(self) -> None:
        """Send the output that is ready."""
        outgoing = self.dispatcher.outgoing
        while outgoing:
            sessions = list(outgoing)
            outgoing.clear()
            for session in sessions:
                session.send()

    def send_early(self, sessions: list[Session]) -> None:
        """Send these sessions their replies before the turn ends, unless that takes an fsync. None of them is
        running.
        """
        if self.dispatcher.units.has_unflushed_records and not self._write_log_early():
            return
        for session in sessions:
            self.dispatcher.outgoing.pop(session, None)
            session.send()

    def _resume_sessions(self) -> None:
        """Resume sessions that were served: their later requests are run after those of the running client."""
        for session in self.dispatcher.resumable:
            session.resume_soon()
        self.dispatcher.resumable.clear()

    # -- time ------------------------------------------------------------------------------------

    def follow_visits(self) -> None:
        """Set the timer for the next visit of a group, outside of a turn: a connection has ended, and with it a
        guard.
        """
        if self._upkeep.has_visits and not (self._is_stopped or self.dispatcher.runner.is_over):
            self._follow_waits()

    def arm_timer(self) -> None:
        """Set one loop timer for the earliest deadline, wake time, end of a pause, or visit of a group."""
        due_ms = self.dispatcher.waiters.next_due_ms()
        self._timer_due_ms = due_ms
        pause_end_ms = self.dispatcher.pause.end_ms
        if pause_end_ms is not None:
            due_ms = pause_end_ms if due_ms is None else min(due_ms, pause_end_ms)
        self.stop_timer()
        self._timer_visit_ms = self._upkeep.next_due_ms()
        delay_ms = None if due_ms is None else due_ms - self.dispatcher.monotonic()
        if self._timer_visit_ms != NEVER_MS:
            visit_in_ms = self._timer_visit_ms - self._clock()
            delay_ms = visit_in_ms if delay_ms is None else min(delay_ms, visit_in_ms)
        if delay_ms is not None:
            delay_s = max(1, delay_ms) / 1000
            self.timer = asyncio.get_running_loop().call_later(delay_s, self.run_timers)

    def stop(self) -> None:
        """Cancel all timers, for good."""
        self._is_stopped = True
        self.stop_timer()

    def stop_timer(self) -> None:
        """Cancel the timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def run_timers(self) -> None:
        """Run what is due. The loop timer calls this, and tests do after moving their clock."""
        dispatcher = self.dispatcher
        if dispatcher.runner.is_over:
            return
        dispatcher.serving.run_timers(self._clock())
        self._upkeep.run(self._clock())
        if dispatcher.pause.is_over:
            dispatcher.end_due_pauses()
        self.finish()
        self.arm_timer()
