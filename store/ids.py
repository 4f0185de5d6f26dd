"""Entry IDs.

An ID is two unsigned 64-bit numbers, written `ms-seq`. Inside the store it is one integer (`id_bits`): ordering,
hashing and storing such integers is as cheap as Python allows, and the pending lists depend on that.
"""

from __future__ import annotations

import re
from typing import Final

from .errors import GenericError
from .id_bits import SEQ_BITS, SEQ_MASK

try:
    from .id_codec import bulk_ids, format_id, read_id, read_ids
except ImportError:  # there was no C compiler at installation
    from .id_codec_plain import bulk_ids, format_id, read_id, read_ids

__all__ = [
    "ID_MAX",
    "ID_MIN",
    "SEQ_BITS",
    "SEQ_MASK",
    "U64_MAX",
    "StreamID",
    "bulk_ids",
    "format_id",
    "id_after",
    "id_before",
    "make_id",
    "parse_edge",
    "parse_id",
    "parse_ids",
    "parse_range_end",
    "parse_range_start",
    "read_id",
]

# An entry ID packed as `ms << SEQ_BITS | seq`.
StreamID = int

U64_MAX: Final = 2**64 - 1
U64_DIGITS_MAX: Final = 20
ID_MIN: Final = 0
ID_MAX: Final = U64_MAX << SEQ_BITS | U64_MAX
# Longer texts are refused, as in Redis.
ID_TEXT_SIZE_MAX: Final = 127

_LOOSE_NUMBER: Final = re.compile(rb"[ \t\n\v\f\r]*([+-]?)([0-9]+)\Z")
_CANONICAL_NEGATIVE: Final = re.compile(rb"-[1-9][0-9]*\Z")


def invalid_id() -> GenericError:
    """The error of every malformed ID."""
    return GenericError(b"Invalid stream ID specified as stream command argument")


def make_id(ms: int, seq: int) -> StreamID:
    """Pack the two halves."""
    return ms << SEQ_BITS | seq


def id_after(entry_id: StreamID) -> StreamID:
    """The next possible ID. For the largest ID, a number above all IDs."""
    if entry_id & SEQ_MASK == U64_MAX:
        return ((entry_id >> SEQ_BITS) + 1) << SEQ_BITS
    return entry_id + 1


def id_before(entry_id: StreamID) -> StreamID:
    """The ID before this one, which must not be 0-0."""
    if entry_id & SEQ_MASK:
        return entry_id - 1
    return ((entry_id >> SEQ_BITS) - 1) << SEQ_BITS | U64_MAX


def parse_id(token: bytes, missing_seq: int = 0) -> StreamID:
    """An exact ID: `ms-seq`, or `ms` with `missing_seq` as its second half. Raises GenericError."""
    entry_id = read_id(token, missing_seq)
    return _parse_loose(token, missing_seq) if entry_id is None else entry_id


def parse_ids(tokens: list[bytes], start: int = 0) -> list[StreamID]:
    """The exact IDs of `tokens[start:]`. Raises GenericError."""
    ids = read_ids(tokens, start)
    return [parse_id(token) for token in tokens[start:]] if ids is None else ids


def _parse_loose(token: bytes, missing_seq: int) -> StreamID:
    """Parse the forms that Redis accepts because C's strtoull does: blanks, signs, leading zeros, a NUL as the end."""
    if len(token) > ID_TEXT_SIZE_MAX:
        raise invalid_id()
    text, _, _ = token.partition(b"\0")
    ms, dash, seq = text.partition(b"-")
    return loose_number(ms) << SEQ_BITS | (loose_number(seq) if dash else missing_seq)


def loose_number(text: bytes) -> int:
    """An unsigned 64-bit number as strtoull reads it; a negative one wraps unless it is a canonical int64."""
    if text.isdigit() and len(text) < U64_DIGITS_MAX:
        return int(text)
    match = _LOOSE_NUMBER.match(text)
    if match is None:
        raise invalid_id()
    digits = match[2].lstrip(b"0")
    number = int(digits or b"0") if len(digits) <= U64_DIGITS_MAX else U64_MAX + 1
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
        return id_after(entry_id)
    return parse_edge(token, 0)


def parse_range_end(token: bytes) -> StreamID:
    """The upper end of a range; a missing second half means "the whole millisecond". Raises GenericError."""
    if token[:1] == b"(":
        entry_id = parse_id(token[1:], U64_MAX)
        if entry_id == ID_MIN:
            raise GenericError(b"invalid end ID for the interval")
        return id_before(entry_id)
    return parse_edge(token, U64_MAX)


def parse_edge(token: bytes, missing_seq: int = 0) -> StreamID:
    """An exact ID, or `-` and `+` for the smallest and the largest."""
    if token == b"-":
        return ID_MIN
    if token == b"+":
        return ID_MAX
    return parse_id(token, missing_seq)
