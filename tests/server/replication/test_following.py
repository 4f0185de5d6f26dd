"""A replica and a primary of the test: links that are cut anywhere, refusals, roles."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import pytest

from headrace.persistence.rows.streams import CAN_USE, CAPABILITY
from headrace.replication.following import RETRY_MS
from headrace.server.reports.series import SERVER_SERIES
from support.certificates import Authority
from support.digest import Digest, digest_of
from support.fake_primary import ID, FakePrimary, listening, payload_of, stream_of, until
from support.inprocess import START_MS, Clock, Rig, Running, running_server

FILL = [
    "SET k v", "XADD s 1-1 f v g w", "XADD s 2-1 f v g w", "XGROUP CREATE s g 0",
    "XREADGROUP GROUP g a COUNT 1 STREAMS s >", "XNACK s g FAIL IDS 1 1-1", "SELECT 2", "SET two 2",
]  # fmt: skip
# Units that are applied as a whole.
UNITS = [
    ["SELECT 0"],
    ["XADD s 3-1 f v"],
    ["MULTI", "XADD s 4-1 f v", "SET k w", "SELECT 2", "SET two 3", "EXEC"],
    ["ping"],
    ["SELECT 0"],
    ["XCLAIM s g b 0 2-1 TIME 1700000000000 RETRYCOUNT 3 FORCE JUSTID LASTID 2-1"],
    ["SET last 1"],
]
STREAM = [line for unit in UNITS for line in unit]
START = 100
EXPIRED_MS = START_MS - 1


class Reference:
    """The dataset that a replica must have at each offset."""

    def __init__(self) -> None:
        rig = Rig()
        caller = rig.connect()
        caller.call(*FILL)
        db = rig.server.store.databases[0]
        db.put(b"old", b"v")
        db.expires[b"old"] = EXPIRED_MS
        self.payload = payload_of(rig.server.store)
        rig.server.store.keep_expired(True)
        offset = START
        self.digests: dict[int, Digest] = {offset: digest_of(rig.server.store)}
        for unit in UNITS:
            caller.call(*unit)
            offset += len(stream_of(*unit))
            self.digests[offset] = digest_of(rig.server.store)

    def primary(self) -> FakePrimary:
        """A primary with this dataset and stream."""
        return FakePrimary(self.payload, stream_of(*STREAM), start=START)


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference()


class Replica:
    """A server that follows, and whose time the test moves."""

    def __init__(self, running: Running, clock: Clock) -> None:
        self.running = running
        self.server = running.server
        self.following = running.server.following
        self.clock = clock

    @property
    def offset(self) -> int:
        return self.server.primary.history.offset

    @property
    def digest(self) -> Digest:
        return digest_of(self.server.store)

    def follow(self, primary: FakePrimary) -> None:
        self.following.follow(b"127.0.0.1", primary.port)

    def pass_time(self, ms: int, *, is_new_second: bool = False) -> None:
        self.clock.advance(ms)
        self.following.cron(self.clock(), is_new_second=is_new_second)

    async def synced(self, primary: FakePrimary) -> None:
        """Wait until all of the stream is applied; failed attempts are repeated when their time has come."""
        while not (self.following.is_up and self.offset == primary.end):
            await until(lambda: self.following.link is None or self.offset == primary.end)
            if self.following.link is None:
                self.pass_time(RETRY_MS)
            await asyncio.sleep(0)

    async def ask(self, *words: str) -> bytes:
        """The first line of a reply."""
        peer = await self.running.connect()
        peer.send(*words)
        line = await peer.line()
        peer.writer.close()
        return line


@asynccontextmanager
async def replica_of(primary: FakePrimary | None = None, **directives: object) -> AsyncIterator[Replica]:
    clock = Clock()
    async with running_server(clock=clock, **directives) as running:
        replica = Replica(running, clock)
        if primary is not None:
            replica.follow(primary)
        yield replica


# -- the whole way ---------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 7, 100_000])
@pytest.mark.parametrize("mark", [b"", b"m" * 40])
async def test_a_replica_has_what_the_primary_has(reference, step, mark):
    primary = reference.primary()
    primary.step, primary.mark = step, mark
    if mark:
        primary.stream = b""
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        assert replica.digest == reference.digests[replica.offset]
        assert replica.server.primary.history.replid == ID.decode()
        assert primary.requests == [
            [b"PING"],
            [b"REPLCONF", b"listening-port", b"%d" % replica.server.config.port],
            [b"REPLCONF", b"capa", b"psync2", *([b"capa", CAPABILITY] if CAN_USE else [])],
            [b"PSYNC", b"?", b"-1"],
        ]


async def test_a_link_may_be_cut_at_every_byte(reference):
    """After each cut the dataset is that of the offset, and the next link brings what was missing, and only that."""
    for size in range(1, reference.primary().whole_size):
        primary = reference.primary()
        primary.budgets = [size]
        async with listening(primary), replica_of() as replica:
            replica.follow(primary)
            await until(lambda: replica.following.link is None)
            was_synced = replica.server.primary.backlog is not None
            offset = replica.offset if was_synced else None
            assert replica.digest == (reference.digests[offset] if offset is not None else {}), size
            await replica.synced(primary)
            asked = [b"?", b"-1"] if offset is None else [ID, b"%d" % (offset + 1)]
            assert primary.requests[-1] == [b"PSYNC", *asked], size
            assert replica.digest == reference.digests[primary.end], size
            await caught_up(replica, primary)
            assert bytes(replica.server.primary.backlog.read(START)) == primary.stream


async def caught_up(replica: Replica, primary: FakePrimary) -> None:
    """Wait until the bytes of the stream are kept for replicas."""
    await until(lambda: replica.server.primary.backlog.end == primary.end)


async def test_old_data_are_served_until_the_new_are_complete(reference):
    primary = reference.primary()
    primary.budgets = [len(primary.payload)]
    async with listening(primary), replica_of() as replica:
        assert await replica.ask("SET", "mine", "1") == b"+OK\r\n"
        replica.follow(primary)
        await until(lambda: replica.following.link is None)
        assert await replica.ask("GET", "mine") == b"$1\r\n"
        await replica.synced(primary)
        assert await replica.ask("GET", "mine") == b"$-1\r\n"


# -- attempts --------------------------------------------------------------------------------------


async def test_a_lost_link_is_tried_at_once_and_then_once_a_second(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        primary.budgets = [3]
        primary.cut_all()
        await until(lambda: primary.connections_count == 2 and replica.following.link is None)
        replica.pass_time(RETRY_MS - 1)
        assert replica.following.link is None
        replica.pass_time(1)
        assert replica.following.link is not None
        await replica.synced(primary)
        assert replica.following.attempts.total_count == 3


async def test_metrics_show_the_link_and_when_it_last_failed(reference):
    def shown(replica: Replica) -> tuple[float | None, float | None]:
        series = {each.name: dict(each.read(replica.server)) for each in SERVER_SERIES}
        names = ("headrace_primary_link_up", "headrace_primary_link_failure_timestamp_seconds")
        return tuple(series[name].get(()) for name in names)

    primary = reference.primary()
    async with listening(primary), replica_of() as replica:
        assert shown(replica) == (None, None)
        replica.follow(primary)
        assert shown(replica) == (0, None)
        await replica.synced(primary)
        assert shown(replica) == (1, None)
        primary.cut_all()
        await until(lambda: replica.following.failed_ms is not None)
        failed_s = replica.clock() / 1000
        await replica.synced(primary)
        replica.pass_time(RETRY_MS)
        assert shown(replica) == (1, failed_s)
        assert await replica.ask("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
        assert shown(replica) == (None, failed_s)


async def test_maxmemory_applies_from_the_moment_of_the_promotion(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary, maxmemory=1) as replica:
        await replica.synced(primary)
        peer = await replica.running.connect()
        peer.send("REPLICAOF", "NO", "ONE")
        peer.send("SET", "k", "v")
        assert await peer.line() == b"+OK\r\n"
        assert (await peer.line()).startswith(b"-OOM ")


@pytest.mark.parametrize("answer", [b"-NOMASTERLINK no\r\n", b"-LOADING x\r\n", b"-ERR unknown\r\n", b"-NOPERM x\r\n"])
async def test_an_error_to_psync_is_tried_again_after_a_second(reference, answer):
    primary = reference.primary()
    primary.answers[b"PSYNC"] = answer
    async with listening(primary), replica_of(primary) as replica:
        await until(lambda: replica.following.last_error)
        assert answer[1:-2].decode() in replica.following.last_error
        replica.pass_time(RETRY_MS - 1)
        assert replica.following.link is None
        del primary.answers[b"PSYNC"]
        await replica.synced(primary)
        assert [b"SYNC"] not in primary.requests


async def test_a_silent_primary_is_left_after_the_timeout(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary, repl_timeout=60) as replica:
        await replica.synced(primary)
        replica.pass_time(60_000)
        assert replica.following.is_up
        replica.pass_time(1)
        assert replica.following.link is None
        await replica.synced(primary)


async def test_a_damaged_dataset_is_refused_and_the_old_one_kept(reference):
    primary = reference.primary()
    good = primary.payload
    primary.payload = good[:-9] + b"\xff" + good[-8:-1] + bytes((good[-1] ^ 1,))
    async with listening(primary), replica_of() as replica:
        await replica.ask("SET", "mine", "1")
        replica.follow(primary)
        await until(lambda: replica.following.is_refusing)
        assert "Wrong RDB checksum" in replica.following.last_error
        assert await replica.ask("GET", "mine") == b"$1\r\n"
        primary.payload = good
        await replica.synced(primary)
        assert not replica.following.is_refusing


async def test_a_key_of_another_type_stops_the_sync_and_is_named(reference):
    primary = reference.primary()
    # Version 11, database 3, a value of a module (type 7) named `queue`, no checksum.
    primary.payload = b"REDIS0011\xfe\x03\x07\x05queue\x01\x00\xff" + bytes(8)
    async with listening(primary), replica_of() as replica:
        await replica.ask("SET", "mine", "1")
        replica.follow(primary)
        await until(lambda: replica.following.is_refusing)
        for word in ("'queue'", "database 3", "a value of a module"):
            assert word in replica.following.last_error
        assert await replica.ask("GET", "mine") == b"$1\r\n"
        assert b"slave_priority:0" in replica.server.context.server.reports.info([b"replication"])


async def test_a_command_that_is_not_served_stops_the_stream_before_it(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        offset = replica.offset
        primary.append("SET a 1", "MULTI", "SET c 1", "VADD queue 0 1", "EXEC", "SET b 1")
        await until(lambda: replica.following.is_refusing)
        assert "VADD on the vector set 'queue' in database 0" in replica.following.last_error
        assert replica.offset == offset + len(stream_of("SET a 1"))
        assert [await replica.ask("GET", key) for key in "acb"] == [b"$1\r\n", b"$-1\r\n", b"$-1\r\n"]
        # What was missed has the same command, so a snapshot is asked for. The pause grows nevertheless.
        replica.pass_time(RETRY_MS)
        await until(lambda: replica.following.attempts.total_count == 2 and replica.following.link is None)
        assert replica.following.is_refusing
        assert primary.requests[-1] == [b"PSYNC", b"?", b"-1"]
        assert replica.following.attempts.due_ms == replica.clock() + 2 * RETRY_MS
        # A snapshot that was made after the command, without what it has made.
        primary.start, primary.stream = primary.end, b""
        replica.pass_time(2 * RETRY_MS)
        await replica.synced(primary)
        assert not replica.following.is_refusing


async def test_pauses_grow_while_the_primary_has_what_cannot_be_taken(reference):
    primary = reference.primary()
    primary.payload = b"REDIS0011\x12\x05queue\x01\x02\x00\xff" + bytes(8)
    async with listening(primary), replica_of(primary) as replica:
        for attempts, pause_ms in enumerate((1000, 2000, 4000, 8000), 1):
            await until(lambda: replica.following.link is None and replica.following.is_refusing)
            assert replica.following.attempts.total_count == attempts
            replica.pass_time(pause_ms - 1)
            assert replica.following.link is None
            replica.pass_time(1)
            assert replica.following.link is not None


# -- the stream ------------------------------------------------------------------------------------


async def test_confirmations_name_what_was_applied(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        primary.append("MULTI", "SET a 1")
        await until(lambda: replica.following.link.incoming.received == primary.end)
        replica.pass_time(0, is_new_second=True)
        held = primary.end - len(stream_of("MULTI", "SET a 1"))
        await until(lambda: primary.confirmed and primary.confirmed[-1] == (held, None))
        primary.append("EXEC", "REPLCONF GETACK *", "SET b 1")
        asked = primary.end - len(stream_of("REPLCONF GETACK *", "SET b 1"))
        await until(lambda: primary.confirmed[-1] == (asked, None))
        await replica.synced(primary)


@pytest.mark.parametrize("line", ["PSYNC ? -1", "SYNC", "MULTI|SET a 1|DISCARD", "MULTI|DISCARD", "MONITOR"])
async def test_what_no_primary_sends_is_ignored(reference, caplog, line):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        primary.append(*line.split("|"), "SET b 1")
        await replica.synced(primary)
        assert [await replica.ask("GET", key) for key in "ab"] == [b"$-1\r\n", b"$1\r\n"]
        assert "internal error" not in caplog.text


@pytest.mark.parametrize("line", ["REPLICAOF NO ONE", "REPLICAOF 127.0.0.1 1"])
async def test_a_command_of_the_primary_may_close_the_link(reference, line):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        link, raised = replica.following.link, []
        asyncio.get_running_loop().set_exception_handler(lambda loop, details: raised.append(details))
        primary.append(line)
        await until(lambda: replica.following.link is not link)
        assert await replica.ask("PING") == b"+PONG\r\n"
        assert not raised


async def test_a_script_of_the_primary_writes_on_a_read_only_replica(reference):
    """Redis before 7.0 may send scripts as they are."""
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        primary.append("EVAL \"return redis.call('set', KEYS[1], 'v')\" 1 a")
        await replica.synced(primary)
        assert await replica.ask("GET", "a") == b"$1\r\n"


async def test_an_error_in_the_stream_is_counted_and_the_stream_continues(reference, caplog):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        primary.append("XADD k 1-1 f v", "XADD s 1-1 f v", "INCR k", "SET a 1")
        await replica.synced(primary)
        assert replica.server.stats.unexpected_error_replies == 3
        lines = [line for line in caplog.messages if "CRITICAL" in line]
        assert len(lines) == 1
        assert "after processing the command 'xadd'" in lines[0]
        assert await replica.ask("GET", "a") == b"$1\r\n"


async def test_no_id_is_made_for_the_primary(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        primary.append("XADD i IDMP p a 5-1 f v", "XADD i IDMP p a * f v", "XADD i IDMP p b * f v", "XADD i * f v")
        await replica.synced(primary)
        assert await replica.ask("XLEN", "i") == b":1\r\n"
        assert replica.server.stats.unexpected_error_replies == 2


async def test_forms_are_taken_that_clients_may_not_send(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        primary.append("XADD s MAXLEN = 2 LIMIT 5 9-1 f v", "XADD i IDMPAUTO p 1-1 f v", "SET gone v PXAT 1")
        await replica.synced(primary)
        assert replica.server.stats.unexpected_error_replies == 0
        assert await replica.ask("XLEN", "s") == b":2\r\n"
        assert b"gone" in replica.server.store.databases[0].keys


async def test_expired_keys_are_hidden_and_removed_only_by_the_primary(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        keys = replica.server.store.databases[0].keys
        assert await replica.ask("GET", "old") == b"$-1\r\n"
        replica.server.periodic.run()
        assert b"old" in keys
        # For the primary it has not expired.
        primary.append("APPEND old w")
        await replica.synced(primary)
        assert keys[b"old"] == b"vw"
        assert await replica.ask("EXISTS", "old") == b":0\r\n"
        primary.append("DEL old")
        await replica.synced(primary)
        assert b"old" not in keys


async def test_a_blocked_reader_is_served_by_what_arrives(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        reader = await replica.running.connect()
        reader.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
        await until(lambda: replica.server.blocked_count)
        primary.append("XADD s 7-1 f v")
        await reader.expect(b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n7-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n")


async def test_messages_of_the_primary_arrive(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        subscriber = await replica.running.connect()
        subscriber.send("SUBSCRIBE", "ch")
        await subscriber.expect(b"*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n")
        primary.append("PUBLISH ch m")
        await subscriber.expect(b"*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$1\r\nm\r\n")


async def test_a_pause_holds_writes_of_the_primary_too(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        offset = replica.offset
        assert await replica.ask("CLIENT", "PAUSE", "100000", "WRITE") == b"+OK\r\n"
        primary.append("SET a 1", "SET b 1")
        await until(lambda: replica.following.link.incoming.received == primary.end)
        assert replica.offset == offset
        assert await replica.ask("CLIENT", "UNPAUSE") == b"+OK\r\n"
        await replica.synced(primary)
        assert await replica.ask("GET", "b") == b"$1\r\n"


async def test_a_long_pipeline_of_the_primary_is_run_in_slices(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        primary.append(*[f"XADD long {number}-1 f v" for number in range(1, 3000)], "REPLCONF GETACK *")
        await replica.synced(primary)
        assert await replica.ask("XLEN", "long") == b":2999\r\n"
        await until(lambda: primary.confirmed[-1][0] == primary.end - len(stream_of("REPLCONF GETACK *")))


@pytest.mark.parametrize("is_paused", [False, True])
async def test_a_link_that_is_closed_between_slices_counts_what_was_run(reference, is_paused):
    """Commands that would change the dataset again are not sent again; half a transaction is."""
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        unit = ["INCR n", "MULTI", *["INCR n", "INCR m"] * 100, "EXEC"]
        lines = unit * 40
        primary.append(*lines)
        link, keys = replica.following.link, replica.server.store.databases[0].keys
        await until(lambda: b"m" in keys)
        if is_paused:
            await replica.ask("CLIENT", "PAUSE", "100000", "WRITE")
        assert 0 < int(keys[b"m"]) < 4000
        link.abort()
        done = replica.offset - reference.primary().end
        assert 0 < done < len(stream_of(*lines))
        assert int(keys[b"n"]) - int(keys[b"m"]) == -(-done // len(stream_of(*unit)))
        if is_paused:
            await replica.ask("CLIENT", "UNPAUSE")
        await replica.synced(primary)
        assert (int(keys[b"n"]), int(keys[b"m"])) == (4040, 4000)


# -- roles -----------------------------------------------------------------------------------------

READONLY = b"-READONLY You can't write against a read only replica.\r\n"
MASTERDOWN = b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n"


async def test_writes_of_clients_are_refused(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        for words in (
            ["SET", "a", "1"],
            ["XADD", "s", "*", "f", "v"],
            ["XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">"],
        ):
            assert await replica.ask(*words) == READONLY
        peer = await replica.running.connect()
        for words in (["MULTI"], ["GET", "k"], ["SET", "a", "1"], ["EXEC"]):
            peer.send(*words)
        await peer.expect(b"+OK\r\n+QUEUED\r\n" + READONLY)
        await peer.expect(b"-EXECABORT Transaction discarded because of previous errors.\r\n")
        assert await replica.ask("CONFIG", "SET", "replica-read-only", "no") == b"+OK\r\n"
        assert await replica.ask("SET", "a", "1") == b"+OK\r\n"


async def test_a_replica_needs_no_replicas(reference):
    primary = reference.primary()
    async with replica_of(min_replicas_to_write=1, replica_read_only=False) as replica:
        replica.server.primary.note_role(is_following=False)
        assert await replica.ask("SET", "a", "1") == b"-NOREPLICAS Not enough good replicas to write.\r\n"
        primary.port = 1
        replica.follow(primary)
        assert await replica.ask("SET", "a", "1") == b"+OK\r\n"
        assert await replica.ask("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
        assert await replica.ask("SET", "a", "1") == b"-NOREPLICAS Not enough good replicas to write.\r\n"


async def test_stale_data_are_refused_if_the_directive_says_so(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary, replica_serve_stale_data=False) as replica:
        await replica.synced(primary)
        assert await replica.ask("GET", "k") == b"$1\r\n"
        primary.budgets = [1]
        primary.cut_all()
        await until(lambda: replica.following.link is None and primary.connections_count > 1)
        assert await replica.ask("GET", "k") == MASTERDOWN
        assert await replica.ask("PING") == MASTERDOWN
        assert await replica.ask("SET", "k", "1") == READONLY
        assert (await replica.ask("INFO")).startswith(b"$")
        await replica.synced(primary)
        assert await replica.ask("GET", "k") == b"$1\r\n"


async def test_a_change_of_role_ends_blocked_clients(reference):
    primary = reference.primary()
    async with listening(primary), replica_of() as replica:
        blocked = await replica.running.connect()
        blocked.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
        waiting = await replica.running.connect()
        waiting.send("WAIT", "1", "0")
        await until(lambda: replica.server.blocked_count == 2)
        assert await replica.ask("REPLICAOF", "127.0.0.1", str(primary.port)) == b"+OK\r\n"
        text = b"-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n"
        for peer in (blocked, waiting):
            await peer.expect(text)
            await peer.expect_end()


async def test_a_promoted_replica_continues_the_history_under_a_new_id(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        assert await replica.ask("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
        history = replica.server.primary.history
        assert (history.former_id, history.former_end) == (ID.decode(), primary.end + 1)
        assert history.replid not in (ID.decode(), history.former_id)
        assert history.offset == primary.end
        # The stream continues with SELECT.
        assert await replica.ask("SET", "a", "1") == b"+OK\r\n"
        assert history.offset == primary.end + len(stream_of("SELECT 0", "SET a 1"))
        assert replica.digest.keys() - {(0, b"a")} == reference.digests[primary.end].keys()


async def test_a_transaction_that_was_queued_before_is_discarded(reference):
    primary = reference.primary()
    async with listening(primary), replica_of() as replica:
        peer = await replica.running.connect()
        for words in (["MULTI"], ["SET", "a", "1"]):
            peer.send(*words)
        await peer.expect(b"+OK\r\n+QUEUED\r\n")
        await replica.ask("REPLICAOF", "127.0.0.1", str(primary.port))
        peer.send("EXEC")
        await peer.expect(b"-EXECABORT Transaction discarded because of: " + READONLY[1:])


async def test_a_primary_that_becomes_a_replica_asks_with_its_own_history(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        await replica.ask("REPLICAOF", "NO", "ONE")
        own = replica.server.primary.history
        expected = [b"PSYNC", own.replid.encode(), b"%d" % (own.offset + 1)]
        replica.follow(primary)
        await replica.synced(primary)
        assert primary.requests[-1] == expected


async def test_a_new_id_of_the_history_is_taken(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        new_id = b"f" * 40
        primary.answers[b"PSYNC"] = b"+CONTINUE %b\r\n" % new_id
        primary.cut_all()
        await until(lambda: replica.following.is_up and replica.server.primary.history.replid == new_id.decode())
        history = replica.server.primary.history
        assert (history.former_id, history.former_end) == (ID.decode(), primary.end + 1)


async def test_role_and_hello_name_the_replica(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        peer = await replica.running.connect()
        peer.send("ROLE")
        port = primary.port
        await peer.expect(
            b"*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:%d\r\n$9\r\nconnected\r\n:%d\r\n" % (port, primary.end)
        )
        peer.send("REPLICAOF", "127.0.0.1", port)
        await peer.expect(b"+OK Already connected to specified master\r\n")
        peer.send("CONFIG", "GET", "replicaof")
        value = b"127.0.0.1 %d" % port
        await peer.expect(b"*2\r\n$9\r\nreplicaof\r\n$%d\r\n%b\r\n" % (len(value), value))


async def test_the_link_can_be_killed_as_a_client_of_type_master(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        assert await replica.ask("CLIENT", "KILL", "TYPE", "master") == b":1\r\n"
        await until(lambda: primary.connections_count == 2)
        await replica.synced(primary)


@pytest.mark.parametrize("words", [["REPLICAOF", "h", "70000"], ["REPLICAOF", "h", "x"], ["SLAVEOF", "h", "-1"]])
async def test_a_wrong_port_is_refused(words):
    async with replica_of() as replica:
        assert await replica.ask(*words) == b"-ERR Invalid master port\r\n"
        assert replica.following.address is None


# -- the way to the primary ------------------------------------------------------------------------


async def test_a_start_follows_the_primary_of_the_configuration(reference):
    primary = reference.primary()
    async with listening(primary), replica_of(replicaof=b"127.0.0.1 %d" % primary.port) as replica:
        assert replica.following.address == (b"127.0.0.1", primary.port)
        replica.pass_time(0)
        await replica.synced(primary)
        assert replica.digest == reference.digests[primary.end]


async def test_a_replica_logs_in_and_announces_itself(reference):
    primary = reference.primary()
    primary.answers[b"PING"] = b"-NOAUTH Authentication required.\r\n"
    directives = {
        "masteruser": b"u", "masterauth": b"secret", "replica_announce_ip": b"10.0.0.1", "replica_announce_port": 77,
    }  # fmt: skip
    async with listening(primary), replica_of(primary, **directives) as replica:
        await replica.synced(primary)
        assert primary.requests[1:4] == [
            [b"AUTH", b"u", b"secret"],
            [b"REPLCONF", b"listening-port", b"77"],
            [b"REPLCONF", b"ip-address", b"10.0.0.1"],
        ]


@pytest.mark.parametrize("password", [b"", b"sesame"])
async def test_the_link_may_use_tls(reference, tmp_path, password):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("primary")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.file))
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_REQUIRED
    own_certificate, own_key = authority.issue("replica", password=password)
    primary = reference.primary()
    directives = {
        "tls_replication": True,
        "tls_ca_cert_file": os.fsencode(authority.file),
        "tls_client_cert_file": os.fsencode(own_certificate),
        "tls_client_key_file": os.fsencode(own_key),
        "tls_client_key_file_pass": password,
    }
    async with listening(primary, tls=context), replica_of(primary, **directives) as replica:
        await replica.synced(primary)
        assert replica.digest == reference.digests[primary.end]


async def test_a_primary_of_another_authority_is_not_followed(reference, tmp_path):
    (tmp_path / "other").mkdir()
    certificate, key = Authority(tmp_path / "other").issue("primary")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    primary = reference.primary()
    directives = {"tls_replication": True, "tls_ca_cert_file": os.fsencode(Authority(tmp_path).file)}
    async with listening(primary, tls=context), replica_of(primary, **directives) as replica:
        await until(lambda: replica.following.last_error)
        assert "certificate verify failed" in replica.following.last_error
        assert primary.requests == []


async def test_a_missing_certificate_is_named(reference):
    primary = reference.primary()
    async with (
        listening(primary),
        replica_of(primary, tls_replication=True, tls_client_cert_file=b"/no.crt") as replica,
    ):
        await until(lambda: replica.following.last_error)
        assert "Failed to load certificate: /no.crt" in replica.following.last_error


async def test_a_port_where_no_server_is_is_tried_again(reference):
    primary = reference.primary()
    async with replica_of() as replica:
        primary.port = 1
        replica.follow(primary)
        await until(lambda: replica.following.last_error)
        assert await replica.ask("ROLE") == b"*5\r\n"
        assert b"master_link_status:down" in replica.server.context.server.reports.info([b"replication"])


# -- replicas of a replica -------------------------------------------------------------------------


@asynccontextmanager
async def chain(reference: Reference, folder: Path) -> AsyncIterator[tuple[FakePrimary, Replica, Replica]]:
    primary = reference.primary()
    directives = {"dir": os.fsencode(folder), "save": b""}
    async with listening(primary), replica_of(primary, **directives) as middle, replica_of() as last:
        await middle.synced(primary)
        last.following.follow(b"127.0.0.1", middle.running.port)
        yield primary, middle, last


async def test_a_replica_of_a_replica_has_the_same_history(reference, tmp_path):
    async with chain(reference, tmp_path) as (primary, middle, last):
        await chained(middle, last)
        assert last.digest == middle.digest
        primary.append("MULTI", "SET a 1", "SELECT 1", "SET b 1", "EXEC", "ping", "SET c 1")
        await middle.synced(primary)
        await chained(middle, last)
        assert last.digest == middle.digest
        assert last.server.primary.history.replid == ID.decode()
        backlog = last.server.primary.backlog
        await until(lambda: backlog.end == primary.end)
        assert bytes(backlog.read(backlog.start)) == primary.stream[backlog.start - START :]


async def chained(middle: Replica, last: Replica) -> None:
    """Wait until the last server has what the middle one has."""
    deadline_s = monotonic() + 10
    while not (last.following.is_up and last.offset == middle.offset):
        assert monotonic() < deadline_s, (last.following.last_error, last.offset, middle.offset)
        middle.server.primary.cron(middle.clock(), is_new_second=True)
        if last.following.link is None:
            last.pass_time(RETRY_MS)
        await asyncio.sleep(0)


async def test_a_replica_without_its_link_takes_no_replicas(reference):
    primary = reference.primary()
    primary.answers[b"PSYNC"] = b"-LOADING x\r\n"
    async with listening(primary), replica_of(primary) as replica:
        await until(lambda: replica.following.last_error)
        assert await replica.ask("PSYNC", "?", "-1") == (
            b"-NOMASTERLINK Can't SYNC while not connected with my master\r\n"
        )


async def test_bytes_that_arrive_just_before_the_link_is_lost_reach_the_replicas_below(reference):
    """Without a log, a change of the role must not forget what this turn still has to send."""
    primary = reference.primary()
    async with listening(primary), replica_of(primary) as replica:
        await replica.synced(primary)
        below = await replica.running.connect()
        below.send("PSYNC", primary.replid.decode(), replica.offset + 1)
        assert await below.line() == b"+CONTINUE\r\n"
        link = replica.following.link
        assert link is not None
        data = stream_of("SET a 1")
        link.data_received(data)
        link.abort()
        await below.expect(data)
