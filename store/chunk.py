"""A chunk: consecutive entries of a stream, stored as they are sent.

Each entry is the reply array `*2 <id> *2n <field value ...>` in RESP, so a range reply is a slice of the chunk's body.
The chunk at the tail grows; once full it is sealed: packed with zstd (see `pack_sealed`) and unpacked again when it is
read. Some unpacked bodies are cached, since several readers often read one chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import getsizeof
from typing import Final

import zstandard

from .ids import StreamID

try:
    from .body import Body
except ImportError:  # there was no C compiler at installation
    from .body_plain import Body  # type: ignore[assignment]

__all__ = [
    "CHUNK_SIZE",
    "Body",
    "Chunk",
    "drop_unpacked",
    "pack_sealed",
    "unpacked_size",
]

# Bytes at which a chunk is sealed: large enough to compress well, small enough to unpack in 0.1 ms.
CHUNK_SIZE_MAX: Final = 64 * 1024
CHUNK_ENTRIES_MAX = 1024
# Unpacked chunks in the cache, over all streams.
UNPACKED_CHUNKS_MAX = 1024
# Bytes of all unpacked chunks in the cache. Chunks with huge entries leave room for fewer, at least the last one read.
UNPACKED_SIZE_MAX: Final = 8 << 20

# Bytes of a chunk without its entries: the object, the numbers in its slots, and the references in lists.
CHUNK_SIZE: Final = 288
# Bytes of one position in `Chunk.dead`, without its share of the set's table.
POSITION_SIZE: Final = 32


_COMPRESSOR: Final = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR: Final = zstandard.ZstdDecompressor()
# Whether chunks are packed when they are sealed. Set by `pack_sealed`.
_packs_sealed = True
# The cache: sealed chunks that hold their unpacked body, with its size. The oldest one is dropped when it is over a
# limit.
_unpacked: dict[Chunk, int] = {}
_unpacked_size = 0


class Chunk:
    """Consecutive entries. `dead` holds the positions of deleted ones; `head` counts those trimmed off the front.

    While the chunk is open, entries are added to its body, and the count and the last ID are those of the body.
    """

    __slots__ = (
        "_body",
        "_count",
        "_last_id",
        "_open",
        "_packed",
        "_tail",
        "_tail_count",
        "dead",
        "first_id",
        "head",
        "is_shared",
        "removed",
    )

    def __init__(self, first_id: StreamID) -> None:
        # The growing body; None once the chunk is sealed.
        self._open: Body | None = Body(CHUNK_SIZE_MAX, CHUNK_ENTRIES_MAX)
        # The open body; of a sealed chunk the unpacked body while it is cached, otherwise None.
        self._body: Body | None = self._open
        # The compressed body. Empty while the chunk is open, and if it was sealed unpacked, when it keeps its body.
        self._packed = b""
        self._count = 0
        self._last_id: StreamID = 0
        self.first_id = first_id
        self.dead: set[int] | None = None
        # Position of the first live entry; none of those before it are in `dead`.
        self.head = 0
        # Entries deleted or trimmed.
        self.removed = 0
        # Position of the last live entry, or one after it, if the chunk has `_tail_count` entries.
        self._tail = 0
        self._tail_count = 0
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
        self._count, self._last_id = self.count, self.last_id
        self._open = None
        if _packs_sealed:
            self._packed = _pack(body)
        body.fit()
        if self._packed:
            self._keep_unpacked(body)

    def body(self) -> Body:
        """The body, unpacked if necessary."""
        body = self._body
        if body is None:
            body = _unpack(self._packed)
            self._keep_unpacked(body)
        return body

    def read_once(self) -> Body:
        """The body, for reading a whole stream: the unpacked form is not cached."""
        return self._body if self._body is not None else _unpack(self._packed)

    def _keep_unpacked(self, body: Body) -> None:
        global _unpacked_size
        self._body = body
        size = _unpacked[self] = body.memory_size
        _unpacked_size += size
        while len(_unpacked) > UNPACKED_CHUNKS_MAX or (_unpacked_size > UNPACKED_SIZE_MAX and len(_unpacked) > 1):
            oldest = next(iter(_unpacked))
            _unpacked_size -= _unpacked.pop(oldest)
            oldest._body = None

    def copy(self) -> Chunk:
        """An independent chunk with the same entries. A sealed body is shared."""
        twin = Chunk(self.first_id)
        twin.head, twin.removed = self.head, self.removed
        twin.dead = None if self.dead is None else set(self.dead)
        twin._count, twin._last_id, twin._packed = self._count, self._last_id, self._packed
        twin._open = None if self._open is None else self._open.copy()
        twin._body = None if self._packed else twin._open or self._body
        return twin

    def successor(self) -> Chunk:
        """A copy that replaces a shared chunk. It takes over the cached unpacked body."""
        global _unpacked_size
        twin = self.copy()
        body, size = self._body, _unpacked.pop(self, 0)
        if body is not None and size:
            _unpacked_size -= size
            self._body = None
            twin._keep_unpacked(body)
        return twin

    def find(self, entry_id: StreamID) -> int:
        """Position of the live entry with this ID, -1 if there is none."""
        body = self.body()
        position = body.position(entry_id)
        if position >= self.count or body.id_at(position) != entry_id:
            return -1
        return position if self.is_live(position) else -1

    def is_live(self, position: int) -> bool:
        """Whether the entry at `position` has not been deleted."""
        return position >= self.head and (self.dead is None or position not in self.dead)

    def kill(self, position: int) -> None:
        """Delete the live entry at `position`."""
        if self.dead is None:
            self.dead = set()
        self.dead.add(position)
        self.removed += 1
        while self.head in self.dead:
            self.dead.discard(self.head)
            self.head += 1

    def kill_head(self, count: int) -> None:
        """Delete the first `count` live entries; fewer than all of them."""
        self.removed += count
        while count:
            if self.dead is None:
                self.head += count
                return
            if self.head in self.dead:
                self.dead.discard(self.head)
            else:
                count -= 1
            self.head += 1
        while self.dead is not None and self.head in self.dead:
            self.dead.discard(self.head)
            self.head += 1

    def first_live_id(self) -> StreamID:
        """Smallest live ID; the chunk has at least one live entry."""
        return self.body().id_at(self.head)

    def last_live_id(self) -> StreamID:
        """Largest live ID; the chunk has at least one live entry."""
        if self.dead is None:
            return self.last_id
        if self._tail_count != self.count:
            self._tail, self._tail_count = self.count - 1, self.count
        while self._tail in self.dead:
            self._tail -= 1
        return self.body().id_at(self._tail)

    def spans(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """The runs of live entries between positions `low` and `high` (excluded), ascending."""
        low = max(low, self.head)
        if self.dead is None:
            if low < high:
                yield low, high
            return
        for gap in sorted(position for position in self.dead if low <= position < high):
            if low < gap:
                yield low, gap
            low = gap + 1
        if low < high:
            yield low, high

    @property
    def memory_size(self) -> int:
        """Bytes held for the entries, without an unpacked copy in the cache."""
        size = getsizeof(self._packed) if self._packed else self.body().memory_size
        return size if self.dead is None else size + getsizeof(self.dead) + len(self.dead) * POSITION_SIZE


def _pack(body: Body) -> bytes:
    """A body as one compressed block."""
    # A copy, since the compressor's result keeps the room it reserved for incompressible data.
    return bytes(memoryview(_COMPRESSOR.compress(body.block())))


def _unpack(packed: bytes) -> Body:
    return Body.of_block(_DECOMPRESSOR.decompress(packed))


def pack_sealed(wanted: bool) -> None:
    """Set whether chunks are packed when they are sealed, for all streams (`stream-chunk-compression`)."""
    global _packs_sealed
    _packs_sealed = wanted


def unpacked_size() -> int:
    """Bytes of the unpacked bodies in the cache, over all streams."""
    return _unpacked_size


def drop_unpacked() -> None:
    """Empty the cache of unpacked bodies."""
    global _unpacked_size
    for chunk in _unpacked:
        chunk._body = None
    _unpacked.clear()
    _unpacked_size = 0
