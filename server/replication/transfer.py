"""The transfer of a dataset from a primary: its frame, and its load as far as it has arrived."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ...persistence.errors import RdbError
from ...replication.payload import Payload
from ..storage.key_delay import WAIT_S_MAX
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
        key_delay_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._payload = payload
        self.arrival = arrival
        self._on_loaded = on_loaded
        self._on_refused = on_refused
        self._hold = hold
        self._release = release
        # Returns the seconds that each key costs in addition (`key-load-delay`).
        self._key_delay_s = key_delay_s
        # Keys whose cost is still to be waited for, and what comes after that.
        self._owed_count = 0.0
        self._progress: Progress | None = None
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
        if self._is_over or self._waits_for_keys():
            return
        if self._progress is not None:
            progress, self._progress = self._progress, None
            self._continue(progress)
            return
        arrival = self.arrival
        keys_before = arrival.keys_count
        try:
            progress = arrival.step()
        except RdbError as error:
            self._refuse(str(error))
        except Exception:
            # After a defect of ours, the link must not stay in this phase for ever.
            logger.exception("internal error while the dataset of the primary was loaded")
            self._refuse("internal error")
        else:
            if self._key_delay_s():
                self._owed_count = float(arrival.keys_count - keys_before)
                self._progress = progress
                self._load_soon()
            else:
                self._continue(progress)

    def _waits_for_keys(self) -> bool:
        """Wait for a part of what loaded keys cost, unless there is nothing to wait for."""
        delay_s = self._key_delay_s()
        if not delay_s or self._owed_count <= 0:
            self._owed_count = 0.0
            return False
        wait_s = min(WAIT_S_MAX, self._owed_count * delay_s)
        self._owed_count -= wait_s / delay_s
        self._is_scheduled = True
        asyncio.get_running_loop().call_later(wait_s, self._load)
        return True

    def _continue(self, progress: Progress) -> None:
        """Continue after a slice."""
        if progress is Progress.LOADED:
            self._is_over = True
            self._on_loaded()
        elif progress is Progress.MORE or self._payload.is_complete or self.arrival.waiting_size:
            # Bytes may have arrived since the slice, while its keys were waited for.
            self._load_soon()
        if not self._payload.is_complete and self.arrival.waiting_size <= WAITING_SIZE_MAX:
            self._release()

    def _refuse(self, reason: str) -> None:
        self._on_refused(NOT_TAKEN.format(reason))

    def stop(self) -> None:
        """The link is closed: forget what was loaded."""
        if not self._is_over:
            self._is_over = True
            self.arrival.drop()
