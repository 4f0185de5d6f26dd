"""A full synchronization between two servers that both have the form of rows: equal data, other versions, damage."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

from headrace.commands.clients.replica import ReplicaState
from headrace.persistence.errors import RdbError
from headrace.persistence.rdb.lengths import encode_length
from headrace.persistence.rows.blocks import MAGIC
from headrace.persistence.rows.streams import CAN_USE, CAPABILITY, KIND
from headrace.replication.following import RETRY_MS
from headrace.server.replication.arrival import Arrival, Progress
from headrace.store.database import Store
from support.digest import digest_of
from support.fake_primary import FakePrimary, listening, payload_of, until
from support.inprocess import START_MS, Clock, Rig, Running, running_server
from support.rows_scene import check, long_scene, rows_blocks, rows_payload, short_scene, state_of

pytestmark = pytest.mark.skipif(not CAN_USE, reason="without C code there is no form of rows")

HEADER_SIZE = 8


@cache
def replica_rig() -> Rig:
    """A server for all datasets that arrive: none of them is put in the place of its own."""
    return Rig()


def new_arrival() -> Arrival:
    return Arrival(replica_rig().config, replica_rig().server.context, START_MS)


def load(arrival: Arrival) -> Arrival:
    """Load what has arrived, which is all there is."""
    arrival.complete()
    while arrival.step() is not Progress.LOADED:
        pass
    return arrival


def arrived(payload: bytes, size: int = 1 << 30) -> Arrival:
    """The dataset, which arrives in pieces of this size."""
    arrival = new_arrival()
    for start in range(0, len(payload), size):
        arrival.add(payload[start : start + size])
        while arrival.step() is Progress.MORE:
            pass
    return load(arrival)


# -- equal data ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_streams_of_many_chunks_arrive_as_they_are(seed: int) -> None:
    source = long_scene(seed=seed).server.store
    arrival = arrived(rows_payload(source), 50_000)
    assert state_of(arrival.store) == state_of(source)
    check(arrival.store)


@pytest.mark.parametrize("size", [1, 2, 7, 50, 1 << 20])
def test_all_kinds_of_state_arrive_in_pieces_of_any_size(size: int) -> None:
    source = short_scene().server.store
    arrival = arrived(rows_payload(source, block_size=100), size)
    assert state_of(arrival.store) == state_of(source)
    check(arrival.store)
    assert arrival.has_rows


def test_what_arrived_changes_as_what_was_sent() -> None:
    """The copy is a whole store: it takes the same commands, with the same replies, and sends what it has on."""
    source, copy = long_scene(), Rig()
    copy.server.store.databases[0].swap_with(arrived(rows_payload(source.server.store)).store.databases[0], START_MS)
    lines = [
        "XADD rows 9000-1 f v", "XTRIM long MAXLEN ~ 900", "XTRIM plain MAXLEN 1500", "XDEL mixed 1400-1 1401-1",
        "XAUTOCLAIM rows all new 0 0 COUNT 2000 JUSTID", "XREADGROUP GROUP all c1 COUNT 3000 STREAMS plain >",
        "XACK long all 20-1 21-1", "XNACK long h FAIL IDS 1 8-1", "XADD low 7-7 f v", "XADD mixed IDMP p i1 * f v",
    ]  # fmt: skip
    callers = [source.connect(), copy.connect()]
    for line in lines:
        assert len({caller.call(line) for caller in callers}) == 1, line
    again = arrived(rows_payload(copy.server.store)).store
    assert digest_of(copy.server.store) == digest_of(source.server.store) == digest_of(again)
    check(again)


def test_a_large_dataset_is_loaded_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice ends after some blocks, also in the middle of a stream."""
    payload = rows_payload(long_scene().server.store, block_size=4096)
    ticks = iter(range(10**9))
    monkeypatch.setattr("headrace.server.replication.arrival.perf_counter_ns", lambda: next(ticks) * 1_000_000)
    arrival = new_arrival()
    arrival.add(payload)
    arrival.complete()
    steps_count = 0
    while arrival.step() is not Progress.LOADED:
        steps_count += 1
    assert steps_count > 3


# -- damage ----------------------------------------------------------------------------------------


def refused(payload: bytes) -> str:
    """The reason for which a dataset is refused."""
    arrival = new_arrival()
    arrival.add(payload)
    with pytest.raises(RdbError) as failure:
        load(arrival)
    arrival.drop()
    return str(failure.value)


def test_a_cut_at_every_byte_is_refused_in_one_line() -> None:
    payload = rows_payload(short_scene().server.store, block_size=100)
    for size in range(len(MAGIC), len(payload)):
        assert "\n" not in refused(payload[:size])


def test_every_damaged_byte_is_refused_in_one_line() -> None:
    blocks = [*rows_blocks(short_scene().server.store, block_size=100)]
    payload = b"".join(blocks)
    for index in range(len(MAGIC), len(payload)):
        damaged = bytearray(payload)
        damaged[index] ^= 0x04
        assert "\n" not in refused(bytes(damaged))


