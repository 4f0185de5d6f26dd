"""A page of entries: the parsed reply to XRANGE.

In nearly every stream all entries have the same fields in the same order. The reply is then a grid of lines, and a
column is made from it on demand, so that no entry becomes a Python object. Every size and count in the reply is
compared with the lines found. This detects values that contain line ends or imitate the protocol; hiredis parses such a
page.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, Protocol

import hiredis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .lines import DATA_SIZE_MAX, Places, Raw

Data = bytes | memoryview
# An entry's fields and values: field, value, field, value, ...
Pairs = list[bytes]

# Lines of an entry before its fields: `*2`, the size of the ID, the ID, and the count of fields and values.
LINES_BEFORE_FIELDS: Final = 4
# Lines of a field: the size of the name, the name, the size of the value, and the value.
LINES_PER_FIELD: Final = 4


class Page(Protocol):
    """Entries in ascending order of their IDs. Its columns are Arrow columns of bytes."""

    def __len__(self) -> int: ...

    @property
    def ids(self) -> Any:
        """The column of IDs."""

    @property
    def last_id(self) -> bytes:
        """The greatest ID. The page must not be empty."""

    @property
    def has_unique_fields(self) -> bool:
        """Whether no entry has a field twice."""

    def values(self, name: bytes) -> Any:
        """Returns each entry's last value of a field, null if it has none; None if no entry has the field."""

    def unzipped(self) -> tuple[Any, Any, Any]:
        """Returns the number of fields of each entry, and the fields and the values of all entries in order."""

    def pairs(self) -> list[Pairs]:
        """Returns each entry's fields and values."""

    def select(self, wanted: Collection[bytes]) -> Page:
        """Returns a page of the entries whose IDs are in `wanted`."""


class UniformPage:
    """Entries that all have the same fields. A row of `starts` and `ends` locates an entry's ID and values."""

    def __init__(self, raw: Raw, names: list[bytes], starts: Places, ends: Places) -> None:
        self._raw = raw
        self.names = names
        self._starts = starts
        self._ends = ends

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def ids(self) -> Any:
        return self._column(0)

    @property
    def last_id(self) -> bytes:
        return bytes(self._raw.data[self._starts[-1, 0] : self._ends[-1, 0]])

    @property
    def has_unique_fields(self) -> bool:
        return len(set(self.names)) == len(self.names)

    def _column(self, index: int) -> Any:
        return self._raw.texts(self._starts[:, index], self._ends[:, index])

    def values(self, name: bytes) -> Any:
        for index in range(len(self.names), 0, -1):
            if self.names[index - 1] == name:
                return self._column(index)
        return None

    def unzipped(self) -> tuple[Any, Any, Any]:
        fields = pa.array(self.names, pa.binary()).take(
            pa.array(np.tile(np.arange(len(self.names)), len(self)), pa.int64())
        )
        values = self._raw.texts(self._starts[:, 1:].ravel(), self._ends[:, 1:].ravel())
        return np.full(len(self), len(self.names)), fields, values

    def pairs(self) -> list[Pairs]:
        columns = [self._column(index).to_pylist() for index in range(1, len(self.names) + 1)]
        rows: Iterator[tuple[bytes, ...]] = zip(*columns, strict=True)
        return [[item for pair in zip(self.names, row, strict=True) for item in pair] for row in rows]

    def select(self, wanted: Collection[bytes]) -> UniformPage:
        is_wanted = pc.is_in(self.ids, pa.array(list(wanted), pa.binary())).to_numpy(zero_copy_only=False)
        return UniformPage(self._raw, self.names, self._starts[is_wanted], self._ends[is_wanted])


