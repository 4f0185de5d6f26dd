"""A page of entries: the raw reply to XRANGE, taken apart.

Nearly every stream holds entries with the same fields in the same order. Such a page is split once at its line ends,
and a column is then a slice of the tokens: no entry ever becomes a Python object of its own. The lengths that the reply
announces are compared with those found, so values that contain line ends, or imitate the protocol, are noticed; their
page goes through hiredis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import hiredis

Pairs = list[bytes]
"""field, value, field, value, ..."""


@dataclass(slots=True)
class Page:
    """Entries in ascending order. Either `names` and `columns` are there (all alike), or `entries`."""

    ids: list[bytes]
    names: list[bytes] | None = None
    columns: list[list[bytes]] | None = None
    """By field, values in the order of `ids`."""
    entries: list[Pairs] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def pairs(self) -> list[Pairs]:
        """Each entry's fields and values, whatever the form of the page."""
        if self.entries is not None:
            return self.entries
        assert self.names is not None
        assert self.columns is not None
        rows = zip(*self.columns, strict=True) if self.columns else ((),) * len(self.ids)
        return [[item for pair in zip(self.names, row, strict=True) for item in pair] for row in rows]

    def select(self, wanted: set[bytes]) -> Page:
        """The entries whose IDs are wanted."""
        keep = [index for index, entry_id in enumerate(self.ids) if entry_id in wanted]
        if len(keep) == len(self.ids):
            return self
        return Page(
            [self.ids[index] for index in keep],
            self.names,
            self.columns and [[column[index] for index in keep] for column in self.columns],
            self.entries and [self.entries[index] for index in keep],
        )


def parse_page(reply: bytes) -> Page:
    """The entries of a raw reply to XRANGE."""
    return _parse_alike(reply) or _parse_any(reply)


def _parse_any(reply: bytes) -> Page:
    reader = hiredis.Reader()
    reader.feed(reply)
    found: Any = reader.gets()
    return Page([entry[0] for entry in found], entries=[entry[1] for entry in found])


def _parse_alike(reply: bytes) -> Page | None:
    """Hot: `benchmarks.pipeline source`. None if the entries differ in their fields or hold line ends."""
    tokens = reply.split(b"\r\n")
    tokens.pop()
    if len(tokens) < 5:
        return None
    count = int(tokens[0][1:])
    fields_count = int(tokens[4][1:]) // 2
    stride = 4 + 4 * fields_count
    if len(tokens) != 1 + count * stride or tokens[1::stride].count(b"*2") != count:
        return None
    if tokens[4::stride].count(tokens[4]) != count:
        return None
    ids = tokens[3::stride]
    if not _are_lengths(tokens[2::stride], ids):
        return None
    names, columns = [], []
    for start in range(5, 1 + stride, 4):
        name = tokens[start + 1]
        column = tokens[start + 3 :: stride]
        if tokens[start] != b"$%d" % len(name) or tokens[start::stride].count(tokens[start]) != count:
            return None
        if tokens[start + 1 :: stride].count(name) != count or not _are_lengths(tokens[start + 2 :: stride], column):
            return None
        names.append(name)
        columns.append(column)
    return Page(ids, names, columns)


def _are_lengths(headers: list[bytes], values: list[bytes]) -> bool:
    """Whether each header announces its value; there are few different pairs."""
    return all(header == b"$%d" % size for header, size in set(zip(headers, map(len, values), strict=True)))