def test_a_block_that_is_missing_is_refused() -> None:
    blocks = [*rows_blocks(long_scene().server.store, block_size=8192)]
    for index in range(1, len(blocks), 7):
        assert "is damaged" in refused(b"".join([*blocks[:index], *blocks[index + 1 :]])) or index == len(blocks) - 1


def reframed(content: bytes) -> bytes:
    """One block with a right checksum."""
    return MAGIC + struct.pack("<II", len(content), crc32(content)) + content


def contents(store: Store) -> bytes:
    """What the blocks contain."""
    return b"".join([block[HEADER_SIZE:] for block in rows_blocks(store) if block != MAGIC])


def test_wrong_bytes_under_a_right_checksum_are_refused_or_other_data() -> None:
    """A primary that is wrong can send anything. Nothing but an RdbError ends the load, and what is loaded is whole."""
    content = contents(short_scene().server.store)
    for index in range(len(content)):
        change = (0x01, 0x80)[index % 2]
        wrong = content[:index] + bytes((content[index] ^ change,)) + content[index + 1 :]
        arrival = new_arrival()
        arrival.add(reframed(wrong))
        try:
            load(arrival)
        except RdbError:
            arrival.drop()
        else:
            state_of(arrival.store)


@pytest.mark.parametrize("count", [1 << 40, 1 << 63, (1 << 64) - 1])
def test_an_announced_size_reserves_no_memory(count: int) -> None:
    """Of chunks, of the bytes of a chunk, of nodes, and of pending entries."""
    size, head = encode_length(count), b"REDIS0015" + bytes((KIND,)) + b"\x01s"
    assert "a stream of it is damaged" in refused(reframed(head + size + bytes(100)))
    assert "it ends within block 2" in refused(reframed(head + b"\x01" + bytes(5) + size + bytes(100)))
    assert "it ends within block 2" in refused(reframed(head + b"\0" + size + b"\0" + bytes(100)))
    empty = head + bytes(2) + bytes(4) + b"\0" + bytes(2) + b"\x01\x01g" + bytes(2) + b"\0"
    assert "it ends within block 2" in refused(reframed(empty + size))
    assert "in a page of another size" in refused(reframed(empty + b"\0" + size + size + bytes(100)))


def test_rows_in_a_file_without_the_frame_are_refused() -> None:
    """dump.rdb and Redis' payloads stay RDB: the type is unknown there."""
    assert f"Unknown RDB encoding type {KIND}" in refused(contents(short_scene().server.store))


# -- links -----------------------------------------------------------------------------------------


async def synced(replica: Running, primary: Running) -> None:
    """Wait until the replica has everything of the primary."""
    replica.server.following.follow(b"127.0.0.1", primary.port)
    await until(lambda: replica.server.following.is_up)
    await until(lambda: replica.server.primary.history.offset == primary.server.primary.history.offset)


