"""Errors as they go over the wire: clients match on these texts (Redis 8.10.2)."""

from __future__ import annotations

import pytest

from headrace.store.errors import (
    BusyGroup,
    GenericError,
    NoGroup,
    ReplyError,
    WrongType,
    no_such_key,
    not_an_integer,
    shown,
    shown_last,
    syntax_error,
    wrong_number_of_arguments,
)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (WrongType(), "WRONGTYPE Operation against a key holding the wrong kind of value"),
        (BusyGroup(), "BUSYGROUP Consumer Group name already exists"),
        (NoGroup.for_key(b"k", b"g"), "NOGROUP No such key 'k' or consumer group 'g'"),
        (NoGroup.for_read(b"k", b"g"), "NOGROUP No such key 'k' or consumer group 'g' in XREADGROUP with GROUP option"),
        (NoGroup.for_group(b"k", b"g"), "NOGROUP No such consumer group 'g' for key name 'k'"),
        (NoGroup.for_group(b"k\0x", b"\0g"), "NOGROUP No such consumer group '' for key name 'k'"),
        (syntax_error(), "ERR syntax error"),
        (not_an_integer(), "ERR value is not an integer or out of range"),
        (no_such_key(), "ERR no such key"),
        (wrong_number_of_arguments(b"xgroup|create"), "ERR wrong number of arguments for 'xgroup|create' command"),
        (GenericError(b"a\r\nb\nc"), "ERR a  b c"),
    ],
)
def test_each_error_is_one_line_with_its_prefix(error: ReplyError, line: str) -> None:
    assert error.wire_text == line.encode()


def test_an_error_without_a_prefix_is_its_text() -> None:
    class Bare(ReplyError):
        prefix = b""

    assert Bare(b"EXECABORT no").wire_text == b"EXECABORT no"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"WRONGTYPE Operation", b"WRONGTYPE"),
        (b"", b"ERR"),
        (b"alone", b"ERR"),
        (b" x", b""),
        (b"X" * 30 + b" x", b"X" * 30),
        (b"X" * 31 + b" x", b"ERR"),
    ],
)
def test_an_error_without_a_prefix_counts_under_its_first_word_unless_that_is_long_or_alone(
    text: bytes, code: bytes
) -> None:
    class Bare(ReplyError):
        prefix = b""

    assert Bare(text).code == code


def test_an_error_with_a_prefix_counts_under_it() -> None:
    assert (WrongType().code, syntax_error().code) == (b"WRONGTYPE", b"ERR")


def test_an_error_reads_as_its_text_whatever_bytes_it_has() -> None:
    assert str(GenericError(b"caf\xc3\xa9 \xff")) == "caf\u00e9 \ufffd"


def test_a_word_at_the_end_of_a_text_is_shown_without_the_ends_of_its_last_line() -> None:
    word = b"\na\nb\r\n\n\0c\n"
    assert shown(word) == b"\na\nb\r\n\n"
    assert shown_last(word) == b"\na\nb"
