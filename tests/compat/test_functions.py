"""Libraries of functions on both servers: every reply to a long list of requests is the same, in both protocols."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from headrace.persistence.rdb.lengths import encode_length
from headrace.persistence.rdb.payload import FOOTER_SIZE, LIBRARY, dump_libraries
from support.lines import split
from support.servers import Server
from support.wire import Wire

pytestmark = pytest.mark.oracle

REQUESTS = Path(__file__).parent / "data" / "functions.txt"
# The end of a payload without a checksum.
UNCHECKED = dump_libraries((), compress=True)[:2] + bytes(FOOTER_SIZE - 2)
BROKEN = (b"#!lua", b"#!lua name=e\n", b"#!lua name=e\nwrong here", b"#!lua name=e\nlocal x = nil x()")


def library(name: str, *functions: str) -> bytes:
    """The text of a library with these functions, which return its name."""
    lines = [f"redis.register_function('{each}', function() return '{name}' end)" for each in functions]
    return "\n".join([f"#!lua name={name}", *lines]).encode()


def payload(*codes: bytes) -> bytes:
    """A payload of libraries, which need not be valid."""
    return b"".join([bytes((LIBRARY,)) + encode_length(len(code)) + code for code in codes]) + UNCHECKED


@pytest.mark.parametrize("protocol", [2, 3])
def test_every_request_gets_the_reply_of_redis(protocol: int, headrace: Server, oracle: Server) -> None:
    with headrace.connect(protocol) as ours, oracle.connect(protocol) as theirs:
        for wire in (ours, theirs):
            wire.call("FLUSHALL")
            wire.call("FUNCTION", "FLUSH")
        for line in REQUESTS.read_text("ascii").splitlines():
            words = split(line)
            assert ours.call(*words) == theirs.call(*words), line


def listed(wire: Wire) -> list[str]:
    """The libraries, whose order is random on Redis."""
    return sorted(map(repr, wire.ask("FUNCTION", "LIST", "WITHCODE")))


def test_payloads_are_restored_as_by_redis(headrace: Server, oracle: Server) -> None:
    """Goal: policies, and the errors of what is in the way or invalid. No payload has two libraries that are in the
    way: Redis names one of them at random."""
    first = (library("l", "f"), library("l", "h"), library("n", "f"), library("n", "z"), *BROKEN)
    second = (b"", library("l", "f"), library("q", "f"), library("L", "F"))
    policies: tuple[tuple[str, ...], ...] = ((), ("APPEND",), ("REPLACE",), ("replace",), ("FLUSH",), ("other",))
    requests = [[payload(*filter(None, codes)), *policy] for codes in product(first, second) for policy in policies]
    ends = (
        b"\xf5\x09abc",
        b"\xf5\xff",
        b"\xf5\xc0\x05",
        b"\xf5",
        b"\xf6\x03abc",
        b"\x05abc",
        b"\xf5\x81" + b"\xff" * 8,
    )
    requests += [[end + UNCHECKED] for end in ends]
    with headrace.connect() as ours, oracle.connect() as theirs:
        for words in requests:
            for wire in (ours, theirs):
                wire.call("FUNCTION", "FLUSH")
                wire.call("FUNCTION", "LOAD", library("l", "g"))
            assert ours.call("FUNCTION", "RESTORE", *words) == theirs.call("FUNCTION", "RESTORE", *words), words
            assert listed(ours) == listed(theirs), words


def test_each_server_restores_the_payload_of_the_other(headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        for giver, taker in ((ours, theirs), (theirs, ours)):
            giver.call("FUNCTION", "FLUSH")
            giver.call("FUNCTION", "LOAD", library("l", "f", "g"))
            giver.call("FUNCTION", "LOAD", library("m", "h"))
            assert taker.call("FUNCTION", "RESTORE", giver.ask("FUNCTION", "DUMP"), "FLUSH") == b"+OK\r\n"
            assert taker.ask("FCALL", "H", "0") == b"m"
        theirs.call("FUNCTION", "FLUSH")
        theirs.call("FUNCTION", "LOAD", library("l", "f"))
        ours.call("FUNCTION", "RESTORE", theirs.ask("FUNCTION", "DUMP"), "FLUSH")
        assert ours.call("FUNCTION", "DUMP") == theirs.call("FUNCTION", "DUMP")
