"""A chunk: consecutive entries of a stream, stored as they are sent.

Each entry is the reply array `*2 <id> *2n <field value ...>` in RESP, so a range reply is a slice of the chunk.
Beside the bytes stand the two halves of the IDs and the end offset of each entry, as C arrays. The chunk at the tail
grows; once full it is sealed: packed with zstd (unless told otherwise) and unpacked again when somebody reads it. A few
unpacked ones are kept at hand, since readers follow each other.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from sys import getsizeof
from typing import Final

import zstandard

from .ids import SEQ_BITS, StreamID, add_row, differences, ids_between, position_of, running_sums

CHUNK_SIZE_MAX: Final = 64 * 1024
"""Bytes at which a chunk is sealed: large enough to compress well, small enough to unpack in 0.1 ms."""
CHUNK_ENTRIES_MAX = 1024
UNPACKED_CHUNKS_MAX = 1024
"""Unpacked chunks kept at hand, over all streams."""
UNPACKED_SIZE_MAX: Final = 8 << 20
"""Bytes of them all: chunks with huge entries make room for fewer, down to the one that was read last."""

BODY_SIZE: Final = 64
"""Bytes of a body without what it holds."""
CHUNK_SIZE: Final = 288
"""Bytes of a chunk without what it holds: the object, the numbers of its slots, and its places in lists."""
POSITION_SIZE: Final = 32
"""Bytes of a position among the dead ones, its place in the set not counted."""


class Body:
    """What a chunk holds, ready to be read: RESP bytes, ID halves, and end offsets."""

    __slots__ = ("data", "ends", "ms", "seq")

    def __init__(self) -> None:
        self.data: bytes | bytearray = bytearray()
        """A bytearray while the chunk is open."""
        self.ms = array("Q")
        self.seq = array("Q")
        self.ends = array("Q")

    def copy(self) -> Body:
        """An independent body that may grow."""
        twin = Body()
        twin.data, twin.ms, twin.seq, twin.ends = bytearray(self.data), self.ms[:], self.seq[:], self.ends[:]
        return twin

    def position(self, entry_id: StreamID) -> int:
        """Index of the first entry whose ID is not below `entry_id`."""
        return position_of(self.ms, self.seq, entry_id)

    def id_at(self, position: int) -> StreamID:
        """ID of the entry at `position`."""
        return self.ms[position] << SEQ_BITS | self.seq[position]

    def ids(self, low: int, high: int) -> list[StreamID]:
        """IDs of the entries `low` to `high` (excluded)."""
        return ids_between(self.ms, self.seq, low, high)

    def slice(self, low: int, high: int) -> bytes:
        """The RESP bytes of the entries `low` to `high` (excluded)."""
        return bytes(self.data[self.ends[low - 1] if low else 0 : self.ends[high - 1]])

    def slice_back(self, low: int, high: int) -> bytes:
        """The same, last entry first."""
        return b"".join([self.slice(position, position + 1) for position in range(high - 1, low - 1, -1)])

    @property
    def memory_size(self) -> int:
        """Bytes held."""
        return BODY_SIZE + getsizeof(self.data) + getsizeof(self.ms) + getsizeof(self.seq) + getsizeof(self.ends)

    def pack(self) -> bytes:
        """Everything as one compressed block: count, differences (they compress to almost nothing), then bytes."""
        count = len(self.ends)
        ms, seq, ends = self.ms, self.seq, self.ends
        head = array("Q", (count,)) + differences(ms) + seq + differences(ends)
        packed = _COMPRESSOR.compress(head.tobytes() + self.data)
        # A copy, since what the compressor returns keeps the room it had for incompressible data.
        return bytes(memoryview(packed))

    @classmethod
    def unpack(cls, packed: bytes) -> Body:
        """The inverse of `pack`."""
        block = _DECOMPRESSOR.decompress(packed)
        count = int.from_bytes(block[:8], _BYTE_ORDER)
        numbers = array("Q")
        numbers.frombytes(block[: 8 * (1 + 3 * count)])
        body = cls()
        body.ms = running_sums(numbers[1 : count + 1])
        body.seq = numbers[count + 1 : 2 * count + 1]
        body.ends = running_sums(numbers[2 * count + 1 :])
        body.data = block[8 * (1 + 3 * count) :]
        return body


_BYTE_ORDER: Final = "little" if array("H", (1,)).tobytes()[0] else "big"
_COMPRESSOR: Final = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR: Final = zstandard.ZstdDecompressor()
_packs_sealed = True
"""What `pack_sealed` chose."""
_unpacked: dict[Chunk, int] = {}
"""Sealed chunks that hold their unpacked body, and its size; the oldest gives it up when there are too many."""
_unpacked_size = 0


class Chunk:
    """Consecutive entries. `dead` holds the positions of deleted ones; `head` counts those trimmed off the front.

    While the chunk is open, how many entries it has and which is the last are read off its body: adding an entry keeps
    no books but the arrays.
    """

    __slots__ = ("_body", "_count", "_last_id", "_open", "_packed", "dead", "first_id", "head", "is_shared", "removed")

    def __init__(self, first_id: StreamID) -> None:
        self._open: Body | None = Body()
        """The growing body; None once the chunk is sealed."""
        self._body: Body | None = self._open
        """The same, or that of a sealed chunk while it is at hand."""
        self._packed = b""
        """Empty while the chunk is open, and if it was sealed without being packed: it keeps its body then."""
        self._count = 0
        self._last_id: StreamID = 0
        self.first_id = first_id
        self.head = 0
        self.dead: set[int] | None = None
        self.removed = 0
        """Entries deleted or trimmed."""
        self.is_shared = False
        """Other logs have it too, or had it: entries leave a copy that takes its place."""

    @property
    def count(self) -> int:
        """Entries ever added."""
        return self._count if self._open is None else len(self._open.ends)

    @property
    def live(self) -> int:
        """Entries added and not removed."""
        return self.count - self.removed

    @property
    def last_id(self) -> StreamID:
        """ID of the last entry ever added."""
        return self._last_id if self._open is None else self._open.id_at(-1)

    def append(self, entry_id: StreamID, entry: bytes) -> bool:
        """Add an entry whose ID is above all others; True once the chunk is full. Hot: see the benchmark row XADD."""
        body = self._open
        assert body is not None
        data, ends = body.data, body.ends
        data += entry
        size = len(data)
        add_row(body.ms, body.seq, ends, entry_id, size)
        return size >= CHUNK_SIZE_MAX or len(ends) >= CHUNK_ENTRIES_MAX

    def extend(self, added: Body, low: int) -> int:
        """Add entries of a body from `low` on, as many as `append` would before the chunk is full; where they end."""
        body = self._open
        assert body is not None
        start = added.ends[low - 1] if low else 0
        shift = len(body.data) - start
        high = min(low + CHUNK_ENTRIES_MAX - len(body.ends), len(added.ends))
        high = min(bisect_left(added.ends, CHUNK_SIZE_MAX - shift, low, high) + 1, high)
        body.data += added.data[start : added.ends[high - 1]]
        body.ms += added.ms[low:high]
        body.seq += added.seq[low:high]
        body.ends += array("Q", map(shift.__add__, added.ends[low:high])) if shift else added.ends[low:high]
        return high

    @property
    def is_full(self) -> bool:
        """Whether an open chunk takes no more entries."""
        body = self._open
        assert body is not None
        return len(body.data) >= CHUNK_SIZE_MAX or len(body.ends) >= CHUNK_ENTRIES_MAX

    def seal(self) -> None:
        """From now on entries only leave. They are packed, unless `pack_sealed` says otherwise."""
        body = self._open
        assert body is not None
        self._count, self._last_id = self.count, self.last_id
        self._open = None
        if _packs_sealed:
            self._packed = body.pack()
        body.data = bytes(body.data)
        if self._packed:
            self._keep_unpacked(body)

    def body(self) -> Body:
        """The entries, unpacked if need be."""
        body = self._body
        if body is None:
            body = Body.unpack(self._packed)
            self._keep_unpacked(body)
        return body

    def read_once(self) -> Body:
        """The entries for somebody who reads the whole stream: the unpacked form is not kept at hand."""
        return self._body if self._body is not None else Body.unpack(self._packed)

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

    def first_live_id(self) -> StreamID:
        """Smallest live ID; the chunk has at least one live entry."""
        position = self.head
        while self.dead is not None and position in self.dead:
            position += 1
        return self.body().id_at(position)

    def last_live_id(self) -> StreamID:
        """Largest live ID; the chunk has at least one live entry."""
        if self.dead is None:
            return self.last_id
        position = self.count - 1
        while position in self.dead:
            position -= 1
        return self.body().id_at(position)

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
