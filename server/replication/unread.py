"""Replicas that cannot read the snapshots of this server, as a Redis before version 8.10.

Such a replica closes the connection once it has a whole snapshot, and asks for the next one at once. Nothing that it
sends before shows its version. So the second time the server log has one line, and from then on the replica is
refused for growing times, with an error that it writes into its own log.
"""

from __future__ import annotations

import logging
from typing import Final

from ...persistence.rdb.values import VERSION
from ...store.errors import ReplyError
from .link import Link, address_of

logger = logging.getLogger(__name__)

# Snapshots that a replica may leave in a row without a consequence: a replica can be stopped while it loads.
LEFT_COUNT_MAX: Final = 1
PAUSE_MS: Final = 1000
PAUSE_MS_MAX: Final = 64_000
# Replicas that are remembered; the oldest is forgotten.
REPLICAS_COUNT_MAX: Final = 1000


class SnapshotNotRead(ReplyError):
    """This replica has left its last snapshots. The prefix lets a Redis try again later, and log the text."""

    prefix = b"NOMASTERLINK"

    def __init__(self) -> None:
        super().__init__(b"This replica has not read its last snapshots: RDB version %d needs Redis 8.10" % VERSION)


class Unread:
    """Counts the snapshots that each replica has left in a row, by the address and the port that it has announced."""

    def __init__(self) -> None:
        # (number of snapshots, until when the replica is refused; Unix ms)
        self._left: dict[tuple[bytes, int], tuple[int, int]] = {}

    def check(self, address: bytes, port: int, now_ms: int) -> None:
        """Raises SnapshotNotRead if the replica shall wait."""
        if now_ms < self._left.get((address, port), (0, 0))[1]:
            raise SnapshotNotRead

    def note_end(self, link: Link, now_ms: int) -> None:
        """The connection of a replica is closed."""
        replica = link.replica
        place = (address_of(link), replica.port)
        if replica.has_confirmed:
            self._left.pop(place, None)
        elif link.has_snapshot and replica.port and not (replica.is_plain or replica.wants_only_snapshot):
            self._note_left(place, now_ms)

    def _note_left(self, place: tuple[bytes, int], now_ms: int) -> None:
        count = self._left.pop(place, (0, 0))[0] + 1
        until_ms = now_ms
        if count > LEFT_COUNT_MAX:
            pause_ms = min(PAUSE_MS << min(count - LEFT_COUNT_MAX - 1, 16), PAUSE_MS_MAX)
            until_ms += pause_ms
            logger.warning(
                "Replica %s:%d has closed the connection after %d whole snapshots, and has read none: RDB version %d "
                "needs Redis 8.10. It gets the next one in %d seconds.",
                place[0].decode("utf-8", "replace"), place[1], count, VERSION, pause_ms // 1000,
            )  # fmt: skip
        self._left[place] = count, until_ms
        if len(self._left) > REPLICAS_COUNT_MAX:
            del self._left[next(iter(self._left))]
