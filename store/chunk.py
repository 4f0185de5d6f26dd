"""A chunk: consecutive entries of a stream.

The chunk at the tail grows. Its body has the entries as they are sent: each is the reply array
`*2 <id> *2n <field value ...>` in RESP, so a range reply is a slice of the body. Once full, the chunk is sealed and
packed (see `pack_sealed`): its IDs, which are searched as they are, and its entries in one of two forms. Short entries
become rows, each of which can be read alone; others are compressed with zstd, all of them at once. A body is unpacked
again when much of it is read. Some unpacked bodies are cached, since several readers often read one chunk.

Deleted entries stay in a chunk, marked, until a good part of it is deleted: then `compacted` makes a chunk without
them. Nothing else in a packed chunk changes, so that an image of the dataset can share it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from enum import IntEnum
from sys import getsizeof
from typing import Final, NamedTuple, TypeAlias

import zstandard

from .class_marks import mypyc_attr
from .ids import StreamID

try:
    from .body import Body, PackedIDs, PackedRows
except ImportError:  # there was no C compiler at installation
    from .body_plain import Body, PackedIDs, PackedRows  # type: ignore[assignment]

__all__ = [
    "CHUNK_SIZE",
    "Body",
    "Chunk",
    "ChunkBlocks",
    "ChunkForm",
    "EntryValues",
    "drop_unpacked",
    "merged",
    "pack_sealed",
    "unpacked_size",
]

# Bytes at which a chunk is sealed: large enough to compress well, small enough to unpack in 0.1 ms.
CHUNK_SIZE_MAX: Final = 64 * 1024
CHUNK_ENTRIES_MAX = 1024
# Unpacked chunks in the cache, over all streams.
UNPACKED_CHUNKS_MAX = 1024
# Bytes of all unpacked chunks in the cache. Chunks with huge entries leave room for fewer, at least the last one read.
UNPACKED_SIZE_MAX: Final = 2 << 20
# Rows of more bytes than this, on the average, are compared with what zstd makes of the entries, which is chosen if it
# takes less than this part of their bytes.
ROW_SIZE_MAX: Final = 32
ZSTD_SHARE: Final = 0.6
# Bytes up to which the entries of two packed chunks are put into one.
MERGED_SIZE_MAX: Final = 4096
# Entries of a growing chunk that are deleted, at least, before it is compacted.
OPEN_REMOVED_MIN: Final = 64

# Bytes of a chunk without its entries: the object, the numbers in its slots, and the references in lists.
CHUNK_SIZE: Final = 280
# Bytes of the marks of deleted entries, without a byte for each entry.
DEAD_SIZE: Final = 72

# Entries that have the same fields, as columns: the halves of their IDs, the names of the fields, all values end to
# end, entry by entry, and the end of each value.
EntryValues: TypeAlias = "tuple[array[int], array[int], list[bytes], bytes, array[int]]"

LIVE: Final = b"\0"
DEAD: Final = b"\1"

_COMPRESSOR: Final = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR: Final = zstandard.ZstdDecompressor()
# Whether chunks are packed when they are sealed. Set by `pack_sealed`.
_packs_sealed = True
# The cache: sealed chunks that hold their unpacked body, with its size. The oldest one is dropped when it is over a
# limit.
_unpacked: dict[Chunk, int] = {}
_unpacked_size = 0


class ChunkForm(IntEnum):
    """How a chunk has its entries."""

    # A body that grows.
    OPEN = 0
    # A body that was sealed and not packed.
    BODY = 1
    # Packed IDs, and rows.
    ROWS = 2
    # Packed IDs, and a body compressed with zstd.
    COMPRESSED = 3


class ChunkBlocks(NamedTuple):
    """All of a chunk, with its entries in blocks of bytes as they are held.

    `entries` has a body, rows, or a compressed body; `ids` the packed IDs if `form` says so. `dead`: see `Chunk`.
    """

    form: ChunkForm
    first_id: StreamID
    head: int
    has_holes: bool
    dead: bytes
    ids: bytes
    entries: bytes


@mypyc_attr(acyclic=True)
class Chunk:
    """Consecutive entries. `dead` marks the deleted ones; `head` counts those trimmed off the front.

    While the chunk is open, entries are added to its body, and the count and the last ID are those of the body.
    """

    __slots__ = (
        "_body",
        "_count",
        "_last_id",
        "_open",
        "_packed",
        "_rows",
        "_rows_read",
        "dead",
        "first_id",
        "has_holes",
        "head",
        "index",
        "is_shared",
        "removed",
    )

    def __init__(self, first_id: StreamID) -> None:
        # The growing body; None once the chunk is sealed.
        self._open: Body | None = Body(CHUNK_SIZE_MAX, CHUNK_ENTRIES_MAX)
        # The open body; of a packed chunk the unpacked body while it is cached, otherwise None.
        self._body: Body | None = self._open
        # What finds entries by ID: the packed IDs of a packed chunk, otherwise the body.
        self.index: Body | PackedIDs = self._open
        # The entries of a packed chunk, in one of two forms. Neither while the chunk is open, nor if it was sealed
        # unpacked, when it keeps its body.
        self._rows: PackedRows | None = None
        self._packed = b""
        # Rows that were read without unpacking all of them.
        self._rows_read = 0
        self._count = 0
        self._last_id: StreamID = 0
        self.first_id = first_id
        # A byte for each entry, 1 for a deleted one; entries beyond its end are not deleted.
        self.dead: bytearray | None = None
        # Whether an entry was deleted, other than by trimming.
        self.has_holes = False
        # Position of the first live entry.
        self.head = 0
        # Entries deleted or trimmed.
        self.removed = 0
        # Whether other entry logs have, or had, this chunk too. Entries are then deleted from a copy that replaces it.
        self.is_shared = False

    @property
    def is_open(self) -> bool:
        """Whether it may still grow."""
        return self._open is not None

    @property
    def count(self) -> int:
        """Entries ever added."""
        return self._count if self._open is None else self._open.count

    @property
    def live(self) -> int:
        """Entries added and not removed."""
        return self.count - self.removed

    @property
    def last_id(self) -> StreamID:
        """ID of the last entry ever added."""
        return self._last_id if self._open is None else self._open.last_id

    def seal(self) -> None:
        """Stop adding entries, and pack them if `pack_sealed` says so. From now on entries are only deleted."""
        body = self._open
        assert body is not None
        self._become_sealed(body)
        if self._body is None:
            self._keep_unpacked(body)

    def _become_sealed(self, body: Body) -> None:
        """Become a sealed chunk with the entries of this body, which is packed if `pack_sealed` says so."""
        body.fit()
        if not _packs_sealed:
            self._open = None
            self._body = self.index = body
            self._count, self._last_id = body.count, body.last_id
            return
        ids = body.pack_ids()
        self._become_smaller(ids, body.pack_rows(ids), lambda: body)

    @staticmethod
    def of_values(values: EntryValues) -> Chunk | None:
        """A sealed chunk of these entries, as if they had been added one by one. None if they would not fill it, and if
        they are not packed as rows."""
        rows = PackedRows.of_values(*values) if _packs_sealed else None
        if rows is None or rows.ids.count > CHUNK_ENTRIES_MAX:
            return None
        if rows.ids.count < CHUNK_ENTRIES_MAX and rows.replies_size < CHUNK_SIZE_MAX:
            return None
        chunk = Chunk(rows.ids.id_at(0))
        chunk._become_smaller(rows.ids, rows, lambda: Body.of_values(*values))
        return chunk

    def _become_smaller(self, ids: PackedIDs, rows: PackedRows | None, body: Callable[[], Body]) -> None:
        """Become packed, in the form that takes less memory. `body` returns the entries."""
        packed = b""
        if rows is None or rows.memory_size > ROW_SIZE_MAX * ids.count:
            packed = _pack(body())
            if rows is None or len(packed) < ZSTD_SHARE * rows.memory_size:
                rows = None
            else:
                packed = b""
        self._become_packed(ids, rows, packed)

    def _become_packed(self, ids: PackedIDs, rows: PackedRows | None, packed: bytes) -> None:
        self._open = self._body = None
        self.index, self._rows, self._packed = ids, rows, packed
        self._count, self._last_id = ids.count, ids.id_at(ids.count - 1)

    def body(self) -> Body:
        """The body, unpacked if necessary."""
        body = self._body
        if body is None:
            body = self._unpack()
            self._keep_unpacked(body)
        return body

    def read_once(self) -> Body:
        """The body, for reading a whole stream: the unpacked form is not cached."""
        return self._body if self._body is not None else self._unpack()

    def values(self) -> EntryValues | None:
        """The entries as columns, if they are packed as rows and have the same fields; otherwise None."""
        return None if self._rows is None else self._rows.values()

    def _unpack(self) -> Body:
        return Body.of_block(_DECOMPRESSOR.decompress(self._packed)) if self._rows is None else self._rows.unpack()

    def slice(self, low: int, high: int) -> bytes:
        """The bytes of the entries `low` to `high` (excluded)."""
        rows = self._rows_for(high - low)
        return self.body().slice(low, high) if rows is None else rows.slice(low, high)

    def slice_back(self, low: int, high: int) -> bytes:
        """The bytes of the entries `low` to `high` (excluded), last entry first."""
        rows = self._rows_for(high - low)
        return self.body().slice_back(low, high) if rows is None else rows.slice_back(low, high)

    def _rows_for(self, count: int) -> PackedRows | None:
        """The rows, to read `count` of them alone. None if the body is read instead: because it is unpacked, or because
        so many rows were read that it had better been."""
        rows = self._rows
        if rows is None or self._body is not None:
            return None
        self._rows_read += count
        return rows if self._rows_read * 2 < self._count else None

    def _keep_unpacked(self, body: Body) -> None:
        global _unpacked_size
        self._body = body
        size = _unpacked[self] = body.memory_size
        _unpacked_size += size
        while len(_unpacked) > UNPACKED_CHUNKS_MAX or (_unpacked_size > UNPACKED_SIZE_MAX and len(_unpacked) > 1):
            next(iter(_unpacked)).drop_unpacked()

    def drop_unpacked(self) -> Body | None:
        """Take the unpacked body out of the cache. Returns it, None if it was not there."""
        global _unpacked_size
        size = _unpacked.pop(self, -1)
        if size < 0:
            return None
        _unpacked_size -= size
        body, self._body = self._body, None
        self._rows_read = 0
        return body

    def copy(self) -> Chunk:
        """An independent chunk with the same entries. A sealed body is shared."""
        twin = Chunk(self.first_id)
        twin.head, twin.removed, twin.has_holes = self.head, self.removed, self.has_holes
        twin.dead = None if self.dead is None else bytearray(self.dead)
        twin._count, twin._last_id = self._count, self._last_id
        if self._open is not None:
            twin._open = twin._body = twin.index = self._open.copy()
            return twin
        twin._open, twin.index, twin._rows, twin._packed = None, self.index, self._rows, self._packed
        twin._body = None if self._is_packed else self._body
        return twin

    def blocks(self) -> ChunkBlocks:
        """The chunk as blocks of bytes. Entries are copied, not unpacked. Only in the form with a C compiler."""
        index = self.index
        if isinstance(index, Body):
            form = ChunkForm.OPEN if self.is_open else ChunkForm.BODY
            ids, entries = b"", index.block()
        elif self._rows is not None:
            form, ids, entries = ChunkForm.ROWS, index.block(), self._rows.block()
        else:
            form, ids, entries = ChunkForm.COMPRESSED, index.block(), self._packed
        dead = b"" if self.dead is None else bytes(self.dead)
        return ChunkBlocks(form, self.first_id, self.head, self.has_holes, dead, ids, entries)

    @staticmethod
    def of_blocks(blocks: ChunkBlocks) -> Chunk:
        """The chunk of which these are the blocks. Raises ValueError for other ones, and for a chunk without live
        entries."""
        chunk = Chunk(blocks.first_id)
        body = chunk.body()
        if blocks.form is ChunkForm.ROWS:
            ids = PackedIDs.of_block(blocks.ids)
            chunk._become_packed(ids, PackedRows.of_block(ids, blocks.entries), b"")
        elif blocks.form is ChunkForm.COMPRESSED:
            ids = PackedIDs.of_block(blocks.ids)
            chunk._become_packed(ids, None, blocks.entries)
            chunk._check_compressed(ids)
        else:
            body.read_block(blocks.entries)
            if not body.has_entries():
                raise ValueError("a body of something else than entries")
            if blocks.form is ChunkForm.BODY:
                chunk._open, chunk._count, chunk._last_id = None, body.count, body.last_id
        chunk._take_marks(blocks)
        return chunk

    def _check_compressed(self, ids: PackedIDs) -> None:
        """Raise ValueError unless the compressed body has these IDs."""
        try:
            body = self._unpack()
        except zstandard.ZstdError as error:
            raise ValueError("a body that cannot be decompressed") from error
        if not body.has_entries() or body.count != ids.count or body.ids(0, body.count) != ids.ids(0, ids.count):
            raise ValueError("a body of other entries")

    def _take_marks(self, blocks: ChunkBlocks) -> None:
        """Take the marks of the removed entries. Raises ValueError if they do not fit the entries."""
        head, dead = blocks.head, blocks.dead
        if len(dead) > self.count or dead.count(LIVE) + dead.count(DEAD) != len(dead) or head >= self.count:
            raise ValueError("marks of entries that do not exist")
        if dead[head : head + 1] == DEAD or not blocks.first_id <= self.index.id_at(head):
            raise ValueError("a chunk that does not begin with its first entry")
        self.head, self.has_holes, self.dead = head, blocks.has_holes, bytearray(dead) if dead else None
        self.removed = head + dead.count(DEAD, head)

    @property
    def _is_packed(self) -> bool:
        return self._rows is not None or bool(self._packed)

    def successor(self) -> Chunk:
        """A copy that replaces a shared chunk. It takes over the cached unpacked body."""
        twin = self.copy()
        body = self.drop_unpacked()
        if body is not None:
            twin._keep_unpacked(body)
        return twin

    @property
    def is_sparse(self) -> bool:
        """Whether so many entries were removed that it is worth the time to make a chunk without them."""
        if self._open is not None:
            return self.removed >= OPEN_REMOVED_MIN and self.removed * 4 > self._open.count * 3
        if self._packed:
            return self.removed * 4 > self._count * 3
        return self.removed * 2 > self._count

    def compacted(self) -> Chunk:
        """A chunk without the removed entries, of which at least one is left. This one does not change: an iterator may
        still read it."""
        self.drop_unpacked()
        twin = Chunk(self.first_id)
        twin.has_holes = self.has_holes
        if self._rows is not None:
            rows = self._rows.without(self.dead or bytearray(), self.head)
            twin._become_packed(rows.ids, rows, b"")
        elif self._open is not None:
            assert twin._open is not None
            twin._open.extend(self.live_body(), 0)
        else:
            twin._become_sealed(self.live_body())
        return twin

    def live_body(self) -> Body:
        """A body of the live entries, of which there is at least one."""
        return self.read_once().without(self.dead or bytearray(), self.head)

    def find(self, entry_id: StreamID) -> int:
        """Position of the live entry with this ID, -1 if there is none."""
        position = self.index.find(entry_id)
        return position if position >= 0 and self.is_live(position) else -1

    def is_live(self, position: int) -> bool:
        """Whether the entry at `position` has not been deleted."""
        dead = self.dead
        return position >= self.head and (dead is None or position >= len(dead) or not dead[position])

    def kill(self, position: int) -> int:
        """Delete the live entry at `position`. Returns by how many bytes `memory_size` has grown."""
        self.has_holes = True
        self.removed += 1
        dead = self.dead
        grown = 0
        if dead is None and position == self.head:
            self.head += 1
            return 0
        if dead is None:
            dead = self.dead = bytearray(self.count)
            grown = DEAD_SIZE + len(dead)
        elif position >= len(dead):
            grown = self.count - len(dead)
            dead.extend(bytes(grown))
        dead[position] = 1
        if position == self.head:
            self.head = self._next_live(position)
        return grown

    def kill_head(self, count: int) -> None:
        """Delete the first `count` live entries; fewer than all of them."""
        self.removed += count
        for low, high in self.spans(self.head, self.count):
            if count < high - low:
                self.head = low + count
                return
            count -= high - low

    def _next_live(self, position: int) -> int:
        """Position of the first live entry from `position` on, or the number of entries."""
        dead = self.dead
        if dead is None or position >= len(dead):
            return position
        found = dead.find(LIVE, position)
        return found if found >= 0 else len(dead)

    def first_live_id(self) -> StreamID:
        """Smallest live ID; the chunk has at least one live entry."""
        return self.index.id_at(self.head)

    def last_live_id(self) -> StreamID:
        """Largest live ID; the chunk has at least one live entry."""
        dead = self.dead
        if dead is None or len(dead) < self.count:
            return self.last_id
        return self.index.id_at(dead.rfind(LIVE))

    def spans(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """The runs of live entries between positions `low` and `high` (excluded), ascending."""
        low = max(low, self.head)
        dead = self.dead
        while low < high:
            if dead is None:
                yield low, high
                return
            low = self._next_live(low)
            gap = dead.find(DEAD, low)
            end = high if gap < 0 else min(gap, high)
            if low < end:
                yield low, end
            low = end

    def spans_back(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """The runs of live entries between positions `low` and `high` (excluded), the last run first."""
        low = max(low, self.head)
        dead = self.dead
        while low < high:
            if dead is None:
                yield low, high
                return
            # Entries beyond the end of `dead` are live.
            end = high if high > len(dead) else dead.rfind(LIVE, low, high) + 1
            start = max(dead.rfind(DEAD, low, end) + 1, low)
            if start < end:
                yield start, end
            high = start

    @property
    def memory_size(self) -> int:
        """Bytes held for the entries, without an unpacked copy in the cache."""
        size = 0 if self.dead is None else DEAD_SIZE + len(self.dead)
        if self._rows is not None:
            return size + self.index.memory_size + self._rows.memory_size
        if self._packed:
            return size + self.index.memory_size + getsizeof(self._packed)
        return size + self.index.memory_size


def merged(left: Chunk, right: Chunk) -> Chunk | None:
    """One sealed chunk with the live entries of two neighbours. None if it would not be small."""
    if left.is_open or right.is_open or left.memory_size + right.memory_size > MERGED_SIZE_MAX:
        return None
    chunk = Chunk(left.first_id)
    body = chunk.body()
    for each in (left, right):
        added = each.live_body()
        if body.is_full or body.extend(added, 0) < added.count:
            return None
    for each in (left, right):
        each.drop_unpacked()
    chunk.has_holes = True
    chunk._become_sealed(body)
    return chunk


def _pack(body: Body) -> bytes:
    """A body as one compressed block."""
    # A copy, since the compressor's result keeps the room it reserved for incompressible data.
    return bytes(memoryview(_COMPRESSOR.compress(body.block())))


def pack_sealed(wanted: bool) -> None:
    """Set whether chunks are packed when they are sealed, for all streams (`stream-chunk-compression`)."""
    global _packs_sealed
    _packs_sealed = wanted


def unpacked_size() -> int:
    """Bytes of the unpacked bodies in the cache, over all streams."""
    return _unpacked_size


def drop_unpacked() -> None:
    """Empty the cache of unpacked bodies."""
    for chunk in list(_unpacked):
        chunk.drop_unpacked()
