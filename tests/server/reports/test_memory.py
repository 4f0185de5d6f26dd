"""maxmemory: what is refused when memory is short, and when exactly. Texts are those of Redis 8.10.2."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.commands.core.table import Flag, all_rows
from headrace.commands.permissions.users import Users
from headrace.server.reports import memory
from headrace.server.reports.memory import MARGIN_MIN
from support.inprocess import Rig
from support.servers import Server
from support.wire import Wire

REFUSED = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
ABORTED = b"-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.\r\n"


@pytest.fixture
def full(server: Server) -> Iterator[Wire]:
    """Each server in turn, with a stream, a group and a string, and no memory left."""
    with server.connect() as wire:
        wire.call("XADD", "s", "1-1", "f", "v")
        wire.call("XADD", "s", "2-1", "f", "v")
        wire.call("XGROUP", "CREATE", "s", "g", "0")
        wire.call("SET", "k", "v")
        assert wire.call("CONFIG", "SET", "maxmemory", "1") == b"+OK\r\n"
        yield wire
        wire.call("CONFIG", "SET", "maxmemory", "0")


def test_commands_that_may_need_memory_are_refused(full: Wire) -> None:
    for words in (
        ("XADD", "s", "*", "f", "v"),
        ("XADD", "s", "MAXLEN", "1", "*", "f", "v"),
        ("XADD", "new", "NOMKSTREAM", "*", "f", "v"),
        ("XSETID", "s", "9-9"),
        ("XGROUP", "CREATE", "s", "h", "0"),
        ("XGROUP", "CREATECONSUMER", "s", "g", "c"),
        ("SET", "k", "w"),
        ("INCR", "n"),
        ("COPY", "k", "l"),
    ):
        assert full.call(*words) == REFUSED, words


def test_reading_and_freeing_are_still_allowed(full: Wire) -> None:
    assert full.call("GET", "k") == b"$1\r\nv\r\n"
    assert full.call("XLEN", "s") == b":2\r\n"
    assert full.call("XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "s", ">").startswith(b"*1\r\n")
    assert full.call("XACK", "s", "g", "1-1") == b":1\r\n"
    assert full.call("XTRIM", "s", "MAXLEN", "1") == b":1\r\n"
    assert full.call("EXPIRE", "k", "100") == b":1\r\n"
    assert full.call("DEL", "k") == b":1\r\n"
    assert full.call("PING") == b"+PONG\r\n"


def test_unknown_commands_and_wrong_numbers_of_words_come_first(full: Wire) -> None:
    assert full.call("SET", "k") == b"-ERR wrong number of arguments for 'set' command\r\n"
    assert full.call("NOSUCH").startswith(b"-ERR unknown command")


def test_a_command_refused_while_queueing_aborts_the_transaction(full: Wire) -> None:
    assert full.call("MULTI") == b"+OK\r\n"
    assert full.call("GET", "k") == b"+QUEUED\r\n"
    assert full.call("SET", "k", "w") == REFUSED
    assert full.call("EXEC") == b"-EXECABORT Transaction discarded because of previous errors.\r\n"
    assert full.call("MULTI") == b"+OK\r\n"
    assert full.call("DISCARD") == b"+OK\r\n"


def test_exec_is_refused_for_what_it_would_run(full: Wire) -> None:
    full.call("CONFIG", "SET", "maxmemory", "0")
    for queued, reply in ((("SET", "k", "w"), ABORTED), (("GET", "k"), b"*1\r\n$1\r\nv\r\n")):
        full.call("MULTI")
        assert full.call(*queued) == b"+QUEUED\r\n"
        with Wire(full.socket.getpeername()[1]) as other:
            other.call("CONFIG", "SET", "maxmemory", "1")
            assert full.call("EXEC") == reply
            other.call("CONFIG", "SET", "maxmemory", "0")


def test_units_of_maxmemory(server: Server) -> None:
    with server.connect() as wire:
        for typed, shown in (("100mb", b"104857600"), ("1k", b"1000"), ("2GB", b"2147483648"), ("7b", b"7")):
            assert wire.call("CONFIG", "SET", "maxmemory", typed) == b"+OK\r\n"
            assert wire.ask("CONFIG", "GET", "maxmemory") == [b"maxmemory", shown]
        wire.call("CONFIG", "SET", "maxmemory", "0")


def test_clients_stay_plain_while_the_limit_is_far() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call(f"CONFIG SET maxmemory {rig.server.memory.measure() + 4 * MARGIN_MIN}")
    assert caller.client.rows
    caller.call(f"SET k {'x' * (3 * MARGIN_MIN + MARGIN_MIN // 2)}")
    rig.server.memory.cron()
    assert not caller.client.rows
    caller.call("DEL k")
    rig.server.memory.cron()
    caller.call("PING")
    assert caller.client.rows


def test_writes_are_refused_exactly_from_the_limit_on_and_taken_again_below_it() -> None:
    rig = Rig()
    caller = rig.connect()
    memory = rig.server.memory
    limit = memory.measure() + 200_000
    caller.call(f"CONFIG SET maxmemory {limit}")
    added = 0
    while caller.call(f"XADD s * field {'x' * 500}") != REFUSED:
        added += 1
    assert added > 50
    assert limit < memory.used_size < limit + 10_000
    assert caller.call("XTRIM s MAXLEN 1") == b":%d\r\n" % (added - 1)
    assert caller.call("XADD s * field value").startswith(b"$")


def test_pending_entries_count() -> None:
    rig = Rig()
    caller = rig.connect()
    for _ in range(2_000):
        caller.call("XADD s * f v")
    caller.call("XGROUP CREATE s g 0")
    before = rig.server.memory.measure()
    caller.call(f"CONFIG SET maxmemory {before + 50_000}")
    assert caller.call("XADD s * f v").startswith(b"$")
    caller.call("XREADGROUP GROUP g c STREAMS s >")
    assert rig.server.memory.used_size > before + 2_000 * 32
    assert caller.call("XADD s * f v") == REFUSED


def test_streams_are_looked_at_in_turn() -> None:
    rig = Rig()
    caller = rig.connect()
    for number in range(1_200):
        caller.call(f"XADD s{number} * f v")
    memory = rig.server.memory
    counted = memory.measure()
    for number in range(1_200):
        caller.call(f"XADD s{number} * f {'x' * 100}")
    for _ in range(3):
        memory.cron()
    assert memory.used_size > counted + 1_200 * 100


def test_clients_are_looked_at_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "CLIENT_COUNT_PER_TURN", 2)
    rig = Rig()
    callers = [rig.connect() for _ in range(5)]
    account, counted = rig.server.memory, []
    callers[0].session.client.query_buffer_size = 1 << 20
    for _ in range(3):
        account.cron()
        counted.append(account._rest_size)
    assert counted[0] == counted[1] == counted[2] - account.clients_size
    callers[0].session.client.query_buffer_size = 0
    assert account.measure() == account.used_size < counted[2]


USERS: dict[str, tuple[int, Callable[[int], list[bytes]]]] = {
    "without rules": (1_000, lambda number: []),
    "unrestricted": (1_000, lambda number: [b"on", b"nopass", b"~*", b"&*", b"+@all"]),
    "usual": (1_000, lambda number: [b"on", b">pw%d" % number, b"~tenant:%d:*" % number, b"+@read", b"+config|get"]),
    "selectors": (
        1_000,
        lambda number: [b"(%%R~a:%d:* +get)" % number, b"(~b:%d:* &b:%d:* +@write)" % (number, number)],
    ),
    "passwords": (10, lambda number: [b">pw:%d:%d" % (number, each) for each in range(1_000)]),
    "keys": (10, lambda number: [b"~key:%d:%d" % (number, each) for each in range(1_000)]),
    "channels": (10, lambda number: [b"&channel:%d:%d" % (number, each) for each in range(1_000)]),
    "first arguments": (10, lambda number: [b"+get|key:%d:%d" % (number, each) for each in range(1_000)]),
}


@pytest.mark.parametrize("kind", USERS)
def test_users_count_as_what_they_take_within_a_sixth(kind: str) -> None:
    count, rules_of = USERS[kind]
    users = Users()
    empty_size = users.memory_size
    names = [b"user:%d" % number for number in range(count)]
    gc.collect()
    tracemalloc.start()
    try:
        for number, name in enumerate(names):
            users.set(name, rules_of(number))
        gc.collect()
        taken_size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    counted_size = users.memory_size - empty_size
    assert taken_size * 5 / 6 < counted_size < taken_size * 7 / 6
    for name in names:
        users.set(name, [b"reset"])
    assert users.memory_size < empty_size + count * 2_000
    for name in names:
        users.delete(name)
    assert users.memory_size - empty_size < count * 200  # the table of names, which Python does not shrink


def test_users_count_in_used_memory_until_they_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "users.acl"
    path.touch()
    rig = Rig(aclfile=bytes(path))
    caller = rig.connect()
    memory = rig.server.memory
    before = memory.measure()
    patterns = " ".join(f"~key:{number}" for number in range(1_000))
    caller.call("ACL SETUSER bob " + patterns)
    grown = memory.measure() - before
    # The table of commands of a user may become larger or smaller by a step.
    step = 20_000
    assert grown > 1_000 * 50 > 2 * step
    assert caller.call("ACL SETUSER bob ~x syntax-error").startswith(b"-ERR")
    caller.call("ACL SETUSER default -get", "ACL SETUSER default +get")
    assert abs(memory.measure() - before - grown) < step
    caller.call("ACL SAVE", "ACL DELUSER bob")
    assert abs(memory.measure() - before) < step
    assert caller.call("ACL LOAD") == b"+OK\r\n"
    assert abs(memory.measure() - before - grown) < step
    path.write_text("")
    assert caller.call("ACL LOAD") == b"+OK\r\n"
    assert abs(memory.measure() - before) < step


def test_entries_of_the_logs_of_refusals_and_of_slow_calls_count() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("ACL SETUSER al on nopass +get +config")
    memory = rig.server.memory
    before = memory.measure()
    other = rig.connect()
    other.call("AUTH al pw", *(f"GET {number}{'k' * 10_000}" for number in range(20)))
    assert memory.measure() - before > 20 * 10_000
    caller.call("CONFIG SET acllog-max-len 5")
    other.call("GET last")
    assert memory.measure() - before < 6 * 11_000
    caller.call("ACL LOG RESET")
    with_calls = memory.measure()
    caller.call("CONFIG SET slowlog-log-slower-than 0", *(f"SET {number} {'v' * 100}" for number in range(20)))
    caller.call("CONFIG SET slowlog-log-slower-than -1", "FLUSHALL")
    assert memory.measure() - with_calls > 20 * 300
    caller.call("SLOWLOG RESET")
    assert abs(memory.measure() - with_calls) < 1_000


def test_info_shows_what_the_limit_is_compared_with() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("CONFIG SET maxmemory 1gb")
    caller.call(f"SET k {'x' * 1_000_000}")
    shown = dict(line.split(b":", 1) for line in caller.call("INFO memory").split(b"\r\n") if b":" in line)
    used = int(shown[b"used_memory"])
    assert 1_000_000 < used <= int(shown[b"used_memory_peak"])
    assert used == rig.server.memory.measure()
    assert int(shown[b"used_memory_dataset"]) < used < int(shown[b"used_memory_rss"])


def test_every_row_that_writes_new_things_says_so() -> None:
    """The table's own flag decides what is refused; it is compared with that of Redis in tests/compat."""
    assert {row.name for row in all_rows() if row.flags & Flag.DENYOOM} >= {"XADD", "SET", "XGROUP|CREATE", "RESTORE"}


def test_fragmentation_compares_resident_memory_with_data_and_interpreter() -> None:
    """A new server has a ratio of about one, although it holds no data."""
    rig = Rig()
    fields = dict(
        line.split(":", 1) for line in rig.connect().call("INFO memory").decode().split("\r\n") if ":" in line
    )
    assert 0.5 < float(fields["mem_fragmentation_ratio"]) < 1.5
    memory = rig.server.memory
    used, resident = memory.measure(), int(fields["used_memory_rss"])
    ratio, size = memory.fragmentation(used, resident)
    assert memory.fragmentation(used, 2 * resident)[0] == pytest.approx(2 * ratio)
    assert memory.fragmentation(used, resident + 7)[1] == size + 7
