"""A chunk: consecutive entries of a stream, stored as they are sent.

Each entry is the reply array `*2 <id> *2n <field value ...>` in RESP, so a range reply is a slice of the chunk's body.
The chunk at the tail grows; once full it is sealed: packed with zstd (unless told otherwise) and unpacked again when
somebody reads it. A few unpacked ones are kept at hand, since readers follow each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import getsizeof
from typing import Final

import zstandard

from .ids import StreamID

try:
    from .body import Body
except ImportError:  # no C compiler was at hand when this was installed
    from .plain_body import Body  # type: ignore[assignment]

__all__ = [
    "CHUNK_SIZE",
    "Body",
    "Chunk",
    "let_go_of_unpacked",
    "pack_sealed",
    "unpacked_size",
]

CHUNK_SIZE_MAX: Final = 64 * 1024
"""Bytes at which a chunk is sealed: large enough to compress well, small enough to unpack in 0.1 ms."""
CHUNK_ENTRIES_MAX = 1024
UNPACKED_CHUNKS_MAX = 1024
"""Unpacked chunks kept at hand, over all streams."""
UNPACKED_SIZE_MAX: Final = 8 << 20
"""Bytes of them all: chunks with huge entries make room for fewer, down to the one that was read last."""

CHUNK_SIZE: Final = 288
"""Bytes of a chunk without what it holds: the object, the numbers of its slots, and its places in lists."""
POSITION_SIZE: Final = 32
"""Bytes of a position among the dead ones, its place in the set not counted."""


_COMPRESSOR: Final = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR: Final = zstandard.ZstdDecompressor()
_packs_sealed = True
"""What `pack_sealed` chose."""
_unpacked: dict[Chunk, int] = {}
"""Sealed chunks that hold their unpacked body, and its size; the oldest gives it up when there are too many."""
_unpacked_size = 0


class Chunk:
    """Consecutive entries. `dead` holds the positions of deleted ones; `head` counts those trimmed off the front.

    While the chunk is open, entries are added to its body, and how many they are and which is the last are read off it.
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
        self._open: Body | None = Body(CHUNK_SIZE_MAX, CHUNK_ENTRIES_MAX)
        """The growing body; None once the chunk is sealed."""
        self._body: Body | None = self._open
        """The same, or that of a sealed chunk while it is at hand."""
        self._packed = b""
        """Empty while the chunk is open, and if it was sealed without being packed: it keeps its body then."""
        self._count = 0
        self._last_id: StreamID = 0
        self.first_id = first_id
        self.dead: set[int] | None = None
        self.head = 0
        """Position of the first live entry; none of those before it are in `dead`."""
        self.removed = 0
        """Entries deleted or trimmed."""
        self._tail = 0
        """Position of the last live entry, or one after it, if the chunk has `_tail_count` entries."""
        self._tail_count = 0
        self.is_shared = False
        """Other logs have it too, or had it: entries leave a copy that takes its place."""

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
        """From now on entries only leave. They are packed, unless `pack_sealed` says otherwise."""
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
        """The entries, unpacked if need be."""
        body = self._body
        if body is None:
            body = _unpack(self._packed)
            self._keep_unpacked(body)
        return body

    def read_once(self) -> Body:
        """The entries for somebody who reads the whole stream: the unpacked form is not kept at hand."""
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
        """An independent chunk with the same entries; what is sealed is shared."""
        twin = Chunk(self.first_id)
        twin.head, twin.removed = self.head, self.removed
        twin.dead = None if self.dead is None else set(self.dead)
        twin._count, twin._last_id, twin._packed = self._count, self._last_id, self._packed
        twin._open = None if self._open is None else self._open.copy()
        twin._body = None if self._packed else twin._open or self._body
        return twin

    def successor(self) -> Chunk:
        """A copy that takes the place of a shared chunk; what is unpacked goes with it."""
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
        """Bytes held for the entries at rest, an unpacked copy at hand not counted."""
        size = getsizeof(self._packed) if self._packed else self.body().memory_size
        return size if self.dead is None else size + getsizeof(self.dead) + len(self.dead) * POSITION_SIZE


def _pack(body: Body) -> bytes:
    """A body as one compressed block."""
    # A copy, since what the compressor returns keeps the room it had for incompressible data.
    return bytes(memoryview(_COMPRESSOR.compress(body.block())))


def _unpack(packed: bytes) -> Body:
    return Body.of_block(_DECOMPRESSOR.decompress(packed))


def pack_sealed(wanted: bool) -> None:
    """Whether chunks that are sealed from now on are packed (`stream-chunk-compression`), of all streams."""
    global _packs_sealed
    _packs_sealed = wanted


def unpacked_size() -> int:
    """Bytes of the unpacked copies at hand, over all streams."""
    return _unpacked_size


def let_go_of_unpacked() -> None:
    """Give up all unpacked copies at hand."""
    global _unpacked_size
    for chunk in _unpacked:
        chunk._body = None
    _unpacked.clear()
    _unpacked_size = 0
