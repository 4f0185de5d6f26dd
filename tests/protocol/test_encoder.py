"""Reply values to bytes: one table of (value, RESP2, RESP3), alone and inside a list."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from headrace.protocol import reply_writer_plain
from headrace.protocol.encoder import ENCODERS, bulks, encode2, encode3
from headrace.protocol.replies import (
    NULL_ARRAY,
    OK,
    BigNumber,
    DoubleText,
    FormattedText,
    PairList,
    Pairs,
    Push,
    Pushed,
    SetReply,
    SimpleString,
    Verbatim,
)
from headrace.protocol.scalars import INTEGERS_MAX, bulk, double_text, integer
from headrace.store.errors import BusyGroup, GenericError, NoGroup, ReplyError, WrongType

ROWS: list[tuple[Any, bytes, bytes | None]] = [
    (b"hello", b"$5\r\nhello\r\n", None),
    (b"", b"$0\r\n\r\n", None),
    (b"\r\n", b"$2\r\n\r\n\r\n", None),
    (0, b":0\r\n", None),
    (-1, b":-1\r\n", None),
    (INTEGERS_MAX - 1, b":1023\r\n", None),
    (INTEGERS_MAX, b":1024\r\n", None),
    (2**63 - 1, b":9223372036854775807\r\n", None),
    (-(2**63), b":-9223372036854775808\r\n", None),
    (None, b"$-1\r\n", b"_\r\n"),
    (NULL_ARRAY, b"*-1\r\n", b"_\r\n"),
    (True, b":1\r\n", b"#t\r\n"),
    (False, b":0\r\n", b"#f\r\n"),
    (3.141, b"$5\r\n3.141\r\n", b",3.141\r\n"),
    (inf, b"$3\r\ninf\r\n", b",inf\r\n"),
    (-inf, b"$4\r\n-inf\r\n", b",-inf\r\n"),
    (nan, b"$3\r\nnan\r\n", b",nan\r\n"),
    ([], b"*0\r\n", None),
    ([b"a", 1, None], b"*3\r\n$1\r\na\r\n:1\r\n$-1\r\n", b"*3\r\n$1\r\na\r\n:1\r\n_\r\n"),
    ([[b"a"], [[]]], b"*2\r\n*1\r\n$1\r\na\r\n*1\r\n*0\r\n", None),
    (SimpleString(b"stream"), b"+stream\r\n", None),
    ([SimpleString(b"a")], b"*1\r\n+a\r\n", None),
    (Verbatim(b"some"), b"$4\r\nsome\r\n", b"=8\r\ntxt:some\r\n"),
    (FormattedText(b"mkd:some"), b"$4\r\nsome\r\n", b"=8\r\nmkd:some\r\n"),
    (DoubleText(b"0.10"), b"$4\r\n0.10\r\n", b",0.10\r\n"),
    (BigNumber(b"123"), b"$3\r\n123\r\n", b"(123\r\n"),
    (10**30, b":1%b\r\n" % (b"0" * 30), None),
    (b"long" * 10_000, b"$40000\r\n%b\r\n" % (b"long" * 10_000), None),
    ([b"short"] * 1000, b"*1000\r\n" + b"$5\r\nshort\r\n" * 1000, None),
    (Pushed((b">1\r\n", b":1\r\n")), b">1\r\n:1\r\n", None),
    (
        {b"a": 1, b"b": [2]},
        b"*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*1\r\n:2\r\n",
        b"%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*1\r\n:2\r\n",
    ),
    ({}, b"*0\r\n", b"%0\r\n"),
    (
        Pairs([(b"f", 1), (b"f", None)]),
        b"*4\r\n$1\r\nf\r\n:1\r\n$1\r\nf\r\n$-1\r\n",
        b"%2\r\n$1\r\nf\r\n:1\r\n$1\r\nf\r\n_\r\n",
    ),
    (PairList([(b"s", [1])]), b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n:1\r\n", b"%1\r\n$1\r\ns\r\n*1\r\n:1\r\n"),
    (SetReply([b"a"]), b"*1\r\n$1\r\na\r\n", b"~1\r\n$1\r\na\r\n"),
    (Push([b"a", 1]), b"*2\r\n$1\r\na\r\n:1\r\n", b">2\r\n$1\r\na\r\n:1\r\n"),
    (OK, b"+OK\r\n", None),
    ((), b"", None),
    ((b"*1\r\n", b":5\r\n"), b"*1\r\n:5\r\n", None),
    ([(b":5\r\n",), b"a"], b"*2\r\n:5\r\n$1\r\na\r\n", None),
    (GenericError(b"syntax error"), b"-ERR syntax error\r\n", None),
    (GenericError(b"F\r\nOO"), b"-ERR F  OO\r\n", None),
    (
        WrongType(),
        b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        None,
    ),
    (BusyGroup(), b"-BUSYGROUP Consumer Group name already exists\r\n", None),
    ([NoGroup(b"x"), 1], b"*2\r\n-NOGROUP x\r\n:1\r\n", None),
]


PLAIN = {2: reply_writer_plain.encode2, 3: reply_writer_plain.encode3}


def encoded(protocol: int, value: Any) -> bytes:
    """What both forms write."""
    out: list[bytes] = []
    ENCODERS[protocol](value, out)
    expected: list[bytes] = []
    PLAIN[protocol](value, expected)
    assert b"".join(out) == b"".join(expected)
    return b"".join(out)


@pytest.mark.parametrize(("value", "resp2", "resp3"), ROWS, ids=lambda part: repr(part)[:40])
def test_values_are_written_in_both_protocols(value: Any, resp2: bytes, resp3: bytes | None) -> None:
    assert encoded(2, value) == resp2
    assert encoded(3, value) == (resp2 if resp3 is None else resp3)


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("value", [row[0] for row in ROWS], ids=lambda value: repr(value)[:40])
def test_a_value_is_written_inside_lists_as_it_is_alone(protocol: int, value: Any) -> None:
    alone = encoded(protocol, value)
    assert encoded(protocol, [value, value]) == b"*2\r\n" + alone + alone
    assert encoded(protocol, Pairs([(b"k", value)])).endswith(alone)


@pytest.mark.parametrize("protocol", [2, 3])
def test_writing_appends_to_what_is_there(protocol: int) -> None:
    out = [b"+OK\r\n"]
    ENCODERS[protocol]([1, (b":2\r\n", b":3\r\n")], out)
    assert b"".join(out) == b"+OK\r\n*2\r\n:1\r\n:2\r\n:3\r\n"
    assert {2: encode2, 3: encode3} == ENCODERS


def test_every_reply_error_class_is_written_without_being_listed() -> None:
    class Odd(ReplyError):
        prefix = b"ODD"

    assert encoded(2, Odd(b"x")) == b"-ODD x\r\n"


@pytest.mark.parametrize("value", ["text", object(), bytearray(b"x"), {1}])
def test_what_is_no_reply_value_is_our_bug(value: Any) -> None:
    with pytest.raises(TypeError, match="no reply value"):
        encode2(value, [])


def test_a_part_that_is_made_later_keeps_its_place() -> None:
    later = iter([b"+b\r\n"])
    out: list[Any] = []
    encode2([b"a", (b"", later), b"c"], out)
    assert b"".join(piece if isinstance(piece, bytes) else b"".join(piece) for piece in out) == (
        b"*3\r\n$1\r\na\r\n+b\r\n$1\r\nc\r\n"
    )


@pytest.mark.parametrize("form", [encode2, reply_writer_plain.encode2])
def test_a_value_in_too_many_lists_is_an_error_and_no_crash(form: Any) -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(RecursionError):
        form(value, [])
    while value:  # or freeing it would need as many calls
        value = value.pop()


@pytest.mark.parametrize("form", [bulks, reply_writer_plain.bulks])
def test_words_are_written_one_after_the_other(form: Any) -> None:
    words = [b"", b"a", b"x" * 100_000, b"\r\n", b"y" * 10]
    assert form([]) == b""
    assert form(words) == b"".join(map(bulk, words))
    with pytest.raises(TypeError):
        form([b"a", None])


def test_helpers_write_what_the_encoders_write() -> None:
    assert bulk(b"abc") == b"$3\r\nabc\r\n"
    for number in (-1, 0, 7, INTEGERS_MAX - 1, INTEGERS_MAX, 2**63 - 1):
        assert integer(number) == b":%d\r\n" % number


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, b"0"),
        (-0.0, b"-0"),
        (0.1, b"0.1"),
        (-2.5, b"-2.5"),
        (0.1 + 0.2, b"0.30000000000000004"),
        (0.001, b"0.001"),
        (1e-6, b"0.000001"),
        (1e-7, b"1e-7"),
        (1.5e-7, b"1.5e-7"),
        (1.2345678901234567e-5, b"1.2345678901234568e-5"),
        (1e17, b"100000000000000000"),
        (4.6e18, b"4600000000000000000"),
        (5e18, b"5e+18"),
        (12345678901234567890.0, b"12345678901234567000"),
        (123456789e12, b"1.23456789e+20"),
        (-5e-324, b"-5e-324"),
        (1.7976931348623157e308, b"1.7976931348623157e+308"),
        # Not the shortest text: as in Redis.
        (-199.72363, b"-199.72363000000001"),
        (15025.51716806073, b"1.5025517168060729e+4"),
    ],
)
def test_doubles_are_laid_out_as_redis_does_and_read_back(number: float, text: bytes) -> None:
    assert double_text(number) == text
    assert float(text) == number
