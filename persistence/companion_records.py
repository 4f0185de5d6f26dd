"""The records that make a companion, as Redis writes them into the base of a log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..protocol.packing import pack_command
from ..protocol.scalars import double_text
from ..store.companions.array_value import ArrayValue
from ..store.companions.companion import Companion
from ..store.companions.hash_value import HashValue
from ..store.companions.list_value import ListValue
from ..store.companions.set_value import SetValue
from ..store.companions.sorted_set_value import SortedSetValue
from .rdb.payload import unchecked_dump

# Members of one record.
MEMBERS_PER_RECORD: Final = 64


def companion_records(key: bytes, value: Companion) -> Iterator[bytes]:
    """Yield the records of a companion."""
    if isinstance(value, HashValue) and value.has_template:
        # No other command than HIMPORT makes a hash in these encodings.
        yield pack_command((b"RESTORE", key, b"0", unchecked_dump(value, now_ms=0), b"REPLACE"))
        return
    if isinstance(value, HashValue):
        words = [word for pair in value.items() for word in pair]
        yield from _in_records(b"HMSET", key, words, 2 * MEMBERS_PER_RECORD)
        times = value.times_by_name()
        for field, _ in value.items():
            due_ms = times.get(field)
            if due_ms is not None:
                yield pack_command((b"HPEXPIREAT", key, b"%d" % due_ms, b"FIELDS", b"1", field))
        return
    if isinstance(value, SortedSetValue):
        words = [word for member, score in value.items() for word in (double_text(score), member)]
        yield from _in_records(b"ZADD", key, words, 2 * MEMBERS_PER_RECORD)
        return
    if isinstance(value, ListValue):
        yield from _in_records(b"RPUSH", key, list(value), MEMBERS_PER_RECORD)
        return
    if isinstance(value, ArrayValue):
        words = [word for index, element in value.items() for word in (b"%d" % index, element)]
        yield from _in_records(b"ARMSET", key, words, 2 * MEMBERS_PER_RECORD)
        if value.cursor is not None:
            yield pack_command((b"ARSEEK", key, b"%d" % value.next_index))
        return
    assert isinstance(value, SetValue)
    yield from _in_records(b"SADD", key, value.members(), MEMBERS_PER_RECORD)


def _in_records(name: bytes, key: bytes, words: list[bytes], count: int) -> Iterator[bytes]:
    for start in range(0, len(words), count):
        yield pack_command((name, key, *words[start : start + count]))