class MixedPage:
    """Entries with any fields, as Python objects."""

    def __init__(self, ids: list[bytes], entries: list[Pairs]) -> None:
        self._ids = ids
        self._entries = entries

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def ids(self) -> Any:
        return pa.array(self._ids, pa.binary())

    @property
    def last_id(self) -> bytes:
        return self._ids[-1]

    @property
    def has_unique_fields(self) -> bool:
        return all(len(set(pairs[::2])) == len(pairs) // 2 for pairs in self._entries)

    def values(self, name: bytes) -> Any:
        found = [dict(zip(pairs[::2], pairs[1::2], strict=True)).get(name) for pairs in self._entries]
        return pa.array(found, pa.binary())

    def unzipped(self) -> tuple[Any, Any, Any]:
        flat = [item for pairs in self._entries for item in pairs]
        sizes = np.array([len(pairs) // 2 for pairs in self._entries], np.int64)
        return sizes, pa.array(flat[::2], pa.binary()), pa.array(flat[1::2], pa.binary())

    def pairs(self) -> list[Pairs]:
        return self._entries

    def select(self, wanted: Collection[bytes]) -> MixedPage:
        known = set(wanted)
        keep = [index for index, entry_id in enumerate(self._ids) if entry_id in known]
        return MixedPage([self._ids[index] for index in keep], [self._entries[index] for index in keep])


def join_pages(pages: list[Page]) -> Page:
    """Joins pages, at least one, into one page."""
    filled = [page for page in pages if len(page)] or pages[:1]
    if len(filled) == 1:
        return filled[0]
    ids = [one for page in filled for one in page.ids.to_pylist()]
    return MixedPage(ids, [pairs for page in filled for pairs in page.pairs()])


def parse_page(reply: Data) -> Page:
    """Parses a raw reply to XRANGE."""
    return parse_uniform(reply) or _parse_mixed(reply)


def _parse_mixed(reply: Data) -> MixedPage:
    reader = hiredis.Reader()
    reader.feed(bytes(reply))
    found: Any = reader.gets()
    return MixedPage([entry[0] for entry in found], [entry[1] for entry in found])


def parse_uniform(reply: Data) -> UniformPage | None:
    """Parses a reply as a grid of lines; None if entries differ in their fields or contain line ends.

    hiredis parses the first entry. Every other entry must consist of the same bytes except for its ID and values, whose
    sizes must be as announced. Then hiredis would parse it the same way. Hot: `benchmarks.pipeline`.
    """
    if len(reply) > DATA_SIZE_MAX:
        return None
    raw = Raw(reply)
    starts, ends = raw.lines()
    if len(starts) <= LINES_BEFORE_FIELDS:
        return None
    count, items_count = (int(number) for number in raw.numbers(starts[[0, 4]], ends[[0, 4]]))
    width = LINES_BEFORE_FIELDS + LINES_PER_FIELD * (items_count // 2)
    if reply[0] != ord("*") or count < 1 or len(starts) != 1 + count * width:
        return None
    first = _first_entry(reply, int(starts[1]), int(ends[width]) + 2)
    if first is None or len(first) != items_count:
        return None
    starts, ends = starts[1:].reshape(count, width), ends[1:].reshape(count, width)
    # The start of the bytes, up to the `$` of the next size, that must be equal in all entries.
    before = starts[:, 0]
    sizes = [1, *range(LINES_BEFORE_FIELDS + 2, width, LINES_PER_FIELD)]
    for line in sizes:
        same = starts[:, line] + 1 - before
        if (same != same[0]).any() or not raw.are_equal(before, int(same[0])):
            return None
        announced = raw.numbers(starts[:, line], ends[:, line])
        if (announced != ends[:, line + 1] - starts[:, line + 1]).any():
            return None
        before = ends[:, line + 1]
    values = [line + 1 for line in sizes]
    return UniformPage(raw, first[::2], starts[:, values], ends[:, values])


def _first_entry(reply: Data, start: int, end: int) -> Pairs | None:
    """Parses the entry between two offsets; None if the bytes are not exactly one entry."""
    reader = hiredis.Reader()
    reader.feed(bytes(reply[start:end]))
    try:
        _, pairs = reader.gets()
    except (hiredis.HiredisError, TypeError, ValueError):
        return None
    return pairs if isinstance(pairs, list) and not reader.has_data() else None
