"""Entry IDs to and from text: `id_codec` for installations without a C compiler. Both behave alike."""

from __future__ import annotations

from typing import Final

from .id_bits import SEQ_BITS, SEQ_MASK

# A number of this many digits always fits 64 bits.
DIGITS_MAX: Final = 19


def read_id(token: bytes, missing_seq: int = 0) -> int | None:
    """The ID that `ms-seq`, or `ms` with `missing_seq`, means; None for any other form."""
    ms, dash, seq = token.partition(b"-")
    if ms.isdigit() and len(ms) <= DIGITS_MAX:
        if seq.isdigit() and len(seq) <= DIGITS_MAX:
            return int(ms) << SEQ_BITS | int(seq)
        if not dash:
            return int(ms) << SEQ_BITS | missing_seq
    return None


def read_ids(tokens: list[bytes], start: int) -> list[int] | None:
    """The IDs of `tokens[start:]`; None if one of them has another form than `read_id` accepts."""
    ids: list[int] = []
    for token in tokens[start:]:
        entry_id = read_id(token)
        if entry_id is None:
            return None
        ids.append(entry_id)
    return ids


def format_id(entry_id: int) -> bytes:
    """Canonical decimal form, `ms-seq`."""
    return b"%d-%d" % (entry_id >> SEQ_BITS, entry_id & SEQ_MASK)


def bulk_ids(ids: list[int]) -> bytes:
    """The IDs as consecutive bulk strings."""
    texts = map(format_id, ids)
    return b"".join([b"$%d\r\n%b\r\n" % (len(text), text) for text in texts])
