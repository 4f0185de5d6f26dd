"""COMMAND and its subcommands, compared with Redis."""

from __future__ import annotations

import pytest

from headrace.commands import registry
from headrace.commands.admin.introspection import acl_categories, all_rows, find_named
from headrace.commands.core.table import Flag, Row
from support.normalise import normalise
from support.servers import Server

assert registry.FAMILIES

SAME = """
COMMAND GETKEYS
COMMAND GETKEYS foo
COMMAND GETKEYS ping
COMMAND GETKEYS EVAL x 01 a
COMMAND GETKEYS EVAL x +1 a
COMMAND GETKEYS EVAL x " 1" a
COMMAND GETKEYS EVALSHA x 1z a
COMMAND GETKEYS EVALSHA x z a
COMMAND GETKEYS EVALSHA x -1 a
COMMAND GETKEYS EVALSHA x 00 a
COMMAND GETKEYS EVALSHA x 2 a
COMMAND GETKEYS EVAL_RO x 4294967297 a
COMMAND GETKEYS EVAL_RO x -4294967295 a
COMMAND GETKEYS EVAL_RO x 99999999999999999999 a
COMMAND GETKEYS EVALSHA_RO x 000000000000000000000000000001 a
COMMAND GETKEYSANDFLAGS EVALSHA_RO x 01 a
COMMAND GETKEYS xlen
COMMAND GETKEYS xlen a b
COMMAND GETKEYS XADD s * f v
COMMAND GETKEYS xread streams a b
COMMAND GETKEYS xread streams a b c
COMMAND GETKEYS xread count 1 a b
COMMAND GETKEYS xread count streams streams a b
COMMAND GETKEYS xread count 2 block 0
COMMAND GETKEYS xread maxcount 1 maxsize 2 streams a 0
COMMAND GETKEYS xreadgroup group streams streams streams a b c d
COMMAND GETKEYS xreadgroup group g c claim streams streams a
COMMAND GETKEYS xreadgroup group g c noack x streams a b
COMMAND GETKEYS xgroup create a b 0
COMMAND GETKEYS xgroup
COMMAND GETKEYS xgroup nosuch
COMMAND GETKEYS xgroup help
COMMAND GETKEYS multi
COMMAND GETKEYS watch a b c
COMMAND GETKEYS xinfo|stream k
COMMAND GETKEYSANDFLAGS xreadgroup group g c count 1 streams a b 0 0
COMMAND GETKEYSANDFLAGS xadd a b c
COMMAND GETKEYSANDFLAGS xadd a * b c
COMMAND GETKEYSANDFLAGS xdel a 1-1
COMMAND GETKEYSANDFLAGS ping
COMMAND GETKEYSANDFLAGS nosuch
COMMAND INFO nosuch
COMMAND INFO xinfo|nosuch
COMMAND INFO XINFO|STREAM|X
COMMAND INFO XLEN xread Xinfo|Stream nosuch
COMMAND INFO XLEN nosuch xlen XLEN
COMMAND DOCS nosuch
COMMAND LIST FILTERBY ACLCAT stream
COMMAND LIST FILTERBY aclcat STREAM
COMMAND LIST FILTERBY ACLCAT nosuch
COMMAND LIST FILTERBY MODULE nosuch
COMMAND LIST FILTERBY PATTERN XINFO*
COMMAND LIST FILTERBY
COMMAND LIST foo bar baz
COMMAND LIST FILTERBY foo bar
COMMAND LIST FILTERBY pattern a b
COMMAND COUNT x
COMMAND HELP
COMMAND HELP x
COMMAND nosuch
""".strip().splitlines()


@pytest.mark.oracle
@pytest.mark.parametrize("protocol", [2, 3])
def test_replies_are_those_of_redis(protocol: int, headrace: Server, oracle: Server) -> None:
    with headrace.connect(protocol) as ours, oracle.connect(protocol) as theirs:
        for line in SAME:
            argv = line.encode().split()
            assert normalise(ours.call(*argv), argv) == normalise(theirs.call(*argv), argv), line


@pytest.mark.oracle
def test_docs_have_the_shape_of_redis(headrace: Server, oracle: Server) -> None:
    with headrace.connect(3) as ours, oracle.connect(3) as theirs:
        mine, yours = (wire.ask("COMMAND", "DOCS", "xlen", "xadd", "nosuch") for wire in (ours, theirs))
    assert mine.keys() == yours.keys()
    assert mine[b"xlen"].keys() == yours[b"xlen"].keys()
    assert mine[b"xlen"][b"arguments"] == yours[b"xlen"][b"arguments"]


def test_a_repeated_name_is_described_again(server: Server) -> None:
    with server.connect(3) as wire:
        assert wire.call("COMMAND", "DOCS", "xlen", "nosuch", "XLEN").startswith(b"%2\r\n")
        wire.call("GET", "k")
        assert wire.call("LATENCY", "HISTOGRAM", "get", "GET").startswith(b"%2\r\n")


def test_bare_command_and_info_without_names_describe_all(headrace: Server) -> None:
    with headrace.connect() as wire:
        count = wire.ask("COMMAND", "COUNT")
        assert len(wire.ask("COMMAND")) == len(wire.ask("COMMAND", "INFO")) == count
        assert len(wire.ask("COMMAND", "DOCS")) == 2 * count
        names = wire.ask("COMMAND", "LIST")
        assert len(names) == len(set(names)) == len(list(all_rows()))


def test_categories_follow_from_flags_in_the_order_of_redis() -> None:
    row = Row("TEST", 1, None, Flag.WRITE | Flag.ADMIN | Flag.BLOCKING | Flag.FAST, categories=("stream", "keyspace"))
    assert acl_categories(row) == ("keyspace", "write", "stream", "admin", "fast", "blocking", "dangerous")
    assert acl_categories(Row("TEST", 1, None)) == ("slow",)


def test_rows_are_found_by_either_name_in_any_case() -> None:
    assert find_named(b"xInfo|sTream") is find_named(b"XINFO|STREAM")
    assert find_named(b"xinfo|nosuch") is None
    assert find_named(b"nosuch|x") is None
