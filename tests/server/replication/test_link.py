"""The connection to one replica: it always gets more when it has read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.commands.clients.replica import Replica
from headrace.replication.backlog import Backlog
from headrace.server.replication.link import UNSENT_SIZE_MAX, Link
from headrace.server.sockets.connection import OUTPUT_SIZE_HIGH


class SlowPeer:
    """A connection whose transport reports that its peer has read only if it was full: above the high mark."""

    def __init__(self) -> None:
        self.client = SimpleNamespace(sent_size=0)
        self.is_closed = False
        self.follower: Any = None
        self.taken = 0
        self._unsent = 0
        self._is_full = False

    def unsent_size(self) -> int:
        return self._unsent

    def write_stream(self, data: bytes | memoryview) -> None:
        self._unsent += len(data)
        self._is_full = self._is_full or self._unsent > OUTPUT_SIZE_HIGH

    def read(self) -> None:
        """The peer reads everything."""
        self.taken += self._unsent
        self._unsent = 0
        if self._is_full:
            self._is_full = False
            self.follower.resume()


@pytest.mark.parametrize("piece_size", [64 * 1024, UNSENT_SIZE_MAX, 100_000])
def test_a_snapshot_is_sent_to_its_end_whatever_the_size_of_its_pieces(piece_size: int) -> None:
    peer = SlowPeer()
    link = Link(cast(Any, peer), Replica(), 0, lambda link: None)
    is_sent = []
    link.send_snapshot(iter([bytes(piece_size)] * 20), lambda: is_sent.append(True))
    for _ in range(20):
        peer.read()
    assert is_sent
    assert peer.taken == 20 * piece_size


def test_a_replica_gets_a_backlog_to_its_end() -> None:
    peer = SlowPeer()
    backlog = Backlog(1 << 20, 0)
    backlog.append(bytes(1 << 20))
    link = Link(cast(Any, peer), Replica(), 0, lambda link: None)
    link.follow(backlog)
    for _ in range(20):
        peer.read()
    assert peer.taken == 1 << 20
