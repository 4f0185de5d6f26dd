"""Restarts from the log: what a primary and a replica continue, and what they must not, after a stop and any crash."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.persistence.placing import PLACE_PREFIX
from headrace.server.app import Server as App
from headrace.server.configuration.config import Config
from support.digest import Digest, digest_of
from support.fake_primary import FakePrimary, listening, payload_of, stream_of
from support.fake_primary import until as happens
from support.inprocess import Clock, Rig, running_server
from support.links import await_link, field, follow, settle, until
from support.servers import Server
from support.wire import Wire

OPTIONS = ("--repl-diskless-sync-delay", "0")
LOGGED = (*OPTIONS, "--appendonly", "yes")
PAIRS = pytest.mark.parametrize("other", ["headrace", "oracle"])


def statistic(wire: Wire, name: str) -> int:
    """A counter of INFO stats."""
    return int(field(wire, name, "stats"))


def fill(wire: Wire, start: int) -> None:
    """Entries, transactions, databases, groups, expiry and messages, which the log does not have."""
    for number in range(start, start + 20):
        wire.call("XADD", "s", f"{number}-1", "f", "v" * number)
    wire.call("XGROUP", "CREATE", "s", f"g{start}", 0)
    wire.call("XREADGROUP", "GROUP", f"g{start}", "c", "COUNT", 5, "STREAMS", "s", ">")
    for line in (["MULTI"], ["SET", "a", start], ["SELECT", 3], ["INCR", "n"], ["EXEC"], ["SELECT", 0]):
        wire.call(*line)
    wire.call("SET", "e", 1, "PX", 1)
    until(lambda: wire.ask("EXISTS", "e") == 0, "a key does not expire")
    wire.call("PUBLISH", "ch", "m")


def is_placed(server: Server, wire: Wire) -> bool:
    """Whether the log ends with the present place."""
    line = b"%b%b %d " % (PLACE_PREFIX, field(wire, "master_replid").encode(), int(field(wire, "master_repl_offset")))
    logs = sorted((server.folder / "appendonlydir").glob("*.incr.aof"))
    return line in logs[-1].read_bytes()[-200:]


# -- real servers ----------------------------------------------------------------------------------


@pytest.mark.oracle
@PAIRS
@pytest.mark.parametrize("end", ["stop", "kill", "kill under load"])
def test_replicas_continue_after_a_restart_of_the_primary(
    other: str, end: str, start_server: Callable[..., Server]
) -> None:
    primary = start_server("headrace", *LOGGED)
    replica = start_server(other, *OPTIONS)
    port = primary.port
    with primary.connect() as above, replica.connect() as below:
        follow(below, primary)
        fill(above, 1)
        settle(above, below)
        if end == "kill":
            # A message moves the place without a record: the next turn of the periodic work notes it.
            until(lambda: is_placed(primary, above), "the log does not name the place")
        elif end == "kill under load":
            for number in range(3000):
                above.send("XADD", "load", "*", "n", number)
            for _ in range(1500):
                above.receive()
    primary.stop() if end == "stop" else primary.kill()
    primary.start(port)
    with primary.connect() as above, replica.connect() as below:
        await_link(below)
        settle(above, below)
        # Between the write to the log and that to the sockets, a kill leaves the replica without what the log has.
        is_sure = end != "kill under load" or statistic(above, "sync_full") == 0
        assert (statistic(above, "sync_full"), statistic(above, "sync_partial_ok")) == (not is_sure, is_sure)
        fill(above, 300_000)
        settle(above, below)
        assert above.ask("DEBUG", "DIGEST") == below.ask("DEBUG", "DIGEST")


@pytest.mark.oracle
@PAIRS
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_replica_continues_at_its_primary_after_a_restart(
    other: str, end: str, start_server: Callable[..., Server]
) -> None:
    primary = start_server(other, *OPTIONS)
    replica = start_server("headrace", *LOGGED, "--replicaof", f"127.0.0.1 {primary.port}")
    with primary.connect() as above:
        with replica.connect() as below:
            await_link(below)
            fill(above, 1)
            settle(above, below)
            until(lambda: field(below, "aof_rewrite_in_progress", "persistence") == "0", "no base")
            until(lambda: is_placed(replica, below), "the log does not name the place")
        replica.stop() if end == "stop" else replica.kill()
        fill(above, 100)
        replica.start()
        with replica.connect() as below:
            await_link(below)
            settle(above, below)
            assert above.ask("DEBUG", "DIGEST") == below.ask("DEBUG", "DIGEST")
            assert statistic(above, "sync_full") == 1
            assert statistic(above, "sync_partial_ok") == 1


@pytest.mark.oracle
@PAIRS
def test_a_primary_that_lost_its_tail_does_not_continue_the_history(
    other: str, start_server: Callable[..., Server]
) -> None:
    """The log is cut in the middle. The primary writes on, as many bytes as it has lost: replicas must not take it for
    what they have."""
    primary = start_server("headrace", *LOGGED)
    replica = start_server(other, *OPTIONS)
    port = primary.port
    with primary.connect() as above, replica.connect() as below:
        follow(below, primary)
        fill(above, 1)
        settle(above, below)
    primary.kill()
    log = next((primary.folder / "appendonlydir").glob("*.incr.aof"))
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    primary.start(port)
    with primary.connect() as above, replica.connect() as below:
        await_link(below)
        fill(above, 1)
        settle(above, below)
        assert statistic(above, "sync_full") == 1
        assert above.ask("DEBUG", "DIGEST") == below.ask("DEBUG", "DIGEST")


@pytest.mark.oracle
def test_a_log_that_redis_continued_begins_a_new_history(start_server: Callable[..., Server], tmp_path: Path) -> None:
    primary = start_server("headrace", *LOGGED)
    replica = start_server("oracle", *OPTIONS)
    port = primary.port
    with primary.connect() as above, replica.connect() as below:
        follow(below, primary)
        fill(above, 1)
        settle(above, below)
    primary.stop()
    stranger = Server("oracle", primary.folder, "--appendonly", "yes").start()
    try:
        with stranger.connect() as wire:
            wire.call("SET", "stranger", 1)
    finally:
        stranger.stop()
    primary.start(port)
    with primary.connect() as above, replica.connect() as below:
        await_link(below)
        settle(above, below)
        assert below.ask("GET", "stranger") == b"1"
        assert statistic(above, "sync_full") == 1


# -- every moment of a disk ------------------------------------------------------------------------


class Snapshots:
    """Copies of a data folder, as kills would leave it, each with the dataset that every offset has."""

    def __init__(self, folder: Path, into: Path) -> None:
        self._folder = folder
        self._into = into
        self.copies: list[Path] = []

    def take(self) -> None:
        copy = self._into / str(len(self.copies))
        shutil.copytree(self._folder, copy)
        self.copies.append(copy)


def restarted(folder: Path, clock: Clock, **directives: object) -> App:
    """A server that has loaded this folder."""
    config = Config()
    config.save, config.dir, config.appendonly = b"", str(folder).encode(), True
    for name, value in directives.items():
        setattr(config, name, value)
    server = App(config, clock=clock)
    server.load_now()
    return server


UNITS = [
    ["XADD s 3-1 f v"],
    ["MULTI", "XADD s 4-1 f v", "SET k w", "SELECT 2", "SET two 3", "EXEC"],
    ["SELECT 0"],
    ["ping"],
    ["PUBLISH ch m"],
    ["SET last 1"],
    ["PUBLISH ch n"],
]


def reference(start: int) -> tuple[bytes, bytes, dict[int, Digest]]:
    """A dataset, a stream, and the dataset at each offset of it."""
    rig = Rig()
    caller = rig.connect()
    caller.call("SET k v", "XADD s 1-1 f v")
    payload = payload_of(rig.server.store)
    digests = {start: digest_of(rig.server.store)}
    stream = b""
    for unit in UNITS:
        caller.call(*unit)
        stream += stream_of(*unit)
        digests[start + len(stream)] = digest_of(rig.server.store)
    return payload, stream, digests


@pytest.mark.parametrize("step", [1 << 20, 1])
async def test_a_replica_that_is_killed_at_any_moment_names_its_dataset(step: int, tmp_path: Path) -> None:
    """The folder is copied after each turn of the loop, and loaded again."""
    start = 100
    payload, stream, digests = reference(start)
    primary = FakePrimary(payload, stream, start=start)
    primary.step = step if step > 1 else 7
    clock, folder = Clock(), tmp_path / "data"
    folder.mkdir()
    kills = Snapshots(folder, tmp_path)
    async with (
        listening(primary),
        running_server(clock=clock, dir=str(folder).encode(), appendonly=True) as running,
    ):
        server = running.server
        server.following.follow(b"127.0.0.1", primary.port)
        seen = b""

        def look() -> bool:
            nonlocal seen
            if server.snapshots.runner.job is None:  # whose thread changes files during the copy
                content = b"".join(path.read_bytes() for path in sorted((folder / "appendonlydir").iterdir()))
                if content != seen:
                    seen = content
                    kills.take()
            return server.primary.history.offset == primary.end and server.log_keeper.state.name == "ON"

        await happens(look)
        clock.advance(100)
        server.log_keeper.cron(clock())
        kills.take()
    kills.take()
    named = 0
    for copy in kills.copies:
        found = restarted(copy, clock)
        place = found.loading.place
        if place is not None:
            named += 1
            assert (place.replid, digest_of(found.store)) == (primary.replid.decode(), digests[place.offset]), copy
        found.log_keeper.close()
    assert restarted(kills.copies[-1], clock).loading.place.offset == primary.end
    assert named >= 3


async def test_a_log_turned_on_later_and_a_rewritten_one_name_the_place(tmp_path: Path) -> None:
    payload, stream, digests = reference(100)
    primary = FakePrimary(payload, stream)
    clock, folder = Clock(), tmp_path / "data"
    folder.mkdir()
    kills = Snapshots(folder, tmp_path)
    async with (
        listening(primary),
        running_server(clock=clock, dir=str(folder).encode(), appendonly=False, save=b"") as running,
    ):
        server = running.server
        server.following.follow(b"127.0.0.1", primary.port)
        await happens(lambda: server.primary.history.offset == primary.end)
        peer = await running.connect()
        peer.send("CONFIG", "SET", "appendonly", "yes")
        assert await peer.line() == b"+OK\r\n"
        await happens(lambda: server.log_keeper.state.name == "ON")
        server.turns.flush()
        server.log_keeper.cron(clock())
        kills.take()
        peer.send("BGREWRITEAOF")
        await peer.line()
        await happens(lambda: server.log_keeper.state.name == "ON" and server.snapshots.runner.job is None)
        server.log_keeper.cron(clock())
        kills.take()
    for copy in kills.copies:
        found = restarted(copy, clock)
        assert found.loading.place is not None
        assert found.loading.place.offset == primary.end
        assert digest_of(found.store) == digests[primary.end]
        found.log_keeper.close()


def test_two_starts_of_one_copy_make_two_histories(tmp_path: Path) -> None:
    """Both continue the history of the log up to its end, and neither beyond it."""
    clock, folder = Clock(), tmp_path / "data"
    folder.mkdir()
    server = restarted(folder, clock)
    server.primary._begin_stream()
    history = server.primary.history
    server.log_keeper.log.append([(0, stream_of("SET k v"))], False)
    history.offset += len(stream_of("SET k v"))
    server.log_keeper.write()
    server.log_keeper.close()
    shutil.copytree(folder, tmp_path / "copy")
    histories = [restarted(each, clock).primary.history for each in (folder, tmp_path / "copy")]
    assert [each.former_id for each in histories] == [history.replid] * 2
    assert [each.former_end for each in histories] == [history.offset + 1] * 2
    assert len({each.replid for each in histories} | {history.replid}) == 3


def test_a_log_whose_foreign_records_are_left_out_names_no_place(tmp_path: Path) -> None:
    clock, folder = Clock(), tmp_path / "data"
    folder.mkdir()
    server = restarted(folder, clock)
    server.primary._begin_stream()
    server.log_keeper.log.append([(0, stream_of("VADD vectors 0 v"))], False)
    server.log_keeper.write()
    server.log_keeper.close()
    found = restarted(folder, clock, aof_skip_foreign_commands=True)
    assert found.loading.place is None
    found.log_keeper.close()
