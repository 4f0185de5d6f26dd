"""During a load: the replies that clients get, and that no client disturbs the load."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import StartServer
from headrace.persistence.errors import LogError
from headrace.persistence.manifest import Manifest
from headrace.server.app import Server
from headrace.server.configuration.config import Config
from headrace.server.storage.replay import loading as replaying
from headrace.store.ids import SEQ_BITS
from headrace.store.stream import Stream
from support.digest import digest_of
from support.inprocess import Clock, Rig
from support.lines import split
from support.logging_server import COUNT, LOADING, LoadingServer, LoggingServer
from support.replies import parse
from support.wire import encode

# Two values of a module and a string.
FOREIGN_DUMP = b"REDIS0012\x07\x01a\x01\x00\x07\x01b\x01\x00\x00\x01k\x01v\xff" + bytes(8)


@pytest.fixture
def loading(tmp_path: Path) -> Iterator[LoadingServer]:
    server = LoadingServer(tmp_path)
    next(server.steps)
    yield server
    server.close()


@pytest.mark.parametrize(
    "line", ["PING", "GET k", "XADD s * f v", "XLEN s", "DBSIZE", "SCAN 0", "SAVE", "RESTORE k 0 x"]
)
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


@pytest.mark.parametrize(("content", "is_reported"), [(b"*1\r\n$4\r\nPING\r\n", True), (b"", False)])
def test_a_log_of_one_file_that_is_not_loaded_is_reported(
    content: bytes, is_reported: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "appendonly.aof").write_bytes(content)
    config = Config()
    config.dir = os.fsencode(tmp_path)
    Server(config, clock=Clock()).load_now()
    assert (f"{tmp_path}/appendonly.aof was not read: with appendonly no" in caplog.text) == is_reported
    assert (tmp_path / "appendonly.aof").read_bytes() == content


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


@pytest.fixture
def starting_from_a_dump(tmp_path: Path) -> Config:
    """A folder with a dump of one key, and a configuration that begins the log with it."""
    server = LoggingServer(tmp_path, appendonly=False)
    server.call("SET k v", "SAVE")
    server.stop()
    config = Config()
    config.aof_start_from_rdb = True
    return config


def test_a_log_can_begin_with_a_dump_and_then_replaces_it(tmp_path: Path, starting_from_a_dump: Config) -> None:
    first = LoggingServer(tmp_path, config=starting_from_a_dump)
    assert first.call("GET k", "SET k w") == b"$1\r\nv\r\n+OK\r\n"
    first.stop()
    second = LoggingServer(tmp_path, config=starting_from_a_dump)
    assert second.call("GET k") == b"$1\r\nw\r\n"
    second.stop()


def test_a_crash_while_the_dump_is_copied_lets_the_next_start_copy_it(
    tmp_path: Path, starting_from_a_dump: Config
) -> None:
    folder = tmp_path / "appendonlydir"
    folder.mkdir()
    (folder / "appendonly.aof.manifest").write_bytes(Manifest().encode())
    (folder / "appendonly.aof.1.base.rdb").write_bytes(b"REDIS00")
    for _ in range(2):
        server = LoggingServer(tmp_path, config=starting_from_a_dump)
        assert server.call("GET k") == b"$1\r\nv\r\n"
        server.stop()


@pytest.mark.oracle
def test_a_log_that_begins_with_a_dump_has_nothing_that_was_left_out_of_it(
    tmp_path: Path, starting_from_a_dump: Config, start_server: StartServer
) -> None:
    (tmp_path / "dump.rdb").write_bytes(FOREIGN_DUMP)
    starting_from_a_dump.rdb_skip_foreign_types = True
    first = LoggingServer(tmp_path, config=starting_from_a_dump)
    assert first.call("DBSIZE", "SET l w") == b":1\r\n+OK\r\n"
    first.stop()
    starting_from_a_dump.rdb_skip_foreign_types = False
    second = LoggingServer(tmp_path, config=starting_from_a_dump)
    assert second.call("GET k", "GET l", "DBSIZE") == b"$1\r\nv\r\n$1\r\nw\r\n:2\r\n"
    second.stop()
    with start_server("oracle", "--dir", str(tmp_path), "--appendonly", "yes").connect() as wire:
        assert [wire.call("DBSIZE"), wire.call("GET", "l")] == [b":2\r\n", b"$1\r\nw\r\n"]


def test_a_log_of_one_file_is_preferred_to_a_dump(tmp_path: Path, starting_from_a_dump: Config) -> None:
    (tmp_path / "appendonly.aof").write_bytes(encode(("SET", "k", "old")))
    server = LoggingServer(tmp_path, config=starting_from_a_dump)
    assert server.call("GET k") == b"$3\r\nold\r\n"
    server.stop()


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
            b"REDIS0012\x07\x01k\x01\x00\xff",
            "The key 'k' in database 0 cannot be loaded: it is a value of a module (RDB type 7), which Headrace "
            "does not have",
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


def test_rdb_base_that_was_emptied_is_refused(tmp_path: Path) -> None:
    """A copy that was interrupted leaves such a file; Redis loads it as an empty dataset."""
    config = log_with(tmp_path, "SET k v", base=b"x")
    base = tmp_path / "appendonlydir" / "appendonly.aof.1.base.rdb"
    base.write_bytes(b"")
    with pytest.raises(
        LogError, match=f"^{base} was cut off .*it has 0 bytes, but an RDB file is never empty; restore"
    ):
        Server(config).load_now()


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


# -- a log of Redis with other types -----------------------------------------------------------------


def log_with(tmp_path: Path, *records: str, base: bytes = b"") -> Config:
    """A configuration whose log has these records."""
    folder = tmp_path / "appendonlydir"
    folder.mkdir()
    name = b"appendonly.aof.1.base." + (b"rdb" if base else b"aof")
    (folder / os.fsdecode(name)).write_bytes(base)
    (folder / "appendonly.aof.1.incr.aof").write_bytes(b"".join(encode(split(line)) for line in records))
    manifest = b"file %b seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n" % name
    (folder / "appendonly.aof.manifest").write_bytes(manifest)
    config = Config()
    config.dir, config.appendonly = os.fsencode(tmp_path), True
    return config


def loaded_keys(config: Config) -> list[dict[bytes, object]]:
    """The keys and strings of the databases after a start."""
    server = Server(config)
    try:
        server.load_now()
        return [dict(db.keys.items()) for db in server.store.databases[:2]]
    finally:
        server.log_keeper.close()


@pytest.mark.parametrize("record", ["VREM a 0", "vrem h 0", "JSON.SET d $ 1", "VADD d s"])
def test_a_foreign_record_names_the_way_out(record: str, tmp_path: Path) -> None:
    config = log_with(tmp_path, "SET k v", record)
    with pytest.raises(LogError) as caught:
        loaded_keys(config)
    assert str(caught.value).startswith(f"Unknown command '{record.split()[0]}' reading the append only file ")
    assert str(caught.value).endswith("; aof-skip-foreign-commands yes leaves out such records")


def test_foreign_records_are_left_out_and_counted_by_command(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    records = ["SET k v", "VSETATTR a 0 v", "vsetattr a 1 v", "MULTI", "VADD h VALUES 1 1 m", "SET l w", "EXEC",
               "JSON.SET d $ 1", "EXPIRE h 100", "DEL a", "XADD s 1-1 f v"]  # fmt: skip
    config = log_with(tmp_path, *records)
    config.aof_skip_foreign_commands = True
    keys = loaded_keys(config)[0]
    assert keys.keys() == {b"k", b"l", b"s"}
    (warning,) = [record.message for record in caplog.records if record.levelname in ("WARNING", "CRITICAL")]
    assert ": JSON.* 1, VADD 1, VSETATTR 2. Their keys are missing" in warning


def test_names_that_redis_does_not_have_stop_the_start_all_the_same(tmp_path: Path) -> None:
    config = log_with(tmp_path, "SET k v", "NOSUCH k")
    config.aof_skip_foreign_commands = True
    with pytest.raises(LogError) as caught:
        loaded_keys(config)
    assert str(caught.value).endswith("reading the append only file appendonly.aof.1.incr.aof at offset 27")


@pytest.mark.parametrize(
    "records",
    [
        ["SET k old", "VADD h s", "RENAME h k"],
        ["SET k old", "VADD h s", "COPY h k REPLACE"],
        ["SET k old", 'RESTORE k 0 "\\x02\\x01\\x01a\\x0b\\x00\\x4f\\x9d" REPLACE'],
        ["SET k old", "LMOVE l k LEFT RIGHT", "DEL k"],
    ],
    ids=lambda records: records[-1].split()[0],
)
def test_a_key_that_was_overwritten_by_another_type_is_gone(
    records: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = log_with(tmp_path, "SET other v", *records)
    config.aof_skip_foreign_commands = True
    assert loaded_keys(config)[0] == {b"other": b"v"}
    assert "== CRITICAL ==" not in caplog.text


def test_a_copy_to_another_database_removes_the_key_there(tmp_path: Path) -> None:
    records = ["SELECT 1", "SET k old", "SELECT 0", "SET k new", "VADD h s", "COPY h k DB 1 REPLACE"]
    config = log_with(tmp_path, *records)
    config.aof_skip_foreign_commands = True
    assert loaded_keys(config) == [{b"k": b"new"}, {}]


def test_records_on_keys_left_out_of_an_rdb_base_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    base = b"REDIS0012\x07\x01a\x01\x00\x00\x01k\x03old\xff" + bytes(8)
    config = log_with(tmp_path, "RENAME a k", "SET l v", base=base)
    config.rdb_skip_foreign_types = True
    assert loaded_keys(config)[0] == {b"l": b"v"}
    assert ": RENAME 1. Their keys are missing" in caplog.text
    assert "== CRITICAL ==" not in caplog.text


@pytest.mark.parametrize("source", ["base", "old log", "dump.rdb"])
def test_keys_left_out_of_an_rdb_file_are_counted_in_one_warning(
    source: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if source == "base":
        config = log_with(tmp_path, "SET l w", base=FOREIGN_DUMP)
    else:
        name = "dump.rdb" if source == "dump.rdb" else "appendonly.aof"
        (tmp_path / name).write_bytes(FOREIGN_DUMP)
        config = Config()
        config.dir, config.appendonly = os.fsencode(tmp_path), source == "old log"
    config.rdb_skip_foreign_types = True
    assert loaded_keys(config)[0].keys() == ({b"k", b"l"} if source == "base" else {b"k"})
    (warning,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith("Keys of other types left out of the RDB file: 2. ")


def test_nothing_is_said_of_keys_if_none_was_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = log_with(tmp_path, "SET l w", base=b"REDIS0012\x00\x01k\x01v\xff" + bytes(8))
    config.rdb_skip_foreign_types = True
    assert loaded_keys(config)[0].keys() == {b"k", b"l"}
    assert "left out" not in caplog.text
