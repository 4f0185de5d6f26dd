"""Policy lines from a handler to the log and to replicas, and from there to the appliers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.commands.core.table import DECLARED
from headrace.commands.execution.context import Context
from headrace.commands.policies import lines
from headrace.persistence.errors import LoadError, RdbError, UnknownPolicyLine
from headrace.persistence.policy_lines import log_lines, policy_text
from headrace.protocol.packing import pack_command
from headrace.replication.feed import Feed
from headrace.store.database import Database
from headrace.store.errors import GenericError
from headrace.store.image import StreamImage
from headrace.store.policies import lines as stored_lines
from headrace.store.stream import Stream
from support.inprocess import Rig
from support.logging_server import LoggingServer
from support.wire import encode

NOTE = [b"NOTE", b"a \r\n\x00key", b"#HR", b""]
LONG_NOTE = [b"NOTE", b"k", b"\xff" * 2000]
SELECT_0 = pack_command((b"SELECT", b"0"))


class Notes:
    """Applies lines that begin with NOTE: shows what they were applied to."""

    def __init__(self) -> None:
        self.applied: list[tuple[int, list[bytes], int]] = []

    def apply(self, context: Context, words: list[bytes]) -> None:
        if words[1:] == [b"bad"]:
            raise GenericError(b"no such note")
        self.applied.append((context.db.index, words, len(context.db.keys)))
        context.db.put(b"noted", b"%d" % len(self.applied))
        assert context.replaying


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Notes:
    notes = Notes()
    monkeypatch.setitem(lines.APPLIERS, b"NOTE", notes.apply)
    return notes


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LoggingServer]:
    server = LoggingServer(tmp_path)
    yield server
    server.stop()


def log_of(folder: Path) -> bytes:
    """The last file of the log, without checksum lines."""
    path = max(folder.glob("appendonlydir/*.incr.aof"), key=lambda path: int(path.name.split(".")[2]))
    return b"".join(line for line in path.read_bytes().splitlines(keepends=True) if not line.startswith(b"#XXH3"))


def log_unit(server: LoggingServer, *words: list[bytes]) -> None:
    """One unit of policy lines, as a command that logs them, in the database of the caller."""
    context = server.server.context
    context.db = server.session.client.db
    for each in words:
        context.log_policy(each)
    server.dispatcher.units.log_unit()
    assert server.server.log is not None
    assert server.server.log.flush()


# -- from a handler ----------------------------------------------------------------------------------


def test_a_line_alone_is_no_transaction(server: LoggingServer, tmp_path: Path) -> None:
    log_unit(server, NOTE)
    assert log_of(tmp_path) == SELECT_0 + log_lines(NOTE)


def test_lines_and_records_of_a_command_are_one_transaction(server: LoggingServer, tmp_path: Path) -> None:
    server.server.context.log(b"XNACK", b"s")
    log_unit(server, NOTE, LONG_NOTE)
    expected = [b"*1\r\n$5\r\nMULTI\r\n", SELECT_0, pack_command((b"XNACK", b"s")), log_lines(NOTE)]
    assert log_of(tmp_path) == b"".join([*expected, log_lines(LONG_NOTE), b"*1\r\n$4\r\nEXEC\r\n"])


def test_a_line_follows_the_select_of_its_database(server: LoggingServer, tmp_path: Path) -> None:
    log_unit(server, NOTE)
    server.call("SELECT 3")
    log_unit(server, NOTE)
    assert log_of(tmp_path) == SELECT_0 + log_lines(NOTE) + pack_command((b"SELECT", b"3")) + log_lines(NOTE)


def test_a_line_is_one_change_for_the_save_points_with_and_without_replicas(server: LoggingServer) -> None:
    before = server.server.changes_count
    log_unit(server, NOTE)
    assert server.server.changes_count == before + 1
    feed = Feed(server.server.primary.history)
    server.dispatcher.units.replicate_to(feed)
    log_unit(server, NOTE)
    assert server.server.changes_count == before + 2


def test_a_line_is_one_change_without_a_log() -> None:
    rig = Rig()
    rig.dispatcher.units.log_to(None)
    before = rig.server.changes_count
    rig.server.context.log_policy(NOTE)
    assert rig.server.changes_count == before + 1


def test_replicas_get_a_line_as_a_ping_in_the_place_of_the_record(server: LoggingServer, tmp_path: Path) -> None:
    history = server.server.primary.history
    feed = Feed(history)
    server.dispatcher.units.replicate_to(feed)
    before = history.offset
    log_unit(server, LONG_NOTE)
    ping = encode(["PING", b"#HR " + policy_text(LONG_NOTE)])
    assert feed.take() == [SELECT_0 + ping]
    server.server.context.log(b"XNACK", b"s")
    log_unit(server, NOTE)
    nack = pack_command((b"XNACK", b"s"))
    data = b"".join(
        [b"*1\r\n$5\r\nMULTI\r\n", nack, encode(["PING", b"#HR " + policy_text(NOTE)]), b"*1\r\n$4\r\nEXEC\r\n"]
    )
    assert feed.take() == [data]
    assert history.offset - before == len(SELECT_0) + len(ping) + len(data)
    assert b"PING" not in log_of(tmp_path)


def test_a_script_chooses_where_lines_go(
    server: LoggingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def handler(context: Context, argv: list[bytes]) -> int:
        context.log_policy(NOTE)
        return 1

    monkeypatch.setattr(DECLARED[b"SET"], "handler", handler)
    feed = Feed(server.server.primary.history)
    server.dispatcher.units.replicate_to(feed)
    script = "EVAL \"redis.set_repl(redis.%s) return redis.call('SET','a','1')\" 0"
    ping, line = encode(["PING", b"#HR " + policy_text(NOTE)]), log_lines(NOTE)
    for name, in_log, in_stream in (
        ("REPL_ALL", line, ping), ("REPL_AOF", line, b""), ("REPL_REPLICA", b"", ping), ("REPL_NONE", b"", b""),
    ):  # fmt: skip
        log_before = log_of(tmp_path)
        server.call(script % name)
        assert log_of(tmp_path)[len(log_before) :].removeprefix(SELECT_0) == in_log, name
        assert b"".join(feed.take()).removeprefix(SELECT_0) == in_stream, name


# -- from a log --------------------------------------------------------------------------------------


def restarted(folder: Path) -> LoggingServer:
    again = LoggingServer(folder)
    again.stop()
    return again


def test_a_start_applies_lines_in_order_and_in_their_database(tmp_path: Path, notes: Notes) -> None:
    server = LoggingServer(tmp_path)
    server.call("SET a 1")
    log_unit(server, NOTE)
    server.call("SET b 1", "SELECT 3", "SET c 1")
    server.server.context.log(b"SET", b"d", b"1")
    log_unit(server, LONG_NOTE, NOTE)
    server.stop()
    restarted(tmp_path)
    assert notes.applied == [(0, NOTE, 1), (3, LONG_NOTE, 2), (3, NOTE, 3)]


def test_debug_loadaof_applies_lines(server: LoggingServer, notes: Notes) -> None:
    server.config.enable_debug_command = b"yes"
    log_unit(server, NOTE)
    assert server.call("DEBUG LOADAOF") == b"+OK\r\n"
    assert notes.applied == [(0, NOTE, 0)]


def test_an_unknown_line_stops_a_start_with_one_line(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    log_unit(server, [b"NEWER", b"k"])
    server.stop()
    with pytest.raises(
        LoadError, match="Unknown policy line 'NEWER': a newer version of Headrace has written it"
    ) as error:
        LoggingServer(tmp_path)
    assert "\n" not in str(error.value)
    assert "incr.aof at offset" in str(error.value)


def test_a_line_that_makes_no_sense_is_an_error_of_the_load_like_that_of_a_record(
    tmp_path: Path, notes: Notes, caplog: pytest.LogCaptureFixture
) -> None:
    server = LoggingServer(tmp_path)
    log_unit(server, [b"NOTE", b"bad"])
    log_unit(server, NOTE)
    server.stop()
    restarted(tmp_path)
    assert [words for _, words, _ in notes.applied] == [NOTE]
    assert "'ERR no such note' after processing the command 'NOTE'" in caplog.text


# -- from a primary ----------------------------------------------------------------------------------


def test_a_ping_of_a_client_is_no_line(server: LoggingServer, tmp_path: Path, notes: Notes) -> None:
    assert server.call('PING "#HR NOTE k"') == b"$10\r\n#HR NOTE k\r\n"
    assert not notes.applied
    assert log_of(tmp_path) == b""


@pytest.fixture
def applied_text(server: LoggingServer) -> Callable[[bytes], None]:
    def apply(text: bytes) -> None:
        context = server.server.context
        context.replaying = True
        lines.apply_text(context, text)
        server.dispatcher.units.log_unit()
        context.replaying = False
        assert server.server.log is not None
        assert server.server.log.flush()

    return apply


def test_a_line_that_a_replica_cannot_apply_is_left_out_with_one_warning(
    applied_text: Callable[[bytes], None],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines._unknown_names.clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            applied_text(b"NEWER k")
        applied_text(b'NOTE "k')
    messages = [record.message for record in caplog.records]
    assert len(messages) == 2
    assert messages[0].startswith("Policy lines of the primary are left out: Unknown policy line 'NEWER'")
    assert messages[1] == "The primary has sent a policy line that cannot be read: 'NOTE \"k'"
    assert log_of(tmp_path) == b""


# -- snapshots ---------------------------------------------------------------------------------------


@pytest.fixture
def noting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stream has one line."""

    def source(key: bytes, stream: Stream | StreamImage) -> Iterator[list[bytes]]:
        yield [b"NOTE", key, b"%d" % len(stream)]

    monkeypatch.setattr(stored_lines, "SOURCES", (source,))


