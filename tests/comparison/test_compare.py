"""headrace-compare finds every difference of two servers, also while clients write, and changes nothing."""

from __future__ import annotations

import io
import json
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headrace.commands.registry  # noqa: F401  # all rows
from headrace.commands.core.table import DECLARED, Flag
from headrace.comparison import pieces
from headrace.comparison.main import main
from support.certificates import Authority
from support.links import follow, settle
from support.ports import free_port
from support.servers import Server
from support.wire import Wire

FILL = (
    "SET text value",
    "SET short value PX 100000000",
    "XADD s 1-1 f v",
    "XADD s 2-1 f v w x",
    "XADD s 3-1 f v",
    "XGROUP CREATE s g 0",
    "XGROUP CREATE s h 0",
    "XREADGROUP GROUP g ann COUNT 2 STREAMS s >",
    "XNACK s g FAIL IDS 1 2-1",
    "XADD i IDMP producer one * f v",
    "XADD t 1-1 f v",
    "HSET hash f value g value",
    "HPEXPIRE hash 100000000 FIELDS 1 f",
    "RPUSH list one two three",
    "SADD set one two three",
    "ZADD ranks 1 one 2 two 2.5 three",
    "ARINSERT array zero",
    "ARSET array 1 one",
    "ARSET array 1000000 x",
)
# What is done on B, and the lines that report it.
CHANGES = {
    "DEL text": ["'text' type: string on A, nothing on B"],
    "SET more value": ["'more' type: nothing on A, string on B"],
    "SET text walue": ["'text' bytes: 76 at byte 0 on A, 77 at byte 0 on B"],
    "APPEND text s": [
        "'text' length: 5 on A, 6 on B",
        "'text' bytes: nothing at byte 5 on A, 73 at byte 5 on B",
    ],
    "PERSIST short": ["'short' expires: <ms> on A, none on B"],
    "XADD s 4-1 f v": [
        "'s' length: 3 on A, 4 on B",
        "'s' last-generated-id: 3-1 on A, 4-1 on B",
        "'s' entries-added: 3 on A, 4 on B",
        "'s' entry 4-1: nothing on A, 2 words on B",
    ],
    "XDEL s 3-1": [
        "'s' length: 3 on A, 2 on B",
        "'s' max-deleted-entry-id: 0-0 on A, 3-1 on B",
        "'s' entry 3-1: 2 words on A, nothing on B",
    ],
    "XSETID s 3-1 ENTRIESADDED 9": ["'s' entries-added: 3 on A, 9 on B"],
    "XCFGSET s IDMP-MAXSIZE 7": ["'s' idmp-maxsize: 100 on A, 7 on B"],
    "XIDMPRECORD t p x 1-1": ["'t' iids-added: 0 on A, 1 on B"],
    "XGROUP DESTROY s h": ["'s' groups: 2 on A, 1 on B", "'s' group 'h': it is there on A, nothing on B"],
    "XGROUP SETID s h 2-1 ENTRIESREAD 2": [
        "'s' group 'h' last-delivered-id: 0-0 on A, 2-1 on B",
        "'s' group 'h' entries-read: none on A, 2 on B",
    ],
    "XGROUP CREATECONSUMER s g bob": [
        "'s' group 'g' consumers: 1 on A, 2 on B",
        "'s' group 'g' consumer 'bob': nothing on A, 0 pending on B",
    ],
    "XACK s g 1-1": [
        "'s' group 'g' pending: 2 on A, 1 on B",
        "'s' group 'g' pending entry 1-1: owner 'ann' at <ms> with count 1 on A, nothing on B",
        "'s' group 'g' consumer 'ann': 1 pending on A, 0 pending on B",
    ],
    "XNACK s g FAIL IDS 1 1-1": [
        "'s' group 'g' pending entry 1-1: owner 'ann' at <ms> with count 1 on A, released with count 1 on B",
        "'s' group 'g' consumer 'ann': 1 pending on A, 0 pending on B",
    ],
    "XNACK s g FATAL IDS 1 2-1": [
        "'s' group 'g' pending entry 2-1: released with count 1 on A, released with count 9223372036854775807 on B"
    ],
    "XCLAIM s g ann 0 1-1 IDLE 5000 RETRYCOUNT 1": [
        "'s' group 'g' pending entry 1-1: owner 'ann' at <ms> with count 1 on A, owner 'ann' at <ms> with count 1 on B"
    ],
    "HSET hash g walue": ["'hash' field 'g': 5 bytes, other from byte 0 on A, 5 bytes, other from byte 0 on B"],
    "HSET hash h value i value": ["'hash' field 'h': nothing on A, 5 bytes on B"],
    "HDEL hash g": ["'hash' field 'g': 5 bytes on A, nothing on B"],
    "HPERSIST hash FIELDS 1 f": ["'hash' field 'f' expires: <ms> on A, none on B"],
    "HPEXPIRE hash 200000000 FIELDS 2 f g": ["'hash' field 'f' expires: <ms> on A, <ms> on B"],
    "RPUSH list four five": ["'list' element 3: nothing on A, 4 bytes on B"],
    "LSET list 1 twin": ["'list' element 1: 3 bytes, other from byte 2 on A, 4 bytes, other from byte 2 on B"],
    "LPOP list": ["'list' element 0: 3 bytes, other from byte 0 on A, 3 bytes, other from byte 0 on B"],
    "SADD set four": ["'set' member 'four': nothing on A, it is there on B"],
    "SREM set one": ["'set' member 'one': it is there on A, nothing on B"],
    "SMOVE set other one": [
        "'other' type: nothing on A, set on B",
        "'set' member 'one': it is there on A, nothing on B",
    ],
    "ZINCRBY ranks 0.25 two": ["'ranks' rank 1: member 'two' with score 2 on A, member 'two' with score 2.25 on B"],
    "ZADD ranks inf last": ["'ranks' rank 3: nothing on A, member 'last' with score inf on B"],
    "ZREM ranks one": ["'ranks' rank 0: member 'one' with score 1 on A, member 'two' with score 2 on B"],
    "ARSET array 7 seven": ["'array' element 7: nothing on A, 5 bytes on B"],
    "ARMSET array 7 seven 8 eight": ["'array' elements 7 to 8: nothing on A, 2 on B"],
    "ARDEL array 1000000": ["'array' element 1000000: 1 bytes on A, nothing on B"],
    "ARSET array 0 xero": ["'array' element 0: 4 bytes, other from byte 0 on A, 4 bytes, other from byte 0 on B"],
    "ARSET array 18446744073709551614 x": ["'array' element 18446744073709551614: nothing on A, 1 bytes on B"],
    "ARSEEK array 9": ["'array' next-insert-index: 1 on A, 9 on B"],
    "RENAME list ranks": ["'list' type: list on A, nothing on B", "'ranks' type: zset on A, list on B"],
}
# Changes by which a value has the same number of members, so that only a look at each of them finds the difference.
EXCHANGES = {
    ("SREM set one", "SADD set four"): "'set' member 'one': it is there on A, nothing on B",
    ("HDEL hash g", "HSET hash h value"): "'hash' field 'g': 5 bytes on A, nothing on B",
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Two Headraces, of which the second can follow the first."""
    options = ("--appendonly", "no", "--repl-diskless-sync-delay", "0")
    found = [Server("headrace", tmp_path_factory.mktemp(name), *options).start() for name in "ab"]
    yield found[0], found[1]
    for server in found:
        server.stop()


@pytest.fixture
def equal(servers: tuple[Server, Server]) -> tuple[Server, Server]:
    """Both with the same data, and no link between them."""
    a, b = servers
    with a.connect() as above, b.connect() as below:
        below.call("REPLICAOF", "NO", "ONE")
        above.call("FLUSHALL")
        for line in FILL:
            assert not above.call(*line.split()).startswith(b"-"), line
        follow(below, a)
        settle(above, below)
        below.call("REPLICAOF", "NO", "ONE")
    return a, b


def compare(capsys: pytest.CaptureFixture[str], a: Server, b: Server, *words: str) -> tuple[int, list[str]]:
    """Exit code and lines."""
    capsys.readouterr()
    code = main([f"127.0.0.1:{a.port}", f"127.0.0.1:{b.port}", *words])
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, captured.out.splitlines()


def without_times(line: str) -> str:
    """Times, which have 13 digits, as `<ms>`."""
    words = line.removeprefix("db 0 ").split(" ")
    return " ".join("<ms>" if len(word) == 13 and word.isdecimal() else word for word in words)


def test_equal_servers_are_equal(equal, capsys) -> None:
    code, lines = compare(capsys, *equal)
    assert code == 0
    assert lines[0].startswith("equal (10 keys, 5 entries, 2 pending entries, 14 elements, ")
    assert len(lines) == 1


@pytest.mark.parametrize("change", CHANGES)
def test_a_difference_is_a_line(equal, capsys, change: str) -> None:
    with equal[1].connect() as wire:
        assert not wire.call(*change.split()).startswith(b"-")
    code, lines = compare(capsys, *equal, "--rounds", "1")
    assert code == 1
    assert sorted(map(without_times, lines[:-1])) == sorted(CHANGES[change])
    assert lines[-1].startswith(f"different: {len(CHANGES[change])} differences (")


@pytest.mark.parametrize("changes", EXCHANGES)
def test_members_are_compared_where_there_are_as_many(equal, capsys, changes: tuple[str, ...]) -> None:
    with equal[1].connect() as wire:
        for change in changes:
            assert wire.call(*change.split()) == b":1\r\n"
    code, lines = compare(capsys, *equal, "--rounds", "1")
    assert (code, lines[:-1]) == (1, [f"db 0 {EXCHANGES[changes]}"])


def fill_large(wire: Wire) -> None:
    """Values of several pages, in the encodings of large values."""
    words = [f"{number:05}" for number in range(3000)]
    wire.call("RPUSH", "large list", *words)
    wire.call("SADD", "large set", *(f"m{word}" for word in words))
    wire.call("ZADD", "large ranks", *(each for word in words for each in (int(word) // 100, word)))
    wire.call("HSET", "large hash", *(each for word in words for each in (word, f"v{word}")))
    wire.call("ARMSET", "large array", *(each for word in words for each in (int(word) ** 2, word)))


# A change on B, and the line that reports it.
LATE = (
    ("LSET", "large list", 2990, "x", "element 2990: 5 bytes, other from byte 0 on A, 1 bytes, other from byte 0 on B"),
    ("LPUSH", "large list", "x", "element 0: 5 bytes, other from byte 0 on A, 1 bytes, other from byte 0 on B"),
    ("SADD", "large set", "new", "member 'new': nothing on A, it is there on B"),
    ("SREM", "large set", "m02222", "member 'm02222': it is there on A, nothing on B"),
    ("ZREM", "large ranks", "02998", "rank 2998: member '02998' with score 29 on A, member '02999' with score 29 on B"),
    (
        "HSET",
        "large hash",
        "02222",
        "x",
        "field '02222': 6 bytes, other from byte 0 on A, 1 bytes, other from byte 0 on B",
    ),
    ("HDEL", "large hash", "02222", "field '02222': 6 bytes on A, nothing on B"),
    ("ARDEL", "large array", 2222**2, "element 4937284: 5 bytes on A, nothing on B"),
    ("ARSET", "large array", 2222**2 + 1, "x", "element 4937285: nothing on A, 1 bytes on B"),
)


@pytest.mark.parametrize("page_count_max", [100, pieces.PAGE_COUNT_MAX])
def test_large_values_are_compared_to_the_end(
    equal, capsys, page_count_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PAGE_COUNT_MAX", page_count_max)
    for server in equal:
        with server.connect() as wire:
            fill_large(wire)
    code, lines = compare(capsys, *equal)
    assert code == 0
    assert int(lines[0].split(" elements")[0].split(", ")[-1].replace(",", "")) >= 15_014
    for *change, line in LATE:
        with equal[1].connect() as wire:
            wire.call("DEL", *(f"large {each}" for each in ("list", "set", "ranks", "hash", "array")))
            fill_large(wire)
            assert not wire.call(*change).startswith(b"-")
        code, lines = compare(capsys, *equal, "--rounds", "1")
        assert (code, lines[:-1]) == (1, [f"db 0 '{change[1]}' {line}"])


def test_fields_that_differ_are_named_by_their_place_and_not_shown(equal, capsys) -> None:
    with equal[1].connect() as wire:
        wire.call("DEL", "t")
        wire.call("XADD", "t", "1-1", "f", "secret")
    code, lines = compare(capsys, *equal, "--rounds", "1")
    assert code == 1
    assert "db 0 't' entry 1-1: 2 words, other from word 2 on A, 2 words, other from word 2 on B" in lines
    assert "secret" not in "".join(lines)


def test_all_databases_are_compared_or_those_that_are_named(equal, capsys) -> None:
    a, b = equal
    with a.connect() as wire:
        wire.call("SELECT", 5)
        wire.call("SET", "x", 1)
    assert compare(capsys, a, b, "--rounds", "1")[1][0] == "db 5 'x' type: string on A, nothing on B"
    assert compare(capsys, a, b, "--database", "0", "--database", "1")[0] == 0
    assert compare(capsys, a, b, "--match", "s*", "--database", "5")[0] == 0
    assert main([f"redis://127.0.0.1:{a.port}/0", f"127.0.0.1:{b.port}"]) == 0
    assert main([f"redis://127.0.0.1:{a.port}/5", f"redis://127.0.0.1:{b.port}/1", "--rounds", "1"]) == 1
    assert "db 5/1 'x' type: string on A, nothing on B" in capsys.readouterr().out


def test_limit_ends_the_comparison(equal, capsys) -> None:
    with equal[1].connect() as wire:
        wire.call("FLUSHALL")
    code, lines = compare(capsys, *equal, "--limit", "2", "--rounds", "1")
    assert (code, len(lines)) == (1, 3)
    assert ", ended by --limit (" in lines[-1]


def test_json_has_an_object_for_each_line(equal, capsys) -> None:
    with equal[1].connect() as wire:
        wire.call("DEL", "text")
    code, lines = compare(capsys, *equal, "--json", "--rounds", "1")
    difference, result = map(json.loads, lines)
    assert code == 1
    assert difference == {
        "database": 0,
        "database_b": 0,
        "key": "text",
        "what": "type",
        "a": "string",
        "b": "nothing",
        "moving": False,
    }
    assert (result["result"], result["differences"], result["keys"]) == ("different", 1, 10)


def test_pages_meet_where_one_server_has_more(equal, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of two entries, so that those of the servers end at different IDs."""
    monkeypatch.setattr(pieces, "PAGE_COUNT_MAX", 2)
    a, b = equal
    for server in equal:
        with server.connect() as wire:
            for number in range(1, 12):
                wire.call("XADD", "pages", f"{number}-0", "f", "v")
            wire.call("XGROUP", "CREATE", "pages", "g", 0)
            for number in range(1, 12):
                wire.call("XCLAIM", "pages", "g", "c", 0, f"{number}-0", "TIME", 1000, "FORCE")
    assert compare(capsys, a, b)[0] == 0
    with a.connect() as wire:
        wire.call("XDEL", "pages", "3-0", "4-0", "11-0")
        wire.call("XACK", "pages", "g", "6-0", "7-0")
    with b.connect() as wire:
        wire.call("XDEL", "pages", "1-0", "8-0")
    code, lines = compare(capsys, a, b, "--rounds", "1")
    assert code == 1
    entries = [line.removeprefix("db 0 'pages' ") for line in lines if line.startswith("db 0 'pages' entr")]
    assert entries == [
        "entry 1-0: 2 words on A, nothing on B",
        "entries 3-0 to 4-0: nothing on A, 2 on B",
        "entry 8-0: 2 words on A, nothing on B",
        "entry 11-0: nothing on A, 2 words on B",
    ]
    pending = [line.split(":")[0].split()[-1] for line in lines if " pending entry " in line]
    assert pending == ["6-0", "7-0"]


def test_it_sends_only_what_reads(equal, capsys) -> None:
    a, b = equal
    with b.connect() as wire:
        wire.call("XADD", "s", "9-1", "f", "v")
        follow(wire, a)
        wire.call("REPLICAOF", "NO", "ONE")
        wire.call("XADD", "s", "9-1", "f", "v")
    with a.connect() as monitor, a.connect() as wire:
        monitor.call("MONITOR")
        digest = wire.ask("DEBUG", "DIGEST")
        assert compare(capsys, a, b)[0] == 1
        assert wire.ask("DEBUG", "DIGEST") == digest
        wire.call("ECHO", "end")
        seen = set()
        while b'"ECHO"' not in (line := monitor.receive()):
            seen.add(line.split(b'"')[1].decode())
    assert {"SCAN", "XRANGE", "XPENDING"} <= seen
    assert [name for name in seen - {"DEBUG"} if DECLARED[name.upper().encode()].flags & Flag.WRITE] == []


def test_memory_is_bounded_by_pages(equal, capsys) -> None:
    for server in equal:
        with server.connect() as wire:
            for number in range(1, 65):
                wire.call("XADD", "wide", f"{number}-1", "f", b"v" * (1 << 20 if number > 2 else 1))
            wire.call("SETRANGE", "long", 1 << 26, "x")
    tracemalloc.start()
    try:
        assert compare(capsys, *equal)[0] == 0
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


def test_memory_of_members_is_bounded_by_pages(equal, capsys) -> None:
    for server in equal:
        with server.connect() as wire:
            for number in range(700):
                long = b"%d" % number + b"v" * (1 << 16)
                wire.call("RPUSH", "wide list", long)
                wire.call("HSET", "wide hash", number, long)
                wire.call("SADD", "wide set", long)
                wire.call("ZADD", "wide ranks", number, long)
    tracemalloc.start()
    try:
        assert compare(capsys, *equal)[0] == 0
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_members_and_strings_of_a_megabyte_are_compared(equal, capsys) -> None:
    """A server reads no more of long requests while its replies to others are not read."""
    for server in equal:
        with server.connect() as wire:
            for number in range(20):
                long = b"%d" % number + b"v" * (1 << 20)
                wire.call("HSET", "long names", long, long)
                wire.call("SADD", "wide set", long)
                wire.call("RPUSH", "wide list", long)
    assert compare(capsys, *equal)[0] == 0


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_and_removed(equal, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [f"127.0.0.1:{server.port}" for server in equal]
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(addresses) == 0
    first, *_, last = terminal.getvalue().split("\r\x1b[K")[1:]
    assert first.endswith(" of 10 keys, 0 entries, 0 pending")
    assert last == ""


def test_without_a_server_there_is_one_line(equal, capsys) -> None:
    a = f"127.0.0.1:{equal[0].port}"
    nothing = f"127.0.0.1:{free_port()}"
    assert main([a, nothing]) == 2
    assert capsys.readouterr().err == f"headrace-compare: B ({nothing}): connection refused\n"
    assert main([a, a, "--database", "99"]) == 2
    assert capsys.readouterr().err == f"headrace-compare: A ({a}) refuses SELECT: ERR DB index is out of range\n"
    assert main([f"redis://{a}/0", a, "--database", "0"]) == 2
    assert main([a, f"redis://x:wrong@{a}"]) == 2
    assert capsys.readouterr().err.endswith(
        f"B ({a}) refuses AUTH: WRONGPASS invalid username-password pair or user is disabled.\n"
    )


def test_user_with_few_rights_can_compare(equal, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = equal
    rights = "+select +scan +type +pexpiretime +dbsize +strlen +getrange +xinfo +xrange +xpending +info +time +ping"
    rights += " +lrange +zrange +sscan +scard +smismember +hscan +hlen +hmget +hpexpiretime +arnext +arscan"
    with a.connect() as wire:
        wire.call("ACL", "SETUSER", "reader", "on", ">a-password", "~*", *rights.split(), "+multi", "+exec")
        wire.call("SET", "text", "other")
    monkeypatch.setenv("HEADRACE_COMPARE_PASSWORD_A", "a-password")
    assert main([f"redis://reader@127.0.0.1:{a.port}", f"127.0.0.1:{b.port}"]) == 1
    captured = capsys.readouterr()
    assert captured.err == ""
    with a.connect() as wire:
        wire.call("ACL", "SETUSER", "reader", "-xrange")
    assert main([f"redis://reader@127.0.0.1:{a.port}", f"127.0.0.1:{b.port}"]) == 2
    captured = capsys.readouterr()
    assert "has no permissions to run the 'xrange' command" in captured.err
    assert "a-password" not in captured.err + captured.out


def test_tls_is_used_for_rediss(tmp_path: Path, start_server: Callable[..., Server], equal, capsys) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    tls_port = free_port()
    words = ["--tls-port", str(tls_port), "--tls-cert-file", str(certificate), "--tls-key-file", str(key)]
    server = start_server("headrace", *words, "--tls-auth-clients", "no")
    with server.connect() as wire, equal[0].connect() as above:
        follow(wire, equal[0])
        settle(above, wire)
    address = f"rediss://127.0.0.1:{tls_port}"
    assert main([address, f"127.0.0.1:{equal[0].port}", "--tls-ca-file", str(authority.file)]) == 0
    assert main([address, f"127.0.0.1:{equal[0].port}"]) == 2
    assert "certificate verify failed" in capsys.readouterr().err.lower()


class Busy:
    """Clients that write to a server all the time."""

    def __init__(self, port: int) -> None:
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(port, name)) for name in ("ann", "bob")]

    def __enter__(self) -> Busy:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, port: int, name: str) -> None:
        """Acknowledges in each turn what was read in the one before, so that the pending entries stay few."""
        held: list[bytes] = []
        with Wire(port) as wire:
            while not self._is_over.is_set():
                wire.call("XADD", "busy", "MAXLEN", "~", 300, "*", "f", "v")
                wire.call("INCR", "counter")
                if held:
                    wire.call("XACK", "busy", "g", *held)
                reply = wire.ask("XREADGROUP", "GROUP", "g", name, "COUNT", 5, "STREAMS", "busy", ">") or []
                held = [entry_id for _, entries in reply for entry_id, _ in entries]


