"""DEBUG DIGEST: a digest of a whole dataset, independent of the order of its keys.

The algorithm is that of Redis, so equal datasets have equal digests in Headrace and Redis. The digest covers keys,
values, and whether a key expires. Of streams it covers the entries, not the groups.
"""

from __future__ import annotations

from hashlib import sha1
from typing import Final

from hiredis import Reader

from ...protocol.scalars import shortest_text
from ...store.companions.array_value import ArrayValue
from ...store.companions.companion import Companion
from ...store.companions.hash_value import HashValue
from ...store.companions.list_value import ListValue
from ...store.companions.set_value import SetValue
from ...store.companions.sorted_set_value import SortedSetValue
from ...store.database import Database, Store
from ...store.ids import ID_MAX, SEQ_BITS, SEQ_MASK
from ...store.stream import Stream
from ...store.value import Value

EMPTY: Final = bytes(20)
# Empty indexes of an array in a row that are mixed one by one.
GAP_MAX: Final = 1 << 20
TYPE_STRING: Final = (0).to_bytes(4, "big")
TYPE_STREAM: Final = (6).to_bytes(4, "big")


def _xor(digest: bytes, other: bytes) -> bytes:
    return (int.from_bytes(digest, "big") ^ int.from_bytes(other, "big")).to_bytes(20, "big")


def _add(digest: bytes, data: bytes) -> bytes:
    """Adds data to a digest; the order of such calls does not matter."""
    return _xor(digest, sha1(data, usedforsecurity=False).digest())


def _first(data: bytes) -> bytes:
    """What `_mix` makes of no digest."""
    return sha1(sha1(data, usedforsecurity=False).digest(), usedforsecurity=False).digest()


def _mix(digest: bytes, data: bytes) -> bytes:
    """Adds data to a digest; the order of such calls matters."""
    return sha1(_add(digest, data), usedforsecurity=False).digest()


def digest_value(digest: bytes, db: Database, key: bytes, value: Value) -> bytes:
    """Adds the value of a key to a digest."""
    if isinstance(value, Stream):
        digest = _mix_stream(_mix(digest, TYPE_STREAM), value)
    elif isinstance(value, bytes):
        digest = _mix(_mix(digest, TYPE_STRING), value)
    else:
        digest = _mix_companion(_mix(digest, value.type_number.to_bytes(4, "big")), value)
    return _add(digest, b"!!expire!!") if key in db.expires else digest


def _mix_stream(digest: bytes, stream: Stream) -> bytes:
    reader = Reader()
    for entry_id, entry in stream.log.entries(0, ID_MAX):
        digest = _mix(digest, b"%d.%d" % (entry_id >> SEQ_BITS, entry_id & SEQ_MASK))
        reader.feed(entry)
        for word in reader.gets()[1]:
            digest = _mix(digest, word)
    return digest


def _mix_companion(digest: bytes, value: Companion) -> bytes:
    if isinstance(value, HashValue):
        for field, text in value.items():
            each = _mix(_first(field), text)
            digest = _add(digest, _add(each, b"!!hexpire!!") if value.due_ms(field) is not None else each)
    elif isinstance(value, SortedSetValue):
        for member, score in value.items():
            digest = _add(digest, _mix(_first(member), shortest_text(score)))
    elif isinstance(value, ListValue):
        for element in value:
            digest = _mix(digest, element)
    elif isinstance(value, ArrayValue):
        digest = _mix_array(digest, value)
    elif isinstance(value, SetValue):
        total = int.from_bytes(digest, "big")
        for member in value.members_in_turn():
            total ^= int.from_bytes(sha1(member, usedforsecurity=False).digest(), "big")
        digest = total.to_bytes(len(digest), "big")
    return digest


def _mix_array(digest: bytes, array: ArrayValue) -> bytes:
    # Redis mixes a word for each empty index. A gap of more than the maximum would take hours: its size is mixed.
    end = 0
    for index, element in array.items():
        if index - end <= GAP_MAX:
            for _ in range(index - end):
                digest = _mix(digest, b"(null)")
        else:
            digest = _mix(digest, b"(null) %d" % (index - end))
        digest = _mix(digest, element)
        end = index + 1
    return digest


def digest_dataset(store: Store) -> bytes:
    """Returns the digest of all keys of all databases; twenty zero bytes for an empty dataset."""
    final = EMPTY
    for db in store.databases:
        if db.keys:
            final = _mix(final, db.index.to_bytes(4, "big"))
        for key, value in db.keys.items():
            final = _add(final, digest_value(_mix(EMPTY, key), db, key, value))
    return final
