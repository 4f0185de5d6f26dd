"""The lease: keeps the entries of a running batch from becoming idle, so that no other consumer claims them."""

from __future__ import annotations

import threading

from ..connection.client import Connection, LostConnection
from ..errors import PipelineError
from ..options.kinds import QueueOptions
from .group import Group, groups_of
from .holders import Batch

RENEWALS_PER_IDLE_TIME = 3


class Lease(threading.Thread):
    """A thread that regularly resets the idle time of a batch's entries, on its own connection."""

    def __init__(self, options: QueueOptions, batch: Batch) -> None:
        super().__init__(daemon=True)
        self._options = options
        self._batch = batch
        self._every_s = (options.min_idle or 0) / RENEWALS_PER_IDLE_TIME
        self._ended = threading.Event()

    def run(self) -> None:
        """Renews the lease until `end`. Failures do not stop the query: idle entries may then be read twice."""
        while not self._ended.wait(self._every_s):
            try:
                with Connection(self._options) as connection:
                    for group in groups_of(connection, self._options):
                        self.renew(group)
            except (PipelineError, LostConnection):
                continue

    def renew(self, group: Group) -> None:
        """Renews the batch's entries in one stream.

        On Redis it may claim back entries that a failing task has just released. The module `holders` says why these do
        not count as read.
        """
        for part in self._batch.parts(group):
            for name, held in part.held():
                if not self._ended.is_set():
                    group.renew_owned(name, held.ids)

    def end(self) -> None:
        """Ends the lease and waits for its thread."""
        self._ended.set()
        self.join()