def test_what_is_written_meanwhile_is_no_difference(equal, capsys) -> None:
    a, b = equal
    with a.connect() as above, b.connect() as below:
        above.call("XGROUP", "CREATE", "busy", "g", 0, "MKSTREAM")
        follow(below, a)
        with Busy(a.port):
            for _ in range(2):
                code, lines = compare(capsys, a, b)
                assert code == 0, lines
            assert compare(capsys, b, a)[0] == 0
            # A difference is found nevertheless.
            below.call("CONFIG", "SET", "replica-read-only", "no")
            below.call("XGROUP", "CREATECONSUMER", "busy", "g", "eve")
            below.call("XCFGSET", "busy", "IDMP-MAXSIZE", 7)
            code, lines = compare(capsys, a, b)
            below.call("CONFIG", "SET", "replica-read-only", "yes")
    assert code == 1
    assert sorted(lines[:-1]) == [
        "db 0 'busy' group 'g' consumer 'eve': nothing on A, 0 pending on B",
        "db 0 'busy' group 'g' consumers: 2 on A, 3 on B",
        "db 0 'busy' idmp-maxsize: 100 on A, 7 on B",
    ]


def test_what_changes_all_the_time_without_a_common_stream_is_not_decided(equal, capsys) -> None:
    a, b = equal
    with a.connect() as above:
        above.call("XGROUP", "CREATE", "busy", "g", 0, "MKSTREAM")
    with b.connect() as below:
        below.call("XGROUP", "CREATE", "busy", "g", 0, "MKSTREAM")
        below.call("SET", "counter", 1)
    with Busy(a.port):
        code, lines = compare(capsys, a, b, "--match", "counter", "--rounds", "2")
    assert code == 2
    assert lines[0].endswith(" on B (changes all the time)")
    assert lines[-1].startswith("not compared, ")


