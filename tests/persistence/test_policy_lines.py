"""Policy lines in the forms of the log and of the replication stream."""

from __future__ import annotations

import random

import pytest

from headrace.persistence.errors import BadPolicyLine
from headrace.persistence.policy_lines import (
    LINE_SIZE_MAX,
    PolicyLines,
    is_policy_line,
    log_lines,
    ping_of_lines,
    policy_text,
    text_of_lines,
    text_of_ping,
    words_of_text,
)
from headrace.protocol.reader import RequestReader

AWKWARD = [
    b"", b" ", b"a b", b"\n", b"\r\n#HR repl x", b'"', b"'", b"\\", b"\\x41", b"\x00", b"\xff\xfe", bytes(range(256)),
    b"#TS:1", b"it's", b"\t\v\f", "ключ".encode(),
]  # fmt: skip


def words_of_lines(lines: bytes) -> list[bytes]:
    joiner, found = PolicyLines(), []
    for line in lines.splitlines(keepends=True):
        assert is_policy_line(line)
        assert not found
        words = joiner.take(line)
        if words is not None:
            found.append(words)
    (words,) = found
    return words


def lists_of_words() -> list[list[bytes]]:
    generator = random.Random(23)
    lists = [[b"DUE", word, *AWKWARD] for word in AWKWARD]
    for size in range(LINE_SIZE_MAX - 20, LINE_SIZE_MAX + 20):
        lists.append([b"DUE", b"k" * size])
    lists.append([b"LATER", generator.randbytes(5000), b"9" * 100_000])
    return lists


@pytest.mark.parametrize("words", lists_of_words(), ids=range(len(lists_of_words())))
def test_each_form_gives_the_words_back(words: list[bytes]) -> None:
    text, lines = policy_text(words), log_lines(words)
    assert text.isascii()
    assert b"\n" not in text
    assert words_of_text(text) == words
    assert words_of_lines(lines) == words
    assert text_of_lines(lines) == text
    reader = RequestReader(2**31, 2**31)
    ((request),) = reader.feed(ping_of_lines(lines))
    carried = text_of_ping(request)
    assert carried == text


@pytest.mark.parametrize("words", lists_of_words(), ids=range(len(lists_of_words())))
def test_no_line_is_longer_than_redis_reads(words: list[bytes]) -> None:
    lines = log_lines(words)
    assert lines.endswith(b"\r\n")
    assert max(map(len, lines.splitlines(keepends=True))) <= LINE_SIZE_MAX


def test_a_plain_line_can_be_read_by_people() -> None:
    assert log_lines([b"DUE", b"orders", b"g 1", b"17", b"1-1"]) == b'#HR DUE orders "g 1" 17 1-1\r\n'


@pytest.mark.parametrize("line", [b"#HR repl 0 0 0\r\n", b"#TS:17\r\n", b"#XXH3:00 0\r\n", b"#HRX\r\n", b"# HR\r\n"])
def test_other_annotations_are_no_policy_lines(line: bytes) -> None:
    assert not is_policy_line(line)


@pytest.mark.parametrize(
    "lines",
    [
        b"#HR= 1-1\r\n",
        b"#HR+ DUE a\r\n#HR DUE b\r\n",
        b'#HR DUE "a\r\n',
        b'#HR DUE "a"b\r\n',
        b"#HR= \r\n",
    ],
)
def test_a_damaged_line_is_an_error(lines: bytes) -> None:
    joiner = PolicyLines()
    *before, last = lines.splitlines(keepends=True)
    for line in before:
        joiner.take(line)
    with pytest.raises(BadPolicyLine, match="a policy line that cannot be read"):
        joiner.take(last)


@pytest.mark.parametrize("request_words", [[b"PING"], [b"ping", b"hello"], [b"PING", b"#HR DUE", b"x"]])
def test_other_pings_carry_nothing(request_words: list[bytes]) -> None:
    assert text_of_ping(request_words) is None
