"""A stop that waits: replicas that lag get `shutdown-timeout` seconds for what they have not confirmed.

shutdown()  SHUTDOWN; begin() is for signals. Writes are held meanwhile, and each replica is asked what it has.
check()     `hz` times a second: the stop continues when all replicas have everything, or the time is over
abort()     SHUTDOWN ABORT: the held writes run, and the clients that wait for the stop get an error
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from ..commands.clients.replica import STATE_NAMES
from ..protocol.replies import Reply
from ..replication.history import History
from ..store.errors import GenericError
from .configuration.config import Config
from .replication.link import Link, address_of, lag_s
from .requests.pause import ENDLESS_MS, Cause

logger = logging.getLogger(__name__)


class StopFailed(GenericError):
    """The server continues."""

    def __init__(self) -> None:
        super().__init__(b"Errors trying to SHUTDOWN. Check logs.")


class Replicas(Protocol):
    """The replicas of this server: `server.replication.primary.Primary`."""

    history: History
    links: list[Link]
    # Returns whether writes are held.
    is_paused: Callable[[], bool]

    def request_confirmation(self) -> None:
        """Ask all replicas what they have."""
        ...


class Holder(Protocol):
    """What holds the commands of clients back: `server.requests.dispatch.Dispatcher`."""

    def begin_pause(self, pause_ms: int, *, writes_only: bool, cause: Cause = Cause.COMMAND) -> None:
        """Hold back commands for `pause_ms`."""
        ...

    def end_pause(self, cause: Cause = Cause.COMMAND) -> None:
        """Let the commands that were held run."""
        ...


class Wait:
    """The `Progress` of clients whose SHUTDOWN waits for replicas. If it succeeds, they get no reply."""

    def __init__(self) -> None:
        self.has_failed = False

    def is_enough(self) -> bool:
        """Whether the wait is over. Raises StopFailed if there is no stop any more."""
        if self.has_failed:
            raise StopFailed
        return False

    def reply(self) -> Reply:
        """There is none."""
        return ()


class Stopping:
    """The stop of one server. `monotonic` returns ms. `prepare` writes everything to disk, a snapshot as SAVE or NOSAVE
    says, and returns whether that succeeded. `end` ends the server. `serve_waits` answers clients whose wait is over.
    `finish_turn` sends what clients have got.
    """

    def __init__(
        self,
        config: Config,
        replicas: Replicas,
        holder: Holder,
        clock: Callable[[], int],
        monotonic: Callable[[], int],
        *,
        prepare: Callable[[bool | None], bool],
        end: Callable[[], None],
        serve_waits: Callable[[], None],
        finish_turn: Callable[[], None],
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._holder = holder
        self._clock = clock
        self._monotonic = monotonic
        self._prepare = prepare
        self._end = end
        self._serve_waits = serve_waits
        self._finish_turn = finish_turn
        # What waits for replicas; None while nothing does.
        self.wait: Wait | None = None
        self._end_ms = 0
        # Ends the server. Returns False if it cannot, and continues to serve.
        self._finish: Callable[[], bool] = lambda: True
        # Whether a signal has asked for the stop: then a SIGINT does not wait.
        self.is_signalled = False

    @property
    def remaining_ms(self) -> int | None:
        """The longest time that the stop still waits; None if it does not."""
        return None if self.wait is None else max(0, self._end_ms - self._monotonic())

    def shutdown(self, *, save: bool | None, force: bool, is_now: bool) -> Wait | None:
        """SHUTDOWN: stop after this command. Returns what it waits for, if replicas lag. Raises StopFailed if the
        dataset cannot be written, and continues to serve.
        """

        def finish() -> bool:
            if not self._prepare(save) and not force:
                return False
            self._end()
            return True

        if self.begin(finish, is_now=is_now) and self.wait is None:
            raise StopFailed
        return self.wait

    def begin(self, finish: Callable[[], bool], *, is_now: bool = False) -> bool:
        """Call `finish` when no replica lags, or later by `shutdown-timeout`; `is_now`: at once. Returns whether the
        server continues to serve: it waits, or `finish` has failed.
        """
        if self.wait is not None:
            return True
        logger.warning("User requested shutdown...")
        timeout_s: int = self._config.shutdown_timeout
        if is_now or not timeout_s or not self._lagging():
            self._report()
            return not finish()
        self.wait, self._finish = Wait(), finish
        self._end_ms = self._monotonic() + timeout_s * 1000
        if not self._replicas.is_paused():
            self._replicas.request_confirmation()
        self._holder.begin_pause(ENDLESS_MS, writes_only=True, cause=Cause.SHUTDOWN)
        logger.info("Waiting for replicas before shutting down.")
        self._finish_turn()
        return True

    def _lagging(self) -> list[Link]:
        offset = self._replicas.history.offset
        return [link for link in self._replicas.links if link.replica.confirmed_offset != offset]

    def _report(self) -> None:
        """Log which replicas lag."""
        links, lagging = self._replicas.links, self._lagging()
        for link in lagging:
            replica = link.replica
            logger.info(
                "Lagging replica %s:%d reported offset %d behind master, lag=%d, state=%s.",
                address_of(link).decode("utf-8", "replace"), replica.port,
                self._replicas.history.offset - replica.confirmed_offset, lag_s(link, self._clock()),
                STATE_NAMES[replica.state],
            )  # fmt: skip
        if links:
            logger.info("%d of %d replicas are in sync when shutting down.", len(links) - len(lagging), len(links))

    def check(self) -> None:
        """Continue the stop if no replica lags, or if the time is over."""
        if self.wait is None or (self._monotonic() < self._end_ms and self._lagging()):
            return
        self._report()
        if not self._finish():
            logger.warning("Errors trying to shut down the server. Check the logs for more information.")
            self._cancel()

    def abort(self) -> None:
        """SHUTDOWN ABORT. Raises GenericError if there is nothing to abort."""
        if self.wait is None:
            raise GenericError(b"No shutdown in progress.")
        self._cancel()
        logger.info("Shutdown manually aborted.")

    def _cancel(self) -> None:
        wait, self.wait = self.wait, None
        self.is_signalled = False
        if wait is not None:
            wait.has_failed = True
        self._holder.end_pause(Cause.SHUTDOWN)
        self._serve_waits()
        self._finish_turn()