def test_members_that_change_meanwhile_are_no_difference(equal, capsys) -> None:
    """A client moves what there is, so that pages of both servers are of different moments."""
    a, b = equal
    is_over = threading.Event()

    def change() -> None:
        with a.connect() as wire:
            number = 0
            while not is_over.is_set():
                number += 1
                wire.call("LMOVE", "large list", "large list", "LEFT", "RIGHT")
                wire.call("SMOVE", "large set", "large set", "m00001")
                wire.call("SADD", "large set", number)
                wire.call("SREM", "large set", number - 3)
                wire.call("ZADD", "large ranks", number, f"{number % 3000:05}")
                wire.call("HSETEX", "large hash", "PX", 5_000, "FIELDS", 1, number, "v")
                wire.call("HDEL", "large hash", number - 3)

    with a.connect() as above, b.connect() as below:
        fill_large(above)
        follow(below, a)
        thread = threading.Thread(target=change)
        thread.start()
        try:
            code, lines = compare(capsys, a, b)
            assert code == 0, lines
            # A difference is found nevertheless.
            below.call("CONFIG", "SET", "replica-read-only", "no")
            below.call("SADD", "large set", "other")
            below.call("HSET", "large hash", "02222", "other")
            code, lines = compare(capsys, b, a)
            below.call("CONFIG", "SET", "replica-read-only", "yes")
        finally:
            is_over.set()
            thread.join()
    assert code == 1
    assert sorted(lines[:-1]) == [
        "db 0 'large hash' field '02222': 5 bytes, other from byte 0 on A, 6 bytes, other from byte 0 on B",
        "db 0 'large set' member 'other': it is there on A, nothing on B",
    ]


