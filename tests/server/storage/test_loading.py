"""During a load: the replies that clients get, and that no client disturbs the load."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.persistence.errors import LogError
from headrace.server.app import Server
from headrace.server.configuration.config import Config
from headrace.server.storage.replay import loading as replaying
from headrace.store.ids import SEQ_BITS
from headrace.store.stream import Stream
from support.digest import digest_of
from support.inprocess import Clock, Rig
from support.lines import split
from support.logging_server import COUNT, LOADING, LoadingServer
from support.replies import parse
from support.wire import encode


@pytest.fixture
def loading(tmp_path: Path) -> Iterator[LoadingServer]:
    server = LoadingServer(tmp_path)
    next(server.steps)
    yield server
    server.close()


@pytest.mark.parametrize("line", ["PING", "GET k", "XADD s * f v", "XLEN s", "DBSIZE", "SCAN 0", "SAVE"])
def test_commands_that_need_the_dataset_are_refused(loading: LoadingServer, line: str) -> None:
    assert loading.call(line) == LOADING


@pytest.mark.parametrize("line", ["ECHO hi", "SELECT 1", "CLIENT ID", "CONFIG GET maxclients", "TIME", "COMMAND COUNT"])
def test_commands_that_do_not_are_answered(loading: LoadingServer, line: str) -> None:
    assert not loading.call(line).startswith(b"-")


def test_transaction_with_a_refused_command_is_aborted(loading: LoadingServer) -> None:
    replies = loading.call("MULTI", "GET k", "EXEC")
    assert replies == b"+OK\r\n" + LOADING + b"-EXECABORT Transaction discarded because of previous errors.\r\n"


def test_info_shows_the_progress_of_the_load(loading: LoadingServer) -> None:
    text = loading.call("INFO persistence").decode()
    fields = dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)
    assert fields["loading"] == "1"
    assert int(fields["loading_total_bytes"]) > 0
    assert float(fields["loading_loaded_perc"]) >= 0


def test_clients_in_between_do_not_disturb_the_load(loading: LoadingServer) -> None:
    while next(loading.steps, loading) is not loading:
        loading.call("SELECT 5", "MULTI", "DISCARD")
    databases = loading.server.store.databases
    assert (len(databases[0].keys[b"s"]), databases[1].keys[b"k"]) == (COUNT, b"v")
    assert not databases[5].keys
    assert loading.call("SELECT 0", "PING", "XLEN s") == b"+OK\r\n+PONG\r\n:%d\r\n" % COUNT


@pytest.mark.parametrize("lines", [["CLIENT PAUSE 1000 WRITE", "CLIENT UNPAUSE"], ["CLIENT PAUSE 1000 ALL"]])
def test_pause_in_between_leaves_expiry_to_the_records(tmp_path: Path, lines: list[str]) -> None:
    loading = LoadingServer(tmp_path)
    past_ms = loading.server.clock() - 1000
    path = loading.folder / "appendonly.aof.1.incr.aof"
    before = encode(("SELECT", 0)) + encode(("SET", "lifted", "v", "PXAT", past_ms))
    path.write_bytes(before + path.read_bytes() + encode(("PERSIST", "lifted")))
    next(loading.steps)
    db = loading.server.store.databases[0]
    assert b"lifted" in db.expires
    for line in lines:
        assert loading.call(line) == b"+OK\r\n"
    loading.server.dispatcher.end_pause()
    loading.finish()
    assert db.get(b"lifted", loading.server.clock()) == b"v"
    assert not db.frozen
    loading.close()


def test_load_given_up_half_way_leaves_the_folder_free_and_the_log_as_it_was(tmp_path: Path) -> None:
    first = LoadingServer(tmp_path)
    next(first.steps)
    before = (first.folder / "appendonly.aof.1.incr.aof").read_bytes()
    first.close()
    assert (first.folder / "appendonly.aof.1.incr.aof").read_bytes() == before


def test_damage_stops_the_start_before_the_log_is_opened(tmp_path: Path) -> None:
    server = LoadingServer(tmp_path)
    path = server.folder / "appendonly.aof.1.incr.aof"
    path.write_bytes(path.read_bytes()[:100] + b"garbage" + path.read_bytes()[100:])
    with pytest.raises(LogError, match="at offset"):
        server.finish()
    assert server.server.log is None
    server.close()


def load_both_ways(folder: Path, log: bytes, count: int) -> Server:
    """Load a log of `count` records with runs and without, which must give the same dataset. Returns the server of
    the second load.
    """
    digests = []
    for has_target in (True, False):
        config = Config()
        config.dir, config.appendonly = os.fsencode(folder), True
        server = Server(config, clock=Clock())
        files = folder / "appendonlydir"
        files.mkdir(exist_ok=True)
        (files / "appendonly.aof.1.incr.aof").write_bytes(log)
        (files / "appendonly.aof.manifest").write_bytes(b"file appendonly.aof.1.incr.aof seq 1 type i\n")
        reader = server.log_keeper.new_log()
        server.context.now_ms = server.clock()
        with replaying(server.context) as replay:
            result = reader.load(replay.apply, target=replay if has_target else None)
        assert result.records_count == count
        db = server.store.databases[0]
        db.check()
        streams = {key: value for key, value in db.keys.items() if isinstance(value, Stream)}
        used = {key: stream.used_ms for key, stream in streams.items()}
        seen = {
            (key, name): [(each.name, each.seen_ms, each.active_ms) for each in group.consumers.values()]
            for key, stream in streams.items()
            for name, group in stream.groups.items()
        }
        hits = [each.hits for each in server.store.databases]
        digests.append((digest_of(server.store), used, seen, hits))
    assert digests[0] == digests[1]
    return server


def test_a_log_means_the_same_however_its_additions_are_gathered(tmp_path: Path) -> None:
    """Runs that are loaded at once, and runs that cannot be: errors are logged and skipped record by record."""
    rig = Rig()
    rig.clock.advance(-1_000_000)
    old = rig.connect()
    payload = parse(old.call("XADD o 1-1 f v", "DUMP o").partition(b"\r\n")[2].partition(b"\r\n")[2]).value
    restored = encode((b"RESTORE", b"o", b"0", payload, b"IDLETIME", b"1000"))
    lines = [f"XADD s {number}-1 f {'v' * number}" for number in range(1, 300)]
    lines += [
        "XADD o 2-1 f v",
        "XADD o 3-1 f v",
        "XADD s 200-0 f late",
        "XADD s 201-0 f late",
        "XADD s 400-1 f v",
        "XADD s 401-1 f v",
        "XDEL s 401-1",
    ]
    lines += ["SET k v", "XADD k 1-1 f v", "XADD k 2-1 f v", "XADD t 5-5 f v", "XADD t 6-6 f v", "XSETID s 900-0"]
    lines += ["XADD s 500-1 f v", "XADD s 950-1 f v", "XGROUP CREATE s g 5-1", "XADD t 7-7 f v", "XADD t 8-8 f v"]
    lines += ["XCLAIM s g c 0 4-1 5-1 401-1 TIME 7 RETRYCOUNT 3 FORCE JUSTID LASTID 6-1", "XDEL s 4-1"]
    lines += ["XCLAIM s g d 0 4-1 5-1 5-1 3-1 TIME 5 RETRYCOUNT 1 FORCE JUSTID", "XCLAIM s g d 0 9-1 JUSTID"]
    lines += ["XCLAIM s g e 0 401-1 4-1 TIME 7 RETRYCOUNT 3 FORCE JUSTID"]
    lines += ["XCLAIM s g c 0 3-1 TIME 6 RETRYCOUNT 9 JUSTID FORCE"]
    log = restored + b"".join(encode(split(line)) for line in lines)
    server = load_both_ways(tmp_path, log, 1 + len(lines))
    stream = server.store.databases[0].keys[b"s"]
    assert isinstance(stream, Stream)
    assert (len(stream), stream.entries_added) == (300, 302)
    pending = [
        (entry_id >> SEQ_BITS, delivery.consumer and delivery.consumer.name, delivery.time_ms, delivery.count)
        for entry_id, delivery in stream.groups[b"g"].pending.walk_by_time()
    ]
    assert pending == [(5, b"d", 5, 1), (3, b"c", 6, 9)]


@pytest.mark.parametrize("strange_part", [0.0, 0.02, 0.3])
def test_a_log_means_the_same_however_its_claims_are_gathered(tmp_path: Path, strange_part: float) -> None:
    """Runs that are taken at once, and runs that cannot be: of deleted entries, entries named twice, and a missing
    consumer.
    """
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    lines = [f"XADD {key} {number}-0 f {number}" for key in "st" for number in range(1, 3000)]
    lines += [f"XGROUP CREATE {key} {group} 2000" for key in "st" for group in "gh"] + ["SET k v"]
    lines += [f"XDEL s {number}-0" for number in range(700, 720)]
    owner = "s g c0"
    now_ms = Clock()()
    for _ in range(2000):
        if rng.random() < 0.05:
            owner = rng.choice(["s g c0", "s g c1", "s h c0", "t g c0"])
        is_strange = rng.random() < strange_part
        ids = [f"{number}-0" for number in rng.sample(range(1, 700), rng.choice([1, 1, 3]))]
        time_ms, count = rng.choice([5, rng.randrange(now_ms), now_ms + 10]), rng.choice([1, rng.randrange(9)])
        form = rng.choice(["JUSTID FORCE", "FORCE JUSTID"])
        if is_strange:
            strange = ["705-0", "9999-0", "5-1", ids[0], "18446744073709551616-0", "7", "0-0", "5-0x"]
            ids.insert(rng.randrange(len(ids) + 1), rng.choice(strange))
            form = rng.choice([form, form, "JUSTID", f"FORCE JUSTID LASTID {ids[0]}"])
            also = [], [f"XDEL s {ids[0]}"], [f"XACK s g {ids[0]}"], [f"XTRIM t MINID {ids[0]}"]
            lines += rng.choice(also)
            words = rng.choice([owner, owner, "k g c", "missing g c", "s missing c"])
            lines.append(f"XCLAIM {words} 0 {' '.join(ids)} TIME {time_ms} RETRYCOUNT {count} {form}")
        else:
            lines.append(f"XCLAIM {owner} 0 {' '.join(ids)} TIME {time_ms} RETRYCOUNT {count} {form}")
    server = load_both_ways(tmp_path, b"".join(encode(split(line)) for line in lines), len(lines))
    stream = server.store.databases[0].keys[b"s"]
    assert isinstance(stream, Stream)
    assert len(stream.groups[b"g"].pending) > 100


def test_claims_are_gathered_within_transactions_and_databases_of_their_own(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    lines = []
    for index, count in ((1, 300), (0, 200)):
        lines += [f"SELECT {index}", *(f"XADD s {number}-0 f v" for number in range(1, count)), "XGROUP CREATE s g 0"]
    lines.append("PEXPIREAT s 1")
    for _ in range(40):
        claims = [
            f"XCLAIM s g c 0 {rng.randrange(1, 320)}-0 TIME {rng.randrange(99)} RETRYCOUNT 2 JUSTID FORCE"
            for _ in range(6)
        ]
        lines.append(f"SELECT {rng.randrange(2)}")
        if rng.random() < 0.5:
            claims = ["MULTI", *claims[:3], f"XDEL s {rng.randrange(1, 300)}-0", *claims[3:], "EXEC"]
        lines += claims
    count = len(lines) - lines.count("MULTI") - lines.count("EXEC")
    load_both_ways(tmp_path, b"".join(encode(split(line)) for line in lines), count)


def test_a_log_that_is_not_loaded_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Goal: no user thinks it lost, runs CONFIG SET appendonly yes, and so loses it."""
    config = Config()
    config.dir, config.appendonly = os.fsencode(tmp_path), True
    server = Server(config, clock=Clock())
    server.load_now()
    assert server.log is not None
    server.log.append([(0, encode(("SET", "k", "v")))], False)
    assert server.log.close()
    server.log_keeper.lock.release()
    assert "was not read" not in caplog.text
    config.appendonly = False
    Server(config, clock=Clock()).load_now()
    assert "appendonly.aof.manifest was not read: with appendonly no the dataset is in dump.rdb" in caplog.text


