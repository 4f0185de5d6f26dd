"""A dataset with streams in every state, in the form of rows, and everything that two servers must have alike."""

from __future__ import annotations

import random
from collections.abc import Iterable

from headrace.persistence.rdb.file import write_file
from headrace.persistence.rows.blocks import framed
from headrace.persistence.rows.streams import ROWS
from headrace.store import chunk as chunk_module
from headrace.store.database import Store
from headrace.store.image import StreamImage, keys_now, parts_now
from headrace.store.policies.lines import lines_of
from headrace.store.stream import Stream
from support.digest import digest_of
from support.inprocess import START_MS, Caller, Rig

# More entries than a chunk has, so that there are packed ones.
LONG_COUNT = 2500


def rows_payload(store: Store, *, block_size: int = 64 * 1024) -> bytes:
    """The dataset in the form of rows."""
    return b"".join(rows_blocks(store, block_size=block_size))


def rows_blocks(store: Store, *, block_size: int = 64 * 1024) -> Iterable[bytes]:
    """The beginning and the blocks of the dataset in the form of rows."""
    content = write_file(
        parts_now(store),
        {b"repl-stream-db": b"0"},
        now_ms=START_MS,
        has_checksum=False,
        block_size=block_size,
        form=ROWS,
    )
    return [block for block in framed(content) if block]


def short_scene() -> Rig:
    """Few entries in all kinds of state."""
    rig = Rig()
    caller = rig.connect()
    caller.call("SET k v", "SET e v PXAT 1999999999999", "XADD one 1-1 f v")
    caller.call(*(f"XADD s {number}-1 f v{number} g w" for number in range(1, 9)))
    fill_groups(caller, "s")
    caller.call("SELECT 3", "SET two 2", "XADD s 5-5 f v", "XGROUP CREATE s g $ ENTRIESREAD 1")
    return rig


def fill_groups(caller: Caller, key: str) -> None:
    """Groups, of a stream that has the entries 1-1 to 8-1."""
    caller.call(
        f"XGROUP CREATE {key} g 0", f"XGROUP CREATE {key} h 0", f"XGROUP CREATE {key} bare 3-1",
        f"XREADGROUP GROUP g a COUNT 3 STREAMS {key} >", f"XREADGROUP GROUP g b COUNT 3 STREAMS {key} >",
        f"XREADGROUP GROUP h a COUNT 8 STREAMS {key} >", f"XGROUP CREATECONSUMER {key} h idle",
        # Released in another order than that of the IDs, and one that was never delivered.
        f"XNACK {key} g FAIL IDS 1 5-1", f"XNACK {key} g FATAL IDS 1 2-1", f"XNACK {key} g SILENT IDS 1 7-1 FORCE",
        # Claimed: out of order by time; with an entry that does not exist any more.
        f"XCLAIM {key} h b 0 6-1 TIME 1600000000000 RETRYCOUNT 7", f"XCLAIM {key} h b 0 2-1 3-1 TIME 5",
        f"XDEL {key} 3-1", f"XACK {key} h 4-1",
        f"XADD {key} IDMP p i1 * f v", f"XADD {key} IDMP p i1 * f v", f"XADD {key} IDMP q i2 * f v",
        f"XGROUP CONFIG {key} g REDELIVER 100000000,200000000 MAX-DELIVERIES 9",
        f"XCFGSET {key} MAXLEN 5000",
        f"XNACK {key} h FAIL IDS 1 1-1 DELAY 1000000",
        f"PEXPIRE {key} 10000000",
    )  # fmt: skip


def long_scene(*, seed: int = 1) -> Rig:
    """Streams of several chunks in each form that a chunk can have."""
    draw = random.Random(seed)
    rig = Rig()
    caller = rig.connect()
    for number in range(1, LONG_COUNT):
        sensor, kind, value = f"sensor-{draw.randrange(10**6):012}", f"k{draw.randrange(3)}", "v" * draw.randrange(9)
        caller.call(f"XADD rows {number}-1 sensor {sensor} kind {kind} value '{value}'")
        caller.call(f"XADD long {number}-1 f {draw.choice('ab') * 700}")
        caller.call(f"XADD mixed {number}-1 f v" + (f" g{number} {number}" if number % 7 == 0 else ""))
    chunk_module.pack_sealed(False)
    for number in range(1, LONG_COUNT):
        caller.call(f"XADD plain {number}-1 f {draw.randrange(10**9)}")
    chunk_module.pack_sealed(True)
    for key in ("rows", "long", "mixed", "plain"):
        fill_groups(caller, key)
        caller.call(f"XGROUP CREATE {key} all 0")
        for number in range(30):
            caller.call(f"XREADGROUP GROUP all c{number % 7} COUNT {draw.randrange(1, 80)} STREAMS {key} >")
        for number in draw.sample(range(9, LONG_COUNT), 300):
            caller.call(f"XDEL {key} {number}-1", f"XACK {key} all {number + 1}-1")
        for number in draw.sample(range(9, LONG_COUNT), 40):
            caller.call(f"XCLAIM {key} all late 0 {number}-1 FORCE TIME {draw.randrange(10**12)}")
    caller.call("XTRIM mixed MINID 700", "XDEL plain 2499-1", "XADD low 9-9 f v", "XDEL low 9-9", "XSETID low 5-1")
    caller.call("XADD low 6-1 f v", "XGROUP CREATE low g 0", "XCLAIM low g c 0 6-1 FORCE")
    return rig


def state_of(store: Store) -> object:
    """Everything that a replica must have as its primary has it, in the order in which it is handed out again."""
    state: dict[object, object] = dict(digest_of(store))
    for image in keys_now_of_streams(store):
        value = image.value
        assert isinstance(value, StreamImage)
        state["policy", image.db_index, image.key] = [*map(tuple, lines_of(image.key, value))]
        state["consumers", image.db_index, image.key] = [
            (group.name, each.name, each.seen_ms, each.active_ms, each.pending_count)
            for group in value.groups
            for each in group.consumers
        ]
        state["counters", image.db_index, image.key] = value.idempotence.added, value.idempotence.duplicates
        value.nodes.settle(value.log, value.limits)
        state["nodes", image.db_index, image.key] = [node.shape for node in value.nodes.nodes]
        state["log", image.db_index, image.key] = value.log.memory_size, value.log.first_id, value.log.last_id
    return state


def keys_now_of_streams(store: Store) -> Iterable:  # type: ignore[type-arg]
    """The keys that have streams."""
    return [image for image in keys_now(store) if isinstance(image.value, StreamImage)]


def check(store: Store) -> None:
    """All views of all streams agree."""
    for db in store.databases:
        for _, value in db.keys.items():
            if isinstance(value, Stream):
                value.check()