@pytest.mark.oracle
def test_redis_and_headrace_are_compared_and_other_types_are_named(start_server: Callable[..., Server], capsys) -> None:
    redis, twin = (start_server("oracle", "--repl-diskless-sync-delay", "0") for _ in range(2))
    headrace = start_server("headrace")
    with redis.connect() as above, headrace.connect() as below, twin.connect() as beside:
        for line in FILL:
            above.call(*line.split())
        fill_large(above)
        for wire in (below, beside):
            follow(wire, redis)
        settle(above, below, beside)
        assert compare(capsys, redis, headrace)[0] == 0
        assert compare(capsys, headrace, twin)[0] == 0
        above.call("VADD", "vectors", "VALUES", "1", "1", "m")
        settle(above, beside)
        code, lines = compare(capsys, redis, twin)
        assert code == 2
        assert lines[0] == "db 0 'vectors' is not compared: it is a vectorset"
        assert lines[1].startswith("not compared, 1 keys of other types (")
        below.call("REPLICAOF", "NO", "ONE")
        for *change, _ in LATE[2:5]:
            below.call(*change)
        below.call("HPEXPIREAT", "large hash", 9_000_000_000_000, "FIELDS", 1, "02222")
        code, lines = compare(capsys, redis, headrace, "--rounds", "1", "--match", "large*")
        assert (code, len(lines)) == (1, 4)
        assert "db 0 'large hash' field '02222' expires: none on A, 9000000000000 on B" in lines
        code, lines = compare(capsys, headrace, redis, "--rounds", "1", "--match", "large*")
        assert "db 0 'large hash' field '02222' expires: 9000000000000 on A, none on B" in lines
        code, lines = compare(capsys, redis, headrace, "--rounds", "1", "--match", "vec*")
        assert (code, lines[0]) == (1, "db 0 'vectors' type: vectorset on A, nothing on B")
