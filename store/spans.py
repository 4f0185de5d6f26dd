"""Runs of live entries in the chunks of an entry log, and their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from .chunk import Body, Chunk
from .ids import ID_MAX, StreamID, id_after

# A run of live entries: chunk, first position, position after the last.
Span = tuple[Chunk, int, int]

# Bytes of entries, or what yields them.
Piece = bytes | Iterator[bytes]

# Chunks that are read at once, about a megabyte. Later ones are read when their bytes are needed.
PIECES_AT_ONCE_MAX = 16


def positions(chunk: Chunk, start: StreamID, end: StreamID) -> tuple[int, int]:
    """Return the first position of a range in a chunk, and the position after its last one."""
    low = chunk.head if start <= chunk.first_id else chunk.index.position(start)
    high = chunk.count if end == ID_MAX or end >= chunk.last_id else chunk.index.position(id_after(end))
    return low, high


def spans_from(chunks: list[Chunk], index: int, start: StreamID, end: StreamID) -> Iterator[Span]:
    """Yield the runs of live entries in a range, ascending. The chunk at `index` is the first that can have any."""
    if start > end:
        return
    for number in range(index, len(chunks)):
        chunk = chunks[number]
        if chunk.first_id > end:
            return
        low, high = positions(chunk, start, end)
        if chunk.dead is not None:
            for span_low, span_high in chunk.spans(low, high):
                yield chunk, span_low, span_high
        elif (low := max(low, chunk.head)) < high:
            yield chunk, low, high


def spans_back_from(chunks: list[Chunk], index: int, start: StreamID, end: StreamID) -> Iterator[Span]:
    """Yield the runs of live entries in a range, descending; within a run positions still ascend. The chunk at `index`
    is the last that can have any."""
    if start > end or not chunks:
        return
    for number in range(index, -1, -1):
        chunk = chunks[number]
        if chunk.last_id < start:
            return
        low, high = positions(chunk, start, end)
        for span_low, span_high in chunk.spans_back(low, high):
            yield chunk, span_low, span_high


def bodies(spans: Iterable[Span]) -> Iterator[tuple[Body, int, int]]:
    """Yield runs with the body of their chunk in place of the chunk, which is unpacked once for all runs of it that
    follow each other, and not cached."""
    unpacked: Chunk | None = None
    body: Body | None = None
    for chunk, low, high in spans:
        if body is None or chunk is not unpacked:
            unpacked, body = chunk, chunk.read_once()
        yield body, low, high


def read_pieces(spans: Iterator[Span], count: int) -> tuple[int, list[Piece]]:
    """Read ascending runs, up to `count` entries (all if negative). Returns the number of entries, and their bytes: see
    `EntryLog.read`."""
    taken = 0
    pieces: list[Piece] = []
    for chunk, low, high in spans:
        if 0 < count <= taken + high - low:
            pieces.append(chunk.slice(low, low + count - taken))
            return count, pieces
        pieces.append(chunk.slice(low, high))
        taken += high - low
        if len(pieces) == PIECES_AT_ONCE_MAX:
            rest_count, rest = _cut(spans, count - taken)
            pieces.append(_slices(rest))
            return taken + rest_count, pieces
    return taken, pieces


def read_pieces_back(spans: Iterator[Span], count: int) -> tuple[int, list[Piece]]:
    """Read descending runs, up to `count` entries (all if negative), the last entry first. Returns what `read_pieces`
    returns."""
    taken, kept = _cut(spans, count, from_end=True)
    pieces: list[Piece] = [chunk.slice_back(low, high) for chunk, low, high in islice(kept, PIECES_AT_ONCE_MAX)]
    if len(kept) > PIECES_AT_ONCE_MAX:
        pieces.append(_slices_back(kept[PIECES_AT_ONCE_MAX:]))
    return taken, pieces


def _cut(spans: Iterable[Span], count: int, *, from_end: bool = False) -> tuple[int, list[Span]]:
    """The first runs, up to `count` entries in total (all if negative), and the number of their entries."""
    taken = 0
    kept: list[Span] = []
    for chunk, low, high in spans:
        if 0 <= count <= taken + high - low:
            left = count - taken
            if left:
                kept.append((chunk, high - left, high) if from_end else (chunk, low, low + left))
            return count, kept
        kept.append((chunk, low, high))
        taken += high - low
    return taken, kept


def _slices(spans: list[Span]) -> Iterator[bytes]:
    for body, low, high in bodies(spans):
        yield body.slice(low, high)


def _slices_back(spans: list[Span]) -> Iterator[bytes]:
    for body, low, high in bodies(spans):
        yield body.slice_back(low, high)
