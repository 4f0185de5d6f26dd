"""DEBUG DIGEST: a digest of a whole dataset, independent of the order of its keys.

The algorithm is that of Redis, so equal datasets have equal digests in Headrace and Redis. The digest covers keys,
values, and whether a key expires. Of streams it covers the entries, not the groups.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from hiredis import Reader

from ...protocol.scalars import shortest_text
from ...store.companions.array_value import INDEX_MAX, ArrayValue
from ...store.companions.companion import Companion
from ...store.companions.hash_value import HashValue
from ...store.companions.list_value import ListValue
from ...store.companions.set_value import SetValue
from ...store.companions.sorted_set_value import SortedSetValue
from ...store.database import Database, Store
from ...store.ids import ID_MAX, SEQ_BITS, SEQ_MASK
from ...store.stream import Stream
from ...store.value import Value
from .digests import EMPTY, add, add_each, add_pairs, mix, mix_each, mix_often

# Empty indexes of an array in a row that are mixed one by one.
GAP_MAX: Final = 1 << 20
TYPE_STRING: Final = (0).to_bytes(4, "big")
TYPE_STREAM: Final = (6).to_bytes(4, "big")
# Members that are added at a time.
_MEMBERS_AT_ONCE: Final = 256


def digest_value(digest: bytes, db: Database, key: bytes, value: Value) -> bytes:
    """Adds the value of a key to a digest."""
    if isinstance(value, Stream):
        digest = _mix_stream(mix(digest, TYPE_STREAM), value)
    elif isinstance(value, bytes):
        digest = mix(mix(digest, TYPE_STRING), value)
    else:
        digest = _mix_companion(mix(digest, value.type_number.to_bytes(4, "big")), value)
    return add(digest, b"!!expire!!") if key in db.expires else digest


def _mix_stream(digest: bytes, stream: Stream) -> bytes:
    reader = Reader()
    for entry_id, entry in stream.log.entries(0, ID_MAX):
        reader.feed(entry)
        digest = mix_each(digest, [b"%d.%d" % (entry_id >> SEQ_BITS, entry_id & SEQ_MASK), *reader.gets()[1]])
    return digest


def _mix_companion(digest: bytes, value: Companion) -> bytes:
    if isinstance(value, HashValue):
        digest = _add_hash(digest, value)
    elif isinstance(value, SortedSetValue):
        for start in range(0, len(value), _MEMBERS_AT_ONCE):
            words: list[bytes] = []
            for member, score in value.scored(start, min(start + _MEMBERS_AT_ONCE, len(value))):
                words += (member, shortest_text(score))
            digest = add_pairs(digest, words, [], b"")
    elif isinstance(value, ListValue):
        elements = iter(value)
        while page := list(islice(elements, _MEMBERS_AT_ONCE)):
            digest = mix_each(digest, page)
    elif isinstance(value, ArrayValue):
        digest = _mix_array(digest, value)
    elif isinstance(value, SetValue):
        for members in value.parts(_MEMBERS_AT_ONCE):
            digest = add_each(digest, members)
    return digest


def _add_hash(digest: bytes, value: HashValue) -> bytes:
    pairs = iter(value.items())
    while page := list(islice(pairs, _MEMBERS_AT_ONCE)):
        words = [word for pair in page for word in pair]
        digest = add_pairs(digest, words, value.due_times(words[::2]), b"!!hexpire!!")
    return digest


def _mix_array(digest: bytes, array: ArrayValue) -> bytes:
    # Redis mixes a word for each empty index. A gap of more than the maximum would take hours: its size is mixed.
    end = 0
    for page in array.pages(0, INDEX_MAX):
        elements: list[bytes] = []
        for index, element in page:
            if index != end:
                digest = mix_each(digest, elements)
                elements = []
                gap = index - end
                digest = mix_often(digest, b"(null)", gap) if gap <= GAP_MAX else mix(digest, b"(null) %d" % gap)
            elements.append(element)
            end = index + 1
        digest = mix_each(digest, elements)
    return digest


def digest_dataset(store: Store) -> bytes:
    """Returns the digest of all keys of all databases; twenty zero bytes for an empty dataset."""
    final = EMPTY
    for db in store.databases:
        if db.keys:
            final = mix(final, db.index.to_bytes(4, "big"))
        for key, value in db.keys.items():
            final = add(final, digest_value(mix(EMPTY, key), db, key, value))
    return final
