"""Three servers that replicate: no confirmed write is lost by a promotion, and all have one dataset after each heal.

    make simulate MINUTES=60            as many seeds
    make simulate SEED=1234             repeats one seed

Each defect that is planted here is found.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace import is_compiled
from headrace.commands.streams import claim
from headrace.persistence.records import RecordReader
from headrace.replication.backlog import BLOCK_SIZE, Backlog
from headrace.replication.feed import Feed
from headrace.replication.history import History
from headrace.replication.incoming import Incoming
from headrace.server.replication.following import Following
from headrace.server.replication.primary import Primary
from headrace.server.replication.primary_link import PrimaryLink
from headrace.store.database import Store
from simulation.cluster import Cluster, Violation

SEED = os.environ.get("HEADRACE_TEST_SIMULATION_SEED", "")
SEEDS = [int(SEED)] if SEED else range(max(6, int(float(os.environ.get("HEADRACE_TEST_SIMULATED_MINUTES", "6")))))
# A long run may take longer than other tests.
pytestmark = pytest.mark.timeout(900 + 60 * len(SEEDS))
STEPS_COUNT = 250
# A defect is found within so many seeds.
PLANTED_SEEDS_COUNT = 25


@pytest.fixture(scope="module")
def counts() -> Iterator[Counter[str]]:
    total: Counter[str] = Counter()
    yield total
    print(f"\nthree servers: {dict(total)}")


@pytest.mark.parametrize("seed", SEEDS)
def test_confirmed_writes_outlive_promotions_and_all_servers_converge(
    seed: int, counts: Counter[str], record_property: Callable[[str, object], None]
) -> None:
    cluster = Cluster(seed)
    cluster.run(STEPS_COUNT)
    counts.update(cluster.counts)
    for name, number in cluster.counts.items():
        record_property(name, number)


def test_the_load_had_every_kind_of_event(counts: Counter[str]) -> None:
    if len(SEEDS) < 6 or counts["steps"] < 6 * STEPS_COUNT:
        pytest.skip("needs all seeds")
    wanted = ["confirmed writes", "refused writes", "promotions", "isolations", "cut links", "lost connections"]
    wanted += ["killed replicas", "killed primaries", "restarts", "full syncs", "partial syncs", "starts with a place"]
    wanted += ["chains", "handed over", "runs with skewed clocks"]
    assert all(counts[name] for name in wanted), counts


def test_a_seed_gives_the_same_run() -> None:
    ends = []
    for _ in range(2):
        cluster = Cluster(3)
        cluster.run(60)
        ends.append((cluster.counts, cluster.clock(), cluster.rnd.getstate()))
    assert ends[0] == ends[1]


# -- planted defects -------------------------------------------------------------------------------


def counts_a_byte_less(patch: pytest.MonkeyPatch) -> None:
    """The offset of a replica is off by one after some parts."""
    take = Incoming.take
    patch.setattr(Incoming, "take", lambda self, end: take(self, end - (end % 7 == 0)))


def former_history_is_too_long(patch: pytest.MonkeyPatch) -> None:
    """A replica that has more of the former history than the new primary continues."""
    patch.setattr(History, "includes", lambda self, replid, wanted: replid.lower() in (self.replid, self.former_id))
    patch.setattr(Backlog, "has", lambda self, position: True)

    def read(self: Backlog, position: int, read: Any = Backlog.read) -> memoryview:
        return read(self, position) if self.start <= position < self.end else memoryview(b"")

    patch.setattr(Backlog, "read", read)


def reuses_blocks_too_early(patch: pytest.MonkeyPatch) -> None:
    """A whole block that a replica is sent is written again at the next append, while it may still be on its way."""
    read, append = Backlog.read, Backlog.append
    sent: list[bytearray] = []

    def read_and_reuse(self: Backlog, position: int) -> memoryview:
        view = read(self, position)
        if len(view) and position + len(view) < self.end:
            sent.append(self._blocks[(position - self.start) // BLOCK_SIZE])
        return view

    def append_to_sent(self: Backlog, data: bytes) -> None:
        while sent:
            sent.pop()[:] = b"x" * BLOCK_SIZE
        append(self, data)

    patch.setattr(Backlog, "read", read_and_reuse)
    patch.setattr(Backlog, "append", append_to_sent)


def forgets_what_a_replica_needs(patch: pytest.MonkeyPatch) -> None:
    """The backlog is cut down to its size, whatever a replica still has to read."""

    def trim(self: Backlog, position: int, trim: Any = Backlog.trim) -> None:
        trim(self, self.end)

    patch.setattr(Backlog, "trim", trim)
    patch.setattr(Backlog, "has", lambda self, position: True)

    def read(self: Backlog, position: int, read: Any = Backlog.read) -> memoryview:
        return read(self, max(position, self.start)) if position < self.end else memoryview(b"")

    patch.setattr(Backlog, "read", read)


def expires_on_replicas(patch: pytest.MonkeyPatch) -> None:
    """A replica removes expired keys by itself."""
    patch.setattr(Store, "keep_expired", lambda self, keeps: None)


def lacks_select_after_a_promotion(patch: pytest.MonkeyPatch) -> None:
    """The first effect after a promotion goes to whatever database the stream is in."""
    append = Feed.append

    def append_to_first(self: Feed, effects: list[tuple[int, bytes]], grouped: bool) -> None:
        if self.selected_db is None and effects:
            self.selected_db = effects[0][0]
        append(self, effects, grouped)

    patch.setattr(Feed, "append", append_to_first)


def lacks_select_after_a_partial_sync(patch: pytest.MonkeyPatch) -> None:
    """A replica continues in the first database, as if a SELECT came before the rest of the stream."""
    new_link = Following._new_link

    def new_link_to_first(self: Following) -> PrimaryLink:
        self._db_index = 0
        return new_link(self)

    patch.setattr(Following, "_new_link", new_link_to_first)


def uses_a_place_that_records_follow(patch: pytest.MonkeyPatch) -> None:
    """A start uses the last place in the log, whatever follows it."""

    def keep(self: Any, line: bytes | None) -> None:
        if line or line is None:
            self.__dict__["kept"] = line

    place_line = property(lambda self: self.__dict__.get("kept"), keep)
    patch.setattr(RecordReader, "place_line", place_line, raising=False)


def extends_the_old_history_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """A primary that was restarted continues under the ID that it had."""
    patch.setattr(History, "take_over", lambda self: None)


def counts_lost_replicas(patch: pytest.MonkeyPatch) -> None:
    """A replica that has confirmed nothing for long counts for `min-replicas-to-write`."""

    def count_good(self: Primary) -> None:
        self._good_count = len(self.links)
        self._note_lacking(bool(self._config.min_replicas_to_write) and not self.is_following and not self.links)

    patch.setattr(Primary, "_count_good", count_good)


def confirms_for_others(patch: pytest.MonkeyPatch) -> None:
    """WAIT counts every replica that follows."""
    patch.setattr(Primary, "confirmed_count", lambda self, offset: len(self.online))


def takes_no_time_ahead(patch: pytest.MonkeyPatch) -> None:
    """A recorded delivery is not later than the clock of the replica says."""

    def parse_as_sent(argv: list[bytes], now_ms: int, *, is_replayed: bool, parse: Any = claim.parse_claim) -> Any:
        return parse(argv, now_ms, is_replayed=False)

    patch.setattr(claim, "parse_claim", parse_as_sent)


DEFECTS = [
    counts_a_byte_less, former_history_is_too_long, reuses_blocks_too_early, forgets_what_a_replica_needs,
    expires_on_replicas, lacks_select_after_a_promotion, lacks_select_after_a_partial_sync,
    uses_a_place_that_records_follow, extends_the_old_history_after_a_restart, counts_lost_replicas,
    confirms_for_others, takes_no_time_ahead,
]  # fmt: skip


@pytest.mark.skipif(is_compiled(), reason="methods of compiled classes cannot be replaced")
@pytest.mark.parametrize("plant", DEFECTS)
def test_a_planted_defect_is_found(plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    for seed in range(PLANTED_SEEDS_COUNT):
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)
            try:
                Cluster(seed).run(STEPS_COUNT)
            except (Violation, AssertionError) as found:
                print(f"seed {seed}: {found}")
                return
    pytest.fail(f"{PLANTED_SEEDS_COUNT} seeds did not find it")
