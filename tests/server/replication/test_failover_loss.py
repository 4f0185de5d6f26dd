"""What a failover loses when a primary is cut off with a client that continues to write, and what bounds it.

The sentences of docs/high-availability.md about that are in `PROMISES`, word for word.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from support.links import settle, until
from support.packaging import ROOT
from support.replies import Node
from support.watched import FAILOVER_DEADLINE_S, Lost, Member, StartWatched, Watched, start_all
from support.wire import Wire

pytestmark = pytest.mark.oracle

THREE = ("headrace", "headrace", "headrace")
COUNT = 200
MAX_LAG_S = 1
# The last confirmation may be a second old, and is looked at once a second; the rest is for a busy machine.
SLACK_S = 3.0
PROMISES = {
    "killed": "(`kill -9`), no answered write is lost while the replicas keep up",
    "cut": "All writes that it answers after the cut are lost",
    "wait": "No write that `WAIT` has confirmed was lost",
    "min-replicas": "it answers no write later than `min-replicas-max-lag` and two seconds after the cut",
}


@pytest.fixture
def start_watched(oracle_tools: Path, tmp_path: Path) -> Iterator[StartWatched]:
    """Starts servers for Sentinels to watch."""
    yield from start_all(tmp_path)


class Writer(Thread):
    """Adds entries at one server, as a client on its side of a cut does, until it is refused or closed."""

    def __init__(self, wire: Wire, *, waits: bool) -> None:
        super().__init__(daemon=True)
        self._wire = wire
        self._waits = waits
        self._is_over = Event()
        # IDs of answered entries, when the last was answered, those that WAIT has confirmed, and the last error.
        self.answered: list[bytes] = []
        self.answered_s = 0.0
        self.confirmed: list[bytes] = []
        self.refusal = b""

    def run(self) -> None:
        """Write until the end."""
        while not self._is_over.is_set():
            try:
                reply = self._wire.ask("XADD", "s", "*", "f", "v")
                if isinstance(reply, Node):
                    self.refusal = reply.value
                    if not self.refusal.startswith(b"NOREPLICAS"):
                        return
                    self._is_over.wait(0.01)
                    continue
                self.answered.append(reply)
                self.answered_s = time.monotonic()
                if self._waits and self._wire.ask("WAIT", 1, 50) == 1:
                    self.confirmed.append(reply)
            except OSError:
                return

    def end(self) -> None:
        """Write no more."""
        self._is_over.set()
        self.join(FAILOVER_DEADLINE_S)
        assert not self.is_alive()


def lose_with_a_writer(watched: Watched, how: Lost, *, waits: bool = False) -> tuple[Writer, float, set[bytes]]:
    """Lose the primary while a client writes there, and let it come back. Returns the client, the time of the loss, and
    the IDs that the promoted server has.
    """
    watched.watch()
    writer = Writer(watched.primary.connect(), waits=waits)
    writer.start()
    until(lambda: len(writer.answered) > COUNT, "too few writes before the primary is lost")
    watched.lose(how)
    lost_s = time.monotonic()
    promoted = watched.await_failover()
    watched.bring_back(how)
    watched.await_follower(watched.primary, promoted)
    writer.end()
    return writer, lost_s, kept_by(promoted, watched.primary)


def kept_by(promoted: Member, former: Member) -> set[bytes]:
    """The IDs of the promoted server, which the former primary has too."""
    with promoted.connect() as above, former.connect() as below:
        settle(above, below)
        kept = {row[0] for row in above.ask("XRANGE", "s", "-", "+")}
        assert kept == {row[0] for row in below.ask("XRANGE", "s", "-", "+")}
    return kept


def test_the_page_has_the_promises() -> None:
    page = " ".join((ROOT / "docs" / "high-availability.md").read_text("utf-8").split())
    for promise in PROMISES.values():
        assert promise in page


def test_a_killed_process_loses_no_answered_write(start_watched: StartWatched) -> None:
    writer, _, kept = lose_with_a_writer(start_watched(THREE), Lost.KILLED)
    assert set(writer.answered) <= kept


def test_a_primary_that_is_cut_off_loses_what_it_answers(start_watched: StartWatched) -> None:
    writer, lost_s, kept = lose_with_a_writer(start_watched(THREE), Lost.CUT)
    lost = [entry_id for entry_id in writer.answered if entry_id not in kept]
    print(
        f"{len(writer.answered)} answered, {len(lost)} lost, the last {writer.answered_s - lost_s:.1f} s after the cut"
    )
    assert lost, "replication is asynchronous, and no limit is set"
    assert lost == writer.answered[-len(lost) :], "the newest ones"


def test_what_wait_has_confirmed_is_kept(start_watched: StartWatched) -> None:
    writer, _, kept = lose_with_a_writer(start_watched(THREE), Lost.CUT, waits=True)
    lost = [entry_id for entry_id in writer.answered if entry_id not in kept]
    print(f"{len(writer.answered)} answered, {len(writer.confirmed)} confirmed, {len(lost)} lost")
    assert len(writer.confirmed) >= COUNT // 2, "a busy machine makes some of them wait too long"
    assert set(writer.confirmed) <= kept
    assert lost, "what was answered after the cut"


def test_min_replicas_ends_the_writes_of_a_primary_that_is_cut_off(start_watched: StartWatched) -> None:
    own = ("min-replicas-to-write 1", f"min-replicas-max-lag {MAX_LAG_S}")
    writer, lost_s, kept = lose_with_a_writer(start_watched(THREE, (own, own, own)), Lost.CUT)
    lost = [entry_id for entry_id in writer.answered if entry_id not in kept]
    answered_s = writer.answered_s - lost_s
    print(f"{len(writer.answered)} answered, {len(lost)} lost, the last {answered_s:.1f} s after the cut")
    assert answered_s < MAX_LAG_S + SLACK_S
    assert writer.refusal.startswith((b"NOREPLICAS", b"READONLY"))
