"""Entry IDs.

An ID is two unsigned 64-bit numbers, written `ms-seq`. Inside the store it is one integer, `ms << 64 | seq`: it
orders, hashes and fits in a list as cheaply as anything in Python can, which the pending lists live on.
"""

from __future__ import annotations

import re
from typing import Final

from .errors import GenericError

StreamID = int
"""An entry ID packed as `ms << 64 | seq`."""

U64_MAX: Final = 2**64 - 1
ID_MIN: Final = 0
ID_MAX: Final = 2**128 - 1
ID_TEXT_SIZE_MAX: Final = 127
"""Longer texts are refused, as in Redis."""

_LOOSE_NUMBER: Final = re.compile(rb"[ \t\n\v\f\r]*([+-]?)([0-9]+)\Z")
_CANONICAL_NEGATIVE: Final = re.compile(rb"-[1-9][0-9]*\Z")


def invalid_id() -> GenericError:
    """The error of every malformed ID."""
    return GenericError(b"Invalid stream ID specified as stream command argument")


def format_id(entry_id: StreamID) -> bytes:
    """Canonical decimal form, `ms-seq`."""
    return b"%d-%d" % (entry_id >> 64, entry_id & U64_MAX)


def make_id(ms: int, seq: int) -> StreamID:
    """Pack the two halves."""
    return ms << 64 | seq


def parse_id(token: bytes, missing_seq: int = 0) -> StreamID:
    """An exact ID: `ms-seq`, or `ms` with `missing_seq` as its second half. Raises GenericError."""
    ms, dash, seq = token.partition(b"-")
    if ms.isdigit() and len(ms) < 20:
        if seq.isdigit() and len(seq) < 20:
            return int(ms) << 64 | int(seq)
        if not dash:
            return int(ms) << 64 | missing_seq
    return _parse_loose(token, missing_seq)


def _parse_loose(token: bytes, missing_seq: int) -> StreamID:
    """The forms that C's strtoull lets through and Redis with it: blanks, signs, leading zeros, a NUL as the end."""
    if len(token) > ID_TEXT_SIZE_MAX:
        raise invalid_id()
    text, _, _ = token.partition(b"\0")
    ms, dash, seq = text.partition(b"-")
    return loose_number(ms) << 64 | (loose_number(seq) if dash else missing_seq)


def loose_number(text: bytes) -> int:
    """An unsigned 64-bit number as strtoull reads it; a negative one wraps unless it is a canonical int64."""
    match = _LOOSE_NUMBER.match(text)
    if match is None:
        raise invalid_id()
    number = int(match[2])
    if number > U64_MAX:
        raise invalid_id()
    if match[1] == b"-":
        if _CANONICAL_NEGATIVE.match(text) and number <= 2**63:
            raise invalid_id()
        number = -number & U64_MAX
    return number


def parse_range_start(token: bytes) -> StreamID:
    """The lower end of a range: `-`, `+`, `ms[-seq]`, or `(id` for "greater than". Raises GenericError."""
    if token[:1] == b"(":
        entry_id = parse_id(token[1:], 0)
        if entry_id == ID_MAX:
            raise GenericError(b"invalid start ID for the interval")
        return entry_id + 1
    return parse_edge(token, 0)


def parse_range_end(token: bytes) -> StreamID:
    """The upper end of a range; a missing second half means "the whole millisecond". Raises GenericError."""
    if token[:1] == b"(":
        entry_id = parse_id(token[1:], U64_MAX)
        if entry_id == ID_MIN:
            raise GenericError(b"invalid end ID for the interval")
        return entry_id - 1
    return parse_edge(token, U64_MAX)


def parse_edge(token: bytes, missing_seq: int = 0) -> StreamID:
    """An exact ID, or `-` and `+` for the smallest and the largest."""
    if token == b"-":
        return ID_MIN
    if token == b"+":
        return ID_MAX
    return parse_id(token, missing_seq)