# Streams with a removed entry, as a short one is written without lines.
FILL = (
    'XADD "a \\r\\n b" 0-1 f v',
    'XADD "a \\r\\n b" 1-1 f v',
    'XDEL "a \\r\\n b" 0-1',
    "SELECT 5",
    "XADD s 0-1 f v",
    "XADD s 1-1 f v",
    "XDEL s 0-1",
)
FILLED = [(0, [b"NOTE", b"a \r\n b", b"1"], 1), (5, [b"NOTE", b"s", b"1"], 1)]


@pytest.mark.usefixtures("noting")
@pytest.mark.parametrize("has_rdb_base", [True, False])
def test_a_rewrite_has_the_lines_of_its_moment(tmp_path: Path, notes: Notes, has_rdb_base: bool) -> None:
    server = LoggingServer(tmp_path, has_rdb_base=has_rdb_base)
    server.call(*FILL)
    server.call("BGREWRITEAOF")
    server.call("XADD s 2-1 f v")
    server.run_slices()
    server.stop()
    assert len(list(tmp_path.glob("appendonlydir/*.2.base.*"))) == 1
    restarted(tmp_path)
    assert notes.applied == FILLED


@pytest.mark.usefixtures("noting")
def test_a_snapshot_and_a_reload_have_the_lines(tmp_path: Path, notes: Notes) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    server.config.enable_debug_command = b"yes"
    server.call(*FILL)
    assert server.call("DEBUG RELOAD") == b"+OK\r\n"
    assert notes.applied == FILLED
    notes.applied.clear()
    for db in (0, 5):
        server.server.store.databases[db].remove(b"noted")
    assert server.call("SAVE") == b"+OK\r\n"
    server.stop()
    again = LoggingServer(tmp_path, appendonly=False)
    again.stop()
    assert notes.applied == FILLED


