"""One turn of the loop: requests are run, and their replies leave once the log has what they promise.

run(session, requests)      one read's requests, through the dispatcher
  -> let_go(sessions)       some leave sooner, while the dispatcher still serves others
  -> finish()               replies leave, after the log has what they promise
release(session)            so does what is left of them, when the peer has read or more has been made
  -> arm_timer()            one loop timer for the earliest of all waits
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from .dispatch import Dispatcher
from .session import Session

# Requests of one client that are run before others have their turn: some 4 ms of short commands at most, and far more
# than a pipeline needs to run at full speed.
SLICE_COUNT: Final = 256


class Turns:
    """Drives a dispatcher. `clock` answers Unix ms and is read once per read; `write_log` gives the log to the disk and
    says whether replies may leave, and so does `write_log_early` within a turn.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        clock: Callable[[], int],
        write_log: Callable[[], bool],
        write_log_early: Callable[[], bool],
    ) -> None:
        self.dispatcher = dispatcher
        dispatcher.let_go = self.let_go
        self._clock = clock
        self._write_log = write_log
        self._write_log_early = write_log_early
        self._is_flush_scheduled = False
        # Set while somebody waits for a time to come.
        self.timer: asyncio.TimerHandle | None = None
        self._timer_due_ms: int | None = None

    def run(self, session: Session, requests: list[list[bytes]]) -> None:
        """Run the requests of one read; what must wait goes to the session's backlog."""
        if self.dispatcher.is_over:
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
        """A long pipeline: the rest is run when others have had their turn, and if the peer takes its replies."""
        self.dispatcher.execute(session, requests[:SLICE_COUNT], now_ms)
        if not session.client.close_after_reply:
            session.backlog.extend(requests[SLICE_COUNT:])
            self.dispatcher.resumable[session] = None

    def finish(self) -> None:
        """Let replies go: at once if the log has nothing new, else together with all of this loop turn.

        Clients whose data arrived in one turn share one write to the log, and with `appendfsync always` one fsync.
        """
        dispatcher = self.dispatcher
        if not dispatcher.log_has_news:
            self.send_outgoing()
        elif not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)
        if dispatcher.resumable:
            self._resume_waiting()
        if dispatcher.pause.end_ms is not None:
            self.arm_timer()
        elif dispatcher.waiters.by_client or self._timer_due_ms is not None:
            self._follow_waiters()

    def _follow_waiters(self) -> None:
        if self.dispatcher.waiters.next_due_ms() != self._timer_due_ms:
            self.arm_timer()

    def release(self, session: Session) -> None:
        """Send what a session has outside a turn of its own: what the peer had no room for, or what was made since."""
        self.dispatcher.outgoing[session] = None
        self.finish()

    def flush(self) -> None:
        """Give the log to the disk as `appendfsync` says, then send the replies that were waiting for it."""
        self._is_flush_scheduled = False
        if self.dispatcher.log_has_news and not self._write_log():
            return
        self.send_outgoing()

    def send_outgoing(self) -> None:
        """Send what is ready."""
        outgoing = self.dispatcher.outgoing
        while outgoing:
            sessions = list(outgoing)
            outgoing.clear()
            for session in sessions:
                session.send()

    def let_go(self, sessions: list[Session]) -> None:
        """Send these their replies while the turn goes on, unless that takes an fsync. None of them is being run."""
        if self.dispatcher.log_has_news and not self._write_log_early():
            return
        for session in sessions:
            self.dispatcher.outgoing.pop(session, None)
            session.send()

    def _resume_waiting(self) -> None:
        """Whoever was served goes on with its later requests, after those of the client that is running now."""
        for session in self.dispatcher.resumable:
            session.resume_soon()
        self.dispatcher.resumable.clear()

    # -- time ------------------------------------------------------------------------------------

    def arm_timer(self) -> None:
        """One loop timer for the earliest deadline, wake time or end of a pause."""
        due_ms = self.dispatcher.waiters.next_due_ms()
        self._timer_due_ms = due_ms
        pause_end_ms = self.dispatcher.pause.end_ms
        if pause_end_ms is not None:
            due_ms = pause_end_ms if due_ms is None else min(due_ms, pause_end_ms)
        self.stop_timer()
        if due_ms is not None:
            delay_s = max(1, due_ms - self.dispatcher.monotonic()) / 1000
            self.timer = asyncio.get_running_loop().call_later(delay_s, self.run_timers)

    def stop_timer(self) -> None:
        """Nothing becomes due any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def run_timers(self) -> None:
        """Do what has become due: the loop timer calls this, and tests after moving their clock."""
        dispatcher = self.dispatcher
        if dispatcher.is_over:
            return
        dispatcher.serving.run_timers(self._clock())
        if dispatcher.pause.is_over:
            dispatcher.end_pause()
        self.finish()
        self.arm_timer()
