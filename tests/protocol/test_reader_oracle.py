"""The reader compared with Redis: both receive the same bytes over TCP, and must send the same bytes until they close
or stop."""

from __future__ import annotations

import random
import socket
import struct

import pytest

from headrace.protocol.reader import RequestReader
from headrace.protocol.scalars import double_text
from support.servers import Server
from support.wire import Wire

from .test_reader import ROWS

pytestmark = pytest.mark.oracle

END_MARK = b"end-of-test"


def oracle_answer(server: Server, data: bytes) -> bytes:
    """Return everything that the server sends after `data` and an ECHO, until the ECHO's reply or the end of the
    connection.

    A server that waits for more of a request answers neither; then its silence is ended by our closing.
    """
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = bytearray()
        while piece := connection.recv(65536):
            answer += piece
    return bytes(answer)


@pytest.mark.parametrize(("data", "requests", "error"), ROWS)
def test_redis_reads_the_rows_alike(
    oracle: Server, data: bytes, requests: list[list[bytes]], error: bytes | None
) -> None:
    answer = oracle_answer(oracle, data)
    if error is None:
        assert b"Protocol error" not in answer
        assert answer.count(b"\r\n") == expected_line_count(requests), answer
    else:
        line = RequestReader()
        line.feed(data)
        assert line.error is not None
        assert answer.endswith(b"-" + line.error.wire_text + b"\r\n")


def expected_line_count(requests: list[list[bytes]]) -> int:
    """Lines of the replies: two for the bulk string of an ECHO with one word, one for a status or an error."""
    return sum(
        2 if [word.lower() for word in request[:1]] == [b"echo"] and len(request) == 2 else 1 for request in requests
    )


@pytest.mark.parametrize(
    "line",
    [
        rb'"\n\r\t\b\a\\\"\q"',
        rb'"\x41\x0a\xZZ\x4"',
        b'""',
        b"''",
        rb"'it\'s \n \\n'",
        b'ab"c d"',
        b"ab'c d'",
        b"a\x0bb\x0cc",
        b"\x0ba",
        b"a\\",
        b'"a',
        b"'a",
        b'"a\\"',
        rb"'a\\' ",
        rb"'a\\'",
        b'"a"b',
        b"'a''b'",
        b'a"',
        b'"a"\x0b',
        b"\xff\x80",
        b"a\r",
    ],
)
def test_redis_splits_inline_words_alike(oracle: Server, line: bytes) -> None:
    data = b"ECHO " + line + b"\r\n"
    reader = RequestReader()
    requests = reader.feed(data)
    if reader.error is not None:
        expected = b"-" + reader.error.wire_text + b"\r\n"
    else:
        [[_, word]] = requests
        expected = b"$%d\r\n%b\r\n" % (len(word), word)
    assert oracle_answer(oracle, data) == expected


def test_redis_lays_doubles_out_alike(oracle: Server) -> None:
    numbers = [scale * 10.0**exponent for scale in (1, 1.5, 123456789.0, 1 / 3) for exponent in range(-30, 31)]
    numbers += [2.0**exponent for exponent in range(50, 80)] + [-2.5, struct.unpack("<d", b"\x01" + bytes(7))[0]]
    numbers += [float("inf"), float("-inf")]
    rnd = random.Random(5)
    numbers += [rnd.uniform(-180, 180) for _ in range(2_000)]
    with Wire(oracle.port) as wire:
        for number in numbers:
            wire.call("DEL", "z")
            wire.call("ZADD", "z", repr(number), "m")
            reply = wire.call("ZSCORE", "z", "m")
            text = reply.split(b"\r\n")[1]
            assert float(text) == number
            assert text == double_text(number), number