@pytest.mark.usefixtures("noting")
def test_an_unknown_line_of_a_snapshot_stops_a_start(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    server.call(*FILL)
    assert server.call("SAVE") == b"+OK\r\n"
    server.stop()
    with pytest.raises(UnknownPolicyLine, match="Unknown policy line 'NOTE'"):
        LoggingServer(tmp_path, appendonly=False)


@pytest.mark.usefixtures("noting")
def test_a_dump_carries_no_lines(server: LoggingServer, notes: Notes) -> None:
    server.call("XADD s 1-1 f v", "XGROUP CREATE s g 0")
    assert b"NOTE" not in server.call("DUMP s")


def test_a_line_that_makes_no_sense_is_damage_of_an_rdb_file(
    notes: Notes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(stored_lines, "SOURCES", (lambda key, stream: iter([[b"NOTE", b"bad"]]),))
    server = LoggingServer(tmp_path, appendonly=False)
    server.call(*FILL, "SAVE")
    server.stop()
    with pytest.raises((LoadError, RdbError), match="A policy line cannot be applied: no such note"):
        LoggingServer(tmp_path, appendonly=False)


def test_the_stream_of_a_line_is_copied_to_a_snapshot_before_it_changes(server: LoggingServer, notes: Notes) -> None:
    """Each kind of line names its key at a known place."""
    server.call("XADD s 1-1 f v", "XGROUP CREATE s g 0")
    context = server.server.context
    image = context.image = server.server.snapshots.take_image()
    context.db = server.session.client.db
    lines.apply_line_in(context, context.db, [b"NOTE", b"s"])
    assert list(image._preserved) == [context.db.streams[b"s"]]
    context.image = None
    image.close()


def test_a_line_is_applied_in_any_dataset(notes: Notes, server: LoggingServer) -> None:
    """A dataset that arrives from a primary is not yet that of the context."""
    context = server.server.context
    before = context.db
    other = Database(7, before.garbage)
    lines.apply_line_in(context, other, NOTE)
    assert notes.applied == [(7, NOTE, 0)]
    assert context.db is before
    assert not context.replaying
