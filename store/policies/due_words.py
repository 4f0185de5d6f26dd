"""Due times as the words of a policy line: `DUE key group due-ms id [id ...] [due-ms id [id ...]] ...`, and `LATER key`
with the same words after it.

A word without a dash is the due time of the IDs after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from ..ids import StreamID, format_id, parse_id

# Entries of one line.
PER_LINE: Final = 512


def due_words(key: bytes, group_name: bytes, due_times: Iterable[tuple[StreamID, int]]) -> Iterator[list[bytes]]:
    """Yield the words of each line for these IDs and due times, of released entries of a group."""
    return _lines([b"DUE", key, group_name], due_times)


def later_words(key: bytes, due_times: Iterable[tuple[StreamID, int]]) -> Iterator[list[bytes]]:
    """Yield the words of each line for these IDs and due times, of entries that no group hands out before."""
    return _lines([b"LATER", key], due_times)


def _lines(head: list[bytes], due_times: Iterable[tuple[StreamID, int]]) -> Iterator[list[bytes]]:
    iterator = iter(due_times)
    while part := list(islice(iterator, PER_LINE)):
        words = list(head)
        last_ms: int | None = None
        for entry_id, due_ms in part:
            if due_ms != last_ms:
                words.append(b"%d" % due_ms)
                last_ms = due_ms
            words.append(format_id(entry_id))
        yield words


def read_due_words(words: list[bytes]) -> Iterator[tuple[StreamID, int]]:
    """Yield IDs and due times of the words after the name of the key or group. Raises ValueError, GenericError."""
    due_ms: int | None = None
    for word in words:
        if b"-" not in word:
            due_ms = int(word)
        elif due_ms is None:
            raise ValueError("a due time is missing")
        else:
            yield parse_id(word), due_ms
