"""The entries of one stream, in ID order: a list of chunks with the arithmetic of ranges over them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from .chunk import CHUNK_SIZE, Body, Chunk, EntryValues, merged
from .class_marks import mypyc_attr
from .ids import ID_MAX, ID_MIN, StreamID, id_after
from .spans import Piece, Span, bodies, positions, read_pieces, read_pieces_back, spans_back_from, spans_from

try:
    from .id_list import IDList
except ImportError:  # there was no C compiler at installation
    from .id_list_plain import IDList  # type: ignore[assignment]


@mypyc_attr(acyclic=True)
class EntryLog:
    """Entries in chunks. Knows IDs and bytes, nothing of groups or of Redis' nodes.

    `first_id` and `last_id` are those of live entries, 0-0 when there are none.
    """

    __slots__ = (
        "_chunks",
        "_first_ids",
        "_has_gaps",
        "_open",
        "_sealed_size",
        "first_id",
        "has_strays",
        "last_id",
        "length",
    )

    def __init__(self) -> None:
        # Fields that every new entry changes are next to each other (benchmark row XADD over 10,000 keys). The body of
        # the open chunk, which is always the last one. None if the next entry opens a new chunk.
        self._open: Body | None = None
        self.length = 0
        self.last_id: StreamID = ID_MIN
        self.first_id: StreamID = ID_MIN
        self._chunks: list[Chunk] = []
        self._first_ids = IDList()
        # Bytes held by the sealed chunks.
        self._sealed_size = 0
        # Whether a chunk other than the first was removed because its last entry was deleted.
        self._has_gaps = False
        # Whether the code that fills this entry log has seen pending IDs in the range of a chunk that were never
        # entries of it.
        self.has_strays = False

    def append(self, entry_id: StreamID, entry: bytes) -> bool:
        """Add an entry above all others. `entry` is its reply form. Returns whether a chunk became full; it is then
        sealed.

        Hot: see the benchmark row XADD.
        """
        body = self._open
        if body is None:
            body = self._open_chunk(entry_id)
        is_full = body.append(entry_id, entry)
        if is_full:
            self._seal()
        if not self.length:
            self.first_id = entry_id
        self.length += 1
        self.last_id = entry_id
        return is_full

    def append_run(self, run: Body) -> bool:
        """Add entries above all others, at least one, as `append` would one by one. The body is not changed. Returns
        whether a chunk became full. See the benchmark row reload."""
        count, done = run.count, 0
        has_filled = False
        if not self.length:
            self.first_id = run.id_at(0)
        while done < count:
            body = self._open
            if body is None:
                body = self._open_chunk(run.id_at(done))
            done = body.extend(run, done)
            if body.is_full:
                self._seal()
                has_filled = True
        self.length += count
        self.last_id = run.last_id
        return has_filled

    def append_values(self, values: EntryValues) -> None:
        """Add entries above all others that have the same fields, at least one. If they fill a chunk, they become one
        without a body."""
        chunk = Chunk.of_values(values) if self._open is None else None
        if chunk is None:
            self.append_run(Body.of_values(*values))
            return
        if not self.length:
            self.first_id = chunk.first_id
        self._chunks.append(chunk)
        self._first_ids.append(chunk.first_id)
        self._sealed_size += chunk.memory_size
        self.length += chunk.count
        self.last_id = chunk.last_id

    def take_block(self, block: bytes) -> None:
        """Take the entries that `Body.block` returned, at least one, as the first ones of this entry log. Raises
        ValueError for other bytes."""
        chunk = Chunk(ID_MIN)
        body = self._open = chunk.body()
        body.read_block(block)
        first_id = self.first_id = chunk.first_id = body.id_at(0)
        self.last_id, self.length = body.last_id, body.count
        self._chunks.append(chunk)
        self._first_ids.append(first_id)
        if body.is_full:
            self._seal()

    @property
    def has_gaps(self) -> bool:
        """Whether a chunk other than the first was removed because its last entry was deleted."""
        return self._has_gaps

    def all_chunks(self) -> list[Chunk]:
        """All chunks, in order. The caller must not change them."""
        return self._chunks

    def take_chunk(self, chunk: Chunk) -> None:
        """Take a chunk whose live entries, at least one, are above all others. Raises ValueError for another one."""
        first_id = chunk.first_live_id()
        before = self._chunks[-1] if self._chunks else None
        if before is not None and (before.is_open or self.last_id >= first_id or before.first_id >= chunk.first_id):
            raise ValueError("a chunk out of order")
        if not self.length:
            self.first_id = first_id
        self._chunks.append(chunk)
        self._first_ids.append(chunk.first_id)
        self.length += chunk.live
        self.last_id = chunk.last_live_id()
        if chunk.is_open:
            self._open = chunk.body()
        else:
            self._sealed_size += chunk.memory_size

    def note_gaps(self, *, has_gaps: bool, has_strays: bool) -> None:
        """Take over from another entry log what its chunks do not show: see `_has_gaps` and `has_strays`."""
        self._has_gaps, self.has_strays = has_gaps, has_strays

    def allow_after(self, last_id: StreamID) -> None:
        """Prepare for a next ID that is above `last_id`, which is lower than the last ID so far.

        The next ID may be below those of deleted entries of the open chunk, and must then go into a new chunk.
        """
        self.has_strays = True
        if self._open is not None and last_id < self._open.last_id:
            self._seal()

    def _open_chunk(self, first_id: StreamID) -> Body:
        chunk = Chunk(first_id)
        self._chunks.append(chunk)
        self._first_ids.append(first_id)
        body = self._open = chunk.body()
        return body

    def _seal(self) -> None:
        tail = self._chunks[-1]
        tail.seal()
        self._sealed_size += tail.memory_size
        self._open = None
        if tail.is_sparse:
            self._compact(len(self._chunks) - 1)

    def __contains__(self, entry_id: StreamID) -> bool:
        if not self.first_id <= entry_id <= self.last_id or not self.length:
            return False
        return self._chunks[self._chunk_index(entry_id)].find(entry_id) >= 0

    def still_has(self, entry_id: StreamID) -> bool:
        """Whether an ID known to have been added is still in the entry log. A pending ID is such an ID.

        A chunk without deleted entries is not searched for that (benchmark row XCLAIM).
        """
        if not self.first_id <= entry_id <= self.last_id or not self.length:
            return False
        chunk = self._chunks[self._first_ids.index_of(entry_id)]
        if not chunk.has_holes and not self.has_strays:
            return entry_id <= chunk.last_id
        return chunk.find(entry_id) >= 0

    def still_has_all(self, first_id: StreamID, last_id: StreamID) -> bool:
        """Whether certainly no entry was removed between two IDs that are known to have been added, both included.

        If false, the caller must check each entry (benchmark row XAUTOCLAIM).
        """
        if self._has_gaps or self.has_strays or not self.length:
            return False
        if not self.first_id <= first_id <= last_id <= self.last_id:
            return False
        chunks = self._chunks[self._chunk_index(first_id) : self._chunk_index(last_id) + 1]
        return not any(chunk.has_holes for chunk in chunks)

    def has_all(self, ids: list[StreamID]) -> bool:
        """Whether each of these IDs is that of a live entry. Fast for IDs of consecutive entries (benchmark row
        reload)."""
        done = 0
        while done < len(ids):
            entry_id = ids[done]
            if entry_id not in self:
                return False
            chunk = self._chunks[self._chunk_index(entry_id)]
            done += 1
            if chunk.dead is None and not chunk.head:
                done += chunk.index.count_found(ids, done)
        return True

    def get(self, entry_id: StreamID) -> bytes | None:
        """The live entry's reply form, None if there is none."""
        if not self.first_id <= entry_id <= self.last_id or not self.length:
            return None
        chunk = self._chunks[self._chunk_index(entry_id)]
        position = chunk.find(entry_id)
        return None if position < 0 else chunk.slice(position, position + 1)

    def get_many(self, ids: list[StreamID]) -> list[Piece]:
        """The bytes of live entries in the order of `ids`. Consecutive entries form one piece (benchmark row
        XAUTOCLAIM)."""
        pieces: list[Piece] = []
        done = 0
        while done < len(ids) and self.length:
            chunk = self._chunks[self._chunk_index(ids[done])]
            position = chunk.find(ids[done])
            if position < 0:
                done += 1
                continue
            count = chunk.index.count_run(ids, done, position)
            pieces.append(chunk.slice(position, position + count))
            done += count
        return pieces

    def read(self, start: StreamID, end: StreamID, count: int = -1) -> tuple[int, list[Piece]]:
        """Up to `count` entries (all if negative) from `start` to `end`, both included: how many, and their bytes in as
        few pieces as possible. The last piece of a long range is an iterator, which yields the entries as they are now,
        even if the entry log changes later."""
        if not count:
            return 0, []
        if start == end:
            entry = self.get(start)
            return (0, []) if entry is None else (1, [entry])
        run = self._run_of(start, end, count)
        if run is not None:
            chunk, low, high = run
            return count, [chunk.slice(low, high)]
        return read_pieces(self._spans(start, end), count)

    def read_with_ids(self, start: StreamID, end: StreamID, count: int = -1) -> tuple[list[StreamID], list[bytes]]:
        """Like `read`, with the IDs instead of their number."""
        run = self._run_of(start, end, count)
        if run is not None:
            chunk, low, high = run
            return chunk.index.ids(low, high), [chunk.slice(low, high)]
        ids: list[StreamID] = []
        pieces: list[bytes] = []
        for chunk, low, high in self._spans(start, end):
            if 0 <= count < len(ids) + high - low:
                high = low + count - len(ids)
            if low < high:
                pieces.append(chunk.slice(low, high))
                ids += chunk.index.ids(low, high)
            if len(ids) == count:
                break
        return ids, pieces

    def read_back(self, start: StreamID, end: StreamID, count: int = -1) -> tuple[int, list[Piece]]:
        """Like `read`, from `end` down to `start`."""
        return read_pieces_back(spans_back_from(self._chunks, self._chunk_index(end), start, end), count)

    def entries(self, start: StreamID, end: StreamID) -> Iterator[tuple[StreamID, bytes]]:
        """The live entries from `start` to `end`, both included, one by one. The log must not change meanwhile."""
        for chunk, low, high in self._spans(start, end):
            body = chunk.body()
            for position in range(low, high):
                yield body.id_at(position), body.slice(position, position + 1)

    def runs(self, start: StreamID, end: StreamID) -> Iterator[tuple[array[int], array[int], bytes]]:
        """The live entries from `start` to `end`, both included, a run at a time: the halves of their IDs, and the
        bytes of them all. The log must not change meanwhile."""
        for body, low, high in bodies(self._spans(start, end)):
            yield *body.columns(low, high), body.slice(low, high)

    def all_entries(self) -> Iterator[list[tuple[StreamID, bytes]]]:
        """Yield all live entries, a chunk's at a time."""
        for body, spans in self.all_bodies():
            yield [
                (body.id_at(position), body.slice(position, position + 1))
                for low, high in spans
                for position in range(low, high)
            ]

    def all_bodies(self) -> Iterator[tuple[Body, list[tuple[int, int]]]]:
        """Yield each chunk's body with its runs of live entries: first position, and position after the last."""
        for chunk in self._chunks:
            yield chunk.read_once(), list(chunk.spans(0, chunk.count))

    def all_contents(self) -> Iterator[tuple[EntryValues | Body, list[tuple[int, int]]]]:
        """Yield what `all_bodies` yields, with columns in place of a body if the chunk has them."""
        for chunk in self._chunks:
            yield chunk.values() or chunk.read_once(), list(chunk.spans(0, chunk.count))

    def ids(self, start: StreamID, end: StreamID) -> list[StreamID]:
        """The live IDs from `start` to `end`, both included."""
        found: list[StreamID] = []
        for chunk, low, high in self._spans(start, end):
            found += chunk.index.ids(low, high)
        return found

    def delete(self, entry_id: StreamID) -> bool:
        """Delete one entry. Returns False if there is no live entry with that ID."""
        if not self.length or not self.first_id <= entry_id <= self.last_id:
            return False
        index = self._chunk_index(entry_id)
        position = self._chunks[index].find(entry_id)
        if position < 0:
            return False
        chunk = self._own(index)
        grown = chunk.kill(position)
        if not chunk.is_open:
            self._sealed_size += grown
        self.length -= 1
        if not chunk.live:
            self._drop(index)
        elif chunk.is_sparse:
            self._compact(index)
        self._refresh_edges(entry_id)
        return True

    def trim_head(self, count: int) -> None:
        """Delete the `count` smallest entries."""
        left = count = min(count, self.length)
        dropped = 0
        size_change = 0
        for chunk in self._chunks:
            if left < chunk.live:
                if left:
                    self._own(dropped).kill_head(left)
                break
            size_change -= 0 if chunk.is_open else chunk.memory_size
            left -= chunk.live
            dropped += 1
        self.length -= count
        self._sealed_size += size_change
        if dropped:
            if dropped == len(self._chunks):
                self._open = None
            del self._chunks[:dropped]
            self._first_ids.remove(0, dropped)
        if not self.length:
            self.first_id = self.last_id = ID_MIN
            return
        if self._chunks[0].is_sparse:
            self._compact(0)
        self.first_id = self._chunks[0].first_live_id()

    def id_at(self, index: int) -> StreamID:
        """ID of the live entry that has `index` smaller ones. Raises IndexError if there are fewer."""
        for chunk in self._chunks:
            if index < chunk.live:
                for low, high in chunk.spans(0, chunk.count):
                    if index < high - low:
                        return chunk.index.id_at(low + index)
                    index -= high - low
            index -= chunk.live
        raise IndexError(index)

    def count_after(self, entry_id: StreamID) -> int:
        """Number of live entries with larger IDs. The time goes by the chunks between the ID and the nearer end of the
        entry log, and by one chunk."""
        if not self.length or entry_id >= self.last_id:
            return 0
        if entry_id < self.first_id:
            return self.length
        chunks, index = self._chunks, self._chunk_index(entry_id)
        count = 0
        for low, high in chunks[index].spans(chunks[index].index.position(id_after(entry_id)), chunks[index].count):
            count += high - low
        if 2 * index < len(chunks):
            for number in range(index + 1):
                count -= chunks[number].live
            return count + self.length
        for number in range(index + 1, len(chunks)):
            count += chunks[number].live
        return count

    def count_over(self, size_max: int) -> int:
        """How many of the smallest entries take the bytes of memory beyond `size_max`; never the last entry.

        The entries of a chunk count as of equal size, and the removed ones of the first chunk as freed.
        """
        if not self.length:
            return 0
        first = self._chunks[0]
        left = self.memory_size - size_max - first.removed * (first.memory_size + CHUNK_SIZE) // first.count
        count = 0
        for chunk in self._chunks:
            if left <= 0:
                break
            size = chunk.memory_size + CHUNK_SIZE
            if chunk is first:
                size -= chunk.removed * size // chunk.count
            if left < size:
                count += -(-chunk.live * left // size)
                break
            count += chunk.live
            left -= size
        return min(count, self.length - 1)

    def count_between(self, start: StreamID, end: StreamID) -> int:
        """Number of live entries from `start` to `end`, both included."""
        return sum(high - low for _, low, high in self._spans(start, end))

    def copy(self) -> EntryLog:
        """An independent log with the same entries. Sealed chunks are shared until an entry of theirs is deleted
        (benchmark row rewrite)."""
        twin = EntryLog()
        twin._chunks, twin._first_ids = self._chunks.copy(), self._first_ids.copy()
        for chunk in self._chunks:
            chunk.is_shared = True
        if self._open is not None:
            self._chunks[-1].is_shared = False
            twin._chunks[-1] = self._chunks[-1].copy()
            twin._open = twin._chunks[-1].body()
        twin._has_gaps, twin.has_strays = self._has_gaps, self.has_strays
        twin._sealed_size = self._sealed_size
        twin.length, twin.first_id, twin.last_id = self.length, self.first_id, self.last_id
        return twin

    @property
    def memory_size(self) -> int:
        """Bytes held for the entries. O(1)."""
        open_size = 0 if self._open is None else self._chunks[-1].memory_size
        return self._sealed_size + open_size + len(self._chunks) * CHUNK_SIZE

    @property
    def sole_body(self) -> Body | None:
        """The open body that has all entries and nothing else. None if there is none."""
        if self._open is None or len(self._chunks) > 1 or self._chunks[0].removed:
            return None
        return self._open

    def check(self) -> None:
        """Assert that counters and edges agree with the chunks."""
        ids = self.ids(ID_MIN, ID_MAX)
        assert len(ids) == self.length
        assert ids == sorted(set(ids))
        assert (self.first_id, self.last_id) == ((ids[0], ids[-1]) if ids else (ID_MIN, ID_MIN))
        assert all(chunk.live > 0 for chunk in self._chunks)
        assert [chunk.first_id for chunk in self._chunks] == list(self._first_ids)
        assert self._sealed_size == sum(chunk.memory_size for chunk in self._chunks if not chunk.is_open)
        assert [chunk for chunk in self._chunks if chunk.is_open] == ([] if self._open is None else self._chunks[-1:])
        assert self._open is None or self._open is self._chunks[-1].body()

    def _chunk_index(self, entry_id: StreamID) -> int:
        """Index of the chunk that would hold the ID; 0 for IDs below all."""
        return max(self._first_ids.index_of(entry_id), 0)

    def _run_of(self, start: StreamID, end: StreamID, count: int) -> Span | None:
        """The first `count` entries of a range if they are consecutive in one chunk, the usual case of a short read.
        Otherwise, or if there are fewer, None (benchmark rows XRANGE COUNT 10, XREADGROUP COUNT 1)."""
        if count <= 0 or not self.length or start > end:
            return None
        chunk = self._chunks[self._chunk_index(start)]
        if chunk.dead is not None or chunk.first_id > end:
            return None
        low, high = positions(chunk, start, end)
        low = max(low, chunk.head)
        return (chunk, low, low + count) if count <= high - low else None

    def _spans(self, start: StreamID, end: StreamID) -> Iterator[Span]:
        """The runs of live entries in a range, ascending."""
        return spans_from(self._chunks, self._chunk_index(start), start, end)

    def _own(self, index: int) -> Chunk:
        """The chunk at `index`, for deleting entries from it. A shared chunk is replaced by a copy first."""
        chunk = self._chunks[index]
        if chunk.is_shared:
            chunk = self._chunks[index] = chunk.successor()
        return chunk

    def _drop(self, index: int) -> None:
        self._has_gaps = self._has_gaps or index > 0
        chunk = self._chunks.pop(index)
        if chunk.is_open:
            self._open = None
        else:
            self._sealed_size -= chunk.memory_size
            chunk.drop_unpacked()
        self._first_ids.remove(index, 1)

    def _compact(self, index: int) -> None:
        """Give back the memory of the removed entries of a chunk, and put it together with a small neighbour."""
        chunk = self._chunks[index]
        compacted = chunk.compacted()
        self._chunks[index] = compacted
        if compacted.is_open:
            self._open = compacted.body()
            return
        self._sealed_size += compacted.memory_size - chunk.memory_size
        for low in (index - 1, index):
            pair = self._chunks[max(low, 0) : low + 2]
            joined = merged(pair[0], pair[1]) if len(pair) == 2 else None
            if joined is not None:
                self._chunks[low : low + 2] = [joined]
                self._first_ids.remove(low + 1, 1)
                self._sealed_size += joined.memory_size - pair[0].memory_size - pair[1].memory_size
                return

    def _refresh_edges(self, deleted_id: StreamID) -> None:
        if not self.length:
            self.first_id = self.last_id = ID_MIN
            return
        if deleted_id == self.first_id:
            self.first_id = self._chunks[0].first_live_id()
        if deleted_id == self.last_id:
            self.last_id = self._chunks[-1].last_live_id()
