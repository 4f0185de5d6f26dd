"""The transfer of a dataset from a primary: its frame, and its load as far as it has arrived."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ...persistence.errors import RdbError
from ...replication.payload import Payload
from .arrival import WAITING_SIZE_MAX, Arrival, Progress

logger = logging.getLogger(__name__)

NOT_TAKEN = "The dataset of the primary cannot be taken: {}. The old data are kept"


class Transfer:
    """One transfer. `on_loaded` is called when the dataset is complete, `on_refused` with the reason if it cannot be
    taken, and `hold` and `release` to read no more of the connection, and to read on.
    """

    def __init__(
        self,
        payload: Payload,
        arrival: Arrival,
        *,
        on_loaded: Callable[[], None],
        on_refused: Callable[[str], None],
        hold: Callable[[], None],
        release: Callable[[], None],
    ) -> None:
        self._payload = payload
        self.arrival = arrival
        self._on_loaded = on_loaded
        self._on_refused = on_refused
        self._hold = hold
        self._release = release
        self._is_scheduled = False
        self._is_over = False

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the primary. Returns those after the dataset. Raises PayloadError."""
        payload, arrival = self._payload, self.arrival
        was_unknown = payload.size < 0
        arrival.add(payload.feed(data))
        if was_unknown and payload.size >= 0:
            size = f"{payload.size} bytes" if payload.size else "streamed data"
            logger.info("MASTER <-> REPLICA sync: receiving %s from master to memory", size)
            logger.info("MASTER <-> REPLICA sync: Loading DB in memory")
        if payload.is_complete:
            arrival.complete()
        elif arrival.waiting_size > WAITING_SIZE_MAX:
            self._hold()
        if payload.size >= 0:
            self._load_soon()
        return payload.rest

    def _load_soon(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._load)

    def _load(self) -> None:
        """Load a slice of what has arrived."""
        self._is_scheduled = False
        if self._is_over:
            return
        arrival = self.arrival
        try:
            progress = arrival.step()
        except RdbError as error:
            self._refuse(str(error))
        except Exception:
            # After a defect of ours, the link must not stay in this phase for ever.
            logger.exception("internal error while the dataset of the primary was loaded")
            self._refuse("internal error")
        else:
            if progress is Progress.LOADED:
                self._is_over = True
                self._on_loaded()
            elif progress is Progress.MORE:
                self._load_soon()
            if not self._payload.is_complete and arrival.waiting_size <= WAITING_SIZE_MAX:
                self._release()

    def _refuse(self, reason: str) -> None:
        self._on_refused(NOT_TAKEN.format(reason))

    def stop(self) -> None:
        """The link is closed: forget what was loaded."""
        if not self._is_over:
            self._is_over = True
            self.arrival.drop()
