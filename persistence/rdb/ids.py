"""Entry IDs in RDB files: 16 bytes, high part first, as the key of a node or an entry of a PEL."""

from __future__ import annotations

from struct import Struct
from typing import Final

from ...store.ids import SEQ_BITS, SEQ_MASK, StreamID, make_id

_ID: Final = Struct(">QQ")
ID_SIZE: Final = _ID.size


def encode_id(entry_id: StreamID) -> bytes:
    """Encode an ID."""
    return _ID.pack(entry_id >> SEQ_BITS, entry_id & SEQ_MASK)


def decode_id(data: bytes) -> StreamID:
    """Decode an ID of 16 bytes, the inverse of `encode_id`."""
    return make_id(*_ID.unpack(data))