@pytest.mark.parametrize("diskless", [True, False], ids=["direct", "file"])
async def test_a_server_synchronizes_with_a_server(
    diskless: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Direct or by a file, and with no delay: the dataset, and what came after it."""
    clock = Clock()
    caplog.set_level(logging.INFO)
    async with AsyncExitStack() as stack:
        primary, replica = [
            await stack.enter_async_context(running_server(clock=clock, dir=bytes(tmp_path), save=b"", **directives))
            for directives in ({"repl_diskless_sync": diskless, "repl_diskless_sync_delay": 5}, {"port": 1})
        ]
        store = primary.server.store
        for db, filled in zip(store.databases, short_scene().server.store.databases, strict=True):
            db.swap_with(filled, clock())
        await synced(replica, primary)
        peer = await primary.connect()
        peer.send("XADD", "s", "9999999999999-1", "f", "v")
        await peer.line()
        await until(lambda: replica.server.primary.history.offset == primary.server.primary.history.offset)
        assert state_of(replica.server.store) == state_of(store)
        assert not list(tmp_path.iterdir())
    assert "MASTER <-> REPLICA sync: Finished with success" in caplog.text


async def handshake_of(replica: Running, primary: FakePrimary) -> list[bytes]:
    """The capabilities that a replica announces in its next attempt."""
    await until(lambda: replica.server.following.last_error)
    return [request for request in primary.requests if request[1:2] == [b"capa"]][-1]


async def test_after_rows_that_cannot_be_taken_a_replica_asks_for_an_rdb(caplog: pytest.LogCaptureFixture) -> None:
    """A version that it does not know, and damage: the old data are kept, and the next attempt is without rows."""
    store = short_scene().server.store
    good = rows_payload(store)
    damaged = bytearray(good)
    damaged[-5] ^= 1
    for wrong, line in (
        (good.replace(b"HRROWS01", b"HRROWS02"), "its rows have version '02', and this server reads version 1"),
        (bytes(damaged), "block 2 of it is damaged: its checksum is wrong"),
    ):
        clock, primary = Clock(), FakePrimary(wrong, b"")
        async with listening(primary), running_server(clock=clock) as replica:
            client = await replica.connect()
            client.send("SET", "mine", "1")
            await client.line()
            replica.server.following.follow(b"127.0.0.1", primary.port)
            assert await handshake_of(replica, primary) == [b"REPLCONF", b"capa", b"psync2", b"capa", CAPABILITY]
            assert replica.server.store.databases[0].keys[b"mine"] == b"1"
            text = (
                f"The dataset of the primary cannot be taken: {line}. The old data are kept. Next attempt in 1 seconds"
            )
            assert f"{text}, for an RDB" in caplog.text
            primary.payload = payload_of(store)
            clock.advance(RETRY_MS)
            replica.server.following.cron(clock(), is_new_second=False)
            await until(lambda: replica.server.following.is_up)
            assert primary.requests[-2] == [b"REPLCONF", b"capa", b"psync2"]
            assert digest_of(replica.server.store) == digest_of(store)


async def test_a_primary_without_rows_sends_an_rdb_to_a_replica_that_asks_for_them() -> None:
    """As a Redis, or an older Headrace, which do not know the word."""
    store = short_scene().server.store
    primary = FakePrimary(payload_of(store), b"")
    async with listening(primary), running_server(clock=Clock()) as replica:
        replica.server.following.follow(b"127.0.0.1", primary.port)
        await until(lambda: replica.server.following.is_up)
        assert digest_of(replica.server.store) == digest_of(store)


@pytest.mark.parametrize("word", [b"headrace-rows-2", b"headrace-rows", b"HEADRACE-ROWS-1"])
async def test_a_replica_of_another_version_gets_an_rdb(word: bytes, tmp_path: Path) -> None:
    async with running_server(dir=bytes(tmp_path), save=b"", repl_diskless_sync_delay=0) as primary:
        peer = await primary.connect()
        peer.send("REPLCONF", "capa", "eof", "capa", "psync2", "capa", word)
        assert await peer.line() == b"+OK\r\n"
        peer.send("PSYNC", "?", "-1")
        assert (await peer.line()).startswith(b"+FULLRESYNC")
        assert (await peer.line()).startswith(b"$EOF:")
        expected = MAGIC[:5] if word.lower() == CAPABILITY else b"REDIS"
        assert await peer.reader.readexactly(5) == expected


async def test_replicas_of_both_kinds_get_each_its_own_snapshot(tmp_path: Path) -> None:
    async with running_server(clock=Clock(), dir=bytes(tmp_path), save=b"", repl_diskless_sync_delay=0) as primary:
        found = []
        peers = [await primary.connect() for _ in range(4)]
        for peer, words in zip(peers, ([], ["capa", CAPABILITY], ["capa", "eof"], ["capa", CAPABILITY]), strict=True):
            peer.send("REPLCONF", "capa", "psync2", *words)
            assert await peer.line() == b"+OK\r\n"
            peer.send("PSYNC", "?", "-1")

        def has_begun_all() -> bool:
            primary.server.primary.cron(START_MS, is_new_second=False)
            links = primary.server.primary.links
            return len(links) == 4 and all(link.replica.state is not ReplicaState.WAITING for link in links)

        await until(has_begun_all)
        for peer in peers:
            while (await peer.line())[:1] != b"$":
                pass
            found.append(await peer.reader.readexactly(5))
        assert found == [b"REDIS", MAGIC[:5], b"REDIS", MAGIC[:5]]


async def test_a_link_that_is_cut_within_rows_leaves_the_old_data() -> None:
    """At every boundary of a block, and within it. The next attempt asks for rows again."""
    store = short_scene().server.store
    blocks = [*rows_blocks(store, block_size=400)]
    payload = b"".join(blocks)
    sizes = cuts(blocks)
    for size in sizes:
        clock, primary = Clock(), FakePrimary(payload, b"")
        primary.budgets = [primary.whole_size - len(payload) + size]
        async with listening(primary), running_server(clock=clock) as replica:
            client = await replica.connect()
            client.send("SET", "mine", "1")
            await client.line()
            replica.server.following.follow(b"127.0.0.1", primary.port)
            await until(lambda replica=replica: replica.server.following.last_error)  # type: ignore[misc]
            assert dict(replica.server.store.databases[0].keys.items()) == {b"mine": b"1"}
            clock.advance(RETRY_MS)
            replica.server.following.cron(clock(), is_new_second=False)
            await until(lambda replica=replica: replica.server.following.is_up)  # type: ignore[misc]
            assert state_of(replica.server.store) == state_of(store)


def cuts(blocks: list[bytes]) -> Iterator[int]:
    """Sizes at each boundary of a block, and around it, and in the middle."""
    end = 0
    for block in blocks[:-1]:
        end += len(block)
        yield from (end - len(block) // 2, end - 1, end, end + 1, end + HEADER_SIZE)
