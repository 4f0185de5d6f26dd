"""Commands on the disk: SAVE, BGSAVE, BGREWRITEAOF, LASTSAVE, SHUTDOWN, DEBUG RELOAD and LOADAOF."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from ...commands.clients.blocking import Progress
from ...persistence.aof import AppendOnlyLog
from ...persistence.errors import LogFailure
from ...store.errors import GenericError, ReplyError
from .backups import Backups
from .loading import Loading
from .log_life import LogState
from .logkeeper import LogKeeper
from .snapshots import Snapshots

logger = logging.getLogger(__name__)


class Stop(Protocol):
    """How a server ends: `server.stopping.Stopping`."""

    def shutdown(self, *, save: bool | None, force: bool, is_now: bool) -> Progress | None:
        """SHUTDOWN: stop after this command. Returns what it waits for, if replicas lag. Raises GenericError if the
        dataset cannot be written, and continues to serve.
        """
        ...

    def abort(self) -> None:
        """SHUTDOWN ABORT. Raises GenericError if no stop waits."""
        ...


class DiskStorage:
    """The dataset on disk: `commands.execution.services.Storage`.

    `log_unit` logs the effects of the running command so far. `refusal_of_writes` returns why writes are
    refused, or None.
    """

    def __init__(
        self,
        keeper: LogKeeper,
        loading: Loading,
        snapshots: Snapshots,
        backups: Backups,
        stop: Stop,
        *,
        die: Callable[[LogFailure], None],
        log_unit: Callable[[], None],
        refusal_of_writes: Callable[[], ReplyError | None],
    ) -> None:
        self._keeper = keeper
        self._loading = loading
        self._snapshots = snapshots
        self.backups = backups
        self._stop = stop
        self._die = die
        self._log_unit = log_unit
        self._refusal_of_writes = refusal_of_writes

    @property
    def log(self) -> AppendOnlyLog | None:
        """The log in force; None while effects are not logged."""
        return self._keeper.log

    @property
    def last_save_ms(self) -> int:
        """LASTSAVE, in Unix ms."""
        return self._snapshots.last_save_ms

    def refusal_of_writes(self) -> ReplyError | None:
        """Why writes are refused now, MISCONF or NOREPLICAS; None while they are not."""
        return self._refusal_of_writes()

    def save(self) -> bool:
        """SAVE. Returns False if it failed. Raises GenericError."""
        return self._snapshots.save_now()

    def write_dump(self) -> bool:
        """DEBUG RELOAD: write dump.rdb, as SAVE does, but uncounted. Returns whether it did. Raises GenericError."""
        return self._snapshots.reload_now()

    def save_flushed(self) -> None:
        """FLUSHALL: write dump.rdb without the keys that are gone, if there are save points."""
        self._snapshots.save_flushed()

    def save_in_background(self, *, may_wait: bool, may_start: bool) -> bool:
        """BGSAVE. Returns False if it was only scheduled. Raises GenericError."""
        return self._snapshots.request_save(may_wait=may_wait, may_start=may_start)

    def rewrite_log(self, *, may_start: bool) -> bool:
        """BGREWRITEAOF. Returns False if it was only scheduled. Raises GenericError."""
        return self._snapshots.request_rewrite(may_start=may_start)

    def reload_log(self) -> None:
        """DEBUG LOADAOF: empty the dataset and fill it from the log. Raises GenericError."""
        keeper = self._keeper
        failed = GenericError(b"Error trying to load the AOF files, check server logs.")
        if keeper.state is LogState.STARTING:
            logger.warning("The append-only file cannot be loaded before its base is complete")
            raise failed
        # The effects of the unit that is running belong to the log that is about to be read.
        self._log_unit()
        try:
            if not keeper.sync():
                raise failed
        except LogFailure as failure:
            self._die(failure)
            raise failed from failure
        self._loading.reload_log(keeper.log or keeper.new_log())
        self.backups.end_by("debug loadaof executed")

    def reload_dataset(self, *, from_disk: bool, flushes: bool, merges: bool) -> None:
        """DEBUG RELOAD: load the dataset from an RDB file in memory, or from dump.rdb. Raises GenericError.

        A log is rewritten afterwards if the file was on the disk, because its records lead to another dataset.
        """
        self.backups.end_by("debug reload executed")
        self._loading.reload_dataset(from_disk=from_disk, flushes=flushes, merges=merges)
        if from_disk and self._keeper.log is not None:
            self._snapshots.rewrite.is_scheduled = True

    def shutdown(self, *, save: bool | None, force: bool, is_now: bool) -> Progress | None:
        """SHUTDOWN. Returns what it waits for, if replicas lag. Raises GenericError if the dataset cannot be written;
        the server then continues.
        """
        return self._stop.shutdown(save=save, force=force, is_now=is_now)

    def abort_shutdown(self) -> None:
        """SHUTDOWN ABORT. Raises GenericError."""
        self._stop.abort()
