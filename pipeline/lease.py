"""What a batch of queue mode holds is kept from looking idle while the batch is under way."""

from __future__ import annotations

import threading

from .connection import Connection, LostConnection
from .errors import PipelineError
from .group import Group, groups_of
from .holders import Batch
from .options import QueueOptions

RENEWALS_PER_IDLE_TIME = 3


class Lease(threading.Thread):
    """Renews the idle time of what a batch holds, every so often, on a connection of its own."""

    def __init__(self, options: QueueOptions, batch: Batch) -> None:
        super().__init__(daemon=True)
        self._options = options
        self._batch = batch
        self._every_s = (options.min_idle or 0) / RENEWALS_PER_IDLE_TIME
        self._ended = threading.Event()

    def run(self) -> None:
        """See `Lease`. A lease that cannot be renewed is not the query's end: its entries are then read twice."""
        while not self._ended.wait(self._every_s):
            try:
                with Connection(self._options) as connection:
                    for group in groups_of(connection, self._options):
                        self.renew(group)
            except (PipelineError, LostConnection):
                continue

    def renew(self, group: Group) -> None:
        """Renew what the batch holds in one stream. What a task releases meanwhile may be taken back: `holders` tells
        why it does not count as read.
        """
        for part in self._batch.parts(group):
            for name, held in part.held():
                if not self._ended.is_set():
                    group.renew(name, held.ids)

    def end(self) -> None:
        """Renew no more."""
        self._ended.set()
        self.join()
