"""The records that make a companion, as Redis writes them into the base of a log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..protocol.packing import pack_command
from ..store.companions.companion import Companion
from ..store.companions.hash_value import HashValue
from ..store.companions.set_value import SetValue

# Members of one record.
MEMBERS_PER_RECORD: Final = 64


def companion_records(key: bytes, value: Companion) -> Iterator[bytes]:
    """Yield the records of a hash or a set."""
    if isinstance(value, HashValue):
        words = [word for pair in value.items() for word in pair]
        yield from _in_records(b"HMSET", key, words, 2 * MEMBERS_PER_RECORD)
        for field, _ in value.items():
            due_ms = value.due_ms(field)
            if due_ms is not None:
                yield pack_command((b"HPEXPIREAT", key, b"%d" % due_ms, b"FIELDS", b"1", field))
        return
    assert isinstance(value, SetValue)
    yield from _in_records(b"SADD", key, value.members(), MEMBERS_PER_RECORD)


def _in_records(name: bytes, key: bytes, words: list[bytes], count: int) -> Iterator[bytes]:
    for start in range(0, len(words), count):
        yield pack_command((name, key, *words[start : start + count]))