def test_a_dump_that_is_not_loaded_because_of_an_empty_log_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "dump.rdb").write_bytes(b"REDIS")
    config = Config()
    config.dir, config.appendonly = os.fsencode(tmp_path), True
    server = Server(config, clock=Clock())
    server.load_now()
    assert "dump.rdb was not read: with appendonly yes the dataset is in the log, which is empty" in caplog.text
    assert server.log is not None
    assert server.log.close()
    server.log_keeper.lock.release()


RESTORE_ADVICE = "restore this file from a backup, or move it away to start empty"


@pytest.mark.parametrize(
    ("data", "reason", "advice"),
    [
        (b"REDIS0012", "Short read or OOM loading DB. Unrecoverable error, aborting now.", RESTORE_ADVICE),
        (b"no dump at all", "Wrong signature trying to load DB from file", RESTORE_ADVICE),
        (
            b"REDIS0012\xfe\x40\xff",
            "FATAL: Data file was created with a Redis server configured to handle more than 16 databases. Exiting",
            "start with more databases (databases)",
        ),
        (
            b"REDIS0012\x02\x01k\x01\x01a\xff",
            "The key 'k' in database 0 cannot be loaded: it is a set (RDB type 2), and only strings and streams can be "
            "kept",
            "rdb-skip-foreign-types yes leaves out such keys",
        ),
    ],
)
def test_dump_that_cannot_be_read_says_what_to_do(data: bytes, reason: str, advice: str, tmp_path: Path) -> None:
    (tmp_path / "dump.rdb").write_bytes(data)
    config = Config()
    config.dir = os.fsencode(tmp_path)
    with pytest.raises(LogError) as caught:
        Server(config).load_now()
    told = str(caught.value)
    assert told.startswith(f"{reason} ({tmp_path}/dump.rdb at offset ")
    assert told.endswith(f"); {advice}")


def test_base_that_cannot_be_read_says_which_file_to_restore(tmp_path: Path) -> None:
    server = LoadingServer(tmp_path)
    base = server.folder / "appendonly.aof.1.base.aof"
    base.write_bytes(b"REDIS0012")
    manifest = server.folder / "appendonly.aof.manifest"
    manifest.write_bytes(b"file appendonly.aof.1.base.aof seq 1 type b\n" + manifest.read_bytes())
    with pytest.raises(LogError) as caught:
        server.finish()
    assert str(caught.value).endswith(f"; restore {base} from a backup")
    server.close()
