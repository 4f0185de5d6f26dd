# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Places of members, in the order of their scores, for installations with a C compiler: `score_order_plain` in C,
without an object for each place.

Both modules behave alike and are tested by the same tests; `scores` imports this one if it was built.

Places are in *chunks*, blocks of up to `CHUNK_MAX` of them. A chunk is found by halving, as the first place of each is
known; within a chunk places are read one after the other, from the
end to which the score is nearer. For ranks, the places of every `GROUP_SIZE` chunks are
counted together. So each takes a few hundred steps for ten million places.
"""

cimport cython
from libc.string cimport memset

include "text_block.pxi"
include "place_text.pxi"
include "../bulk_text.pxi"

cdef enum:
    # Places of a chunk; one that has fewer than `CHUNK_MIN` is joined with a neighbour if both fit.
    CHUNK_MAX = 192
    CHUNK_MIN = 48
    # Chunks that are counted together.
    GROUP_SIZE = 64
    # Places after the first one of a range at which its end is looked for.
    NEAR_PLACES = 16
    # Bytes of the object.
    ORDER_SIZE = 64


cdef struct Spot:
    # Where a place is or would be: its chunk, its item, and the number of places before it in the chunk.
    u32 chunk
    u32 index
    u8 *item


cdef inline Py_ssize_t text_size(const u8 *item) noexcept:
    return PyBytes_GET_SIZE(<object>object_of(item)) if item[0] == LONG_SIZE else item[0]


cdef inline Py_ssize_t bulk_size(Py_ssize_t size) noexcept:
    """Bytes of a bulk string of this size."""
    cdef size_t left = <size_t>size
    # The mark, a digit, and twice CR LF.
    size += 6
    while left >= 10:
        left //= 10
        size += 1
    return size


cdef inline char *write_tail(char *at, const u8 *item, Py_ssize_t skip) noexcept:
    """Write the bytes of the text after the first `skip` ones as a bulk string. Returns where it ends."""
    cdef const char *text = <const char *>item + 1
    cdef Py_ssize_t size = text_size(item)
    if item[0] == LONG_SIZE:
        text = PyBytes_AS_STRING(<object>object_of(item))
    skip = min(skip, size)
    return write_bulk_text(at, text + skip, size - skip)


cdef const u8 *bytes_of(const u8 *item, Py_ssize_t size) except NULL:
    """The bytes of the text of an item. Raises ValueError if they are fewer than `size`."""
    cdef PyObject *text
    if item[0] != LONG_SIZE:
        if item[0] < size:
            raise ValueError("a place is too short for a score")
        return item + 1
    text = object_of(item)
    return <const u8 *>PyBytes_AS_STRING(<object>text)


cdef inline u8 *item_before(u8 *item) noexcept:
    return item - payload_size(item[-1]) - LENGTHS_SIZE


cdef inline bint is_nearer(const Needle *needle, const u8 *item, const u8 *other) noexcept:
    """Whether the score of a place that is looked for is nearer to that of an item than to that of another one before
    it, as far as can be said at once."""
    if needle.size < HEAD_SIZE or not HEAD_SIZE <= item[0] < LONG_SIZE or not HEAD_SIZE <= other[0] < LONG_SIZE:
        return False
    return head_of(item + 1) - needle.head < needle.head - head_of(other + 1)


cdef int move_items(Block *to, Block *block, u8 *item, u32 count) except -1:
    """Move so many items from one on, which are all that follow, to the end of another block."""
    cdef size_t size = block.data + block.size - item
    cdef u8 *each = item
    cdef PyObject *text
    cdef u32 long_count = 0
    cdef u64 long_size = 0
    cdef u32 left = count if block.long_count else 0
    memcpy(open_gap(to, to.data + to.size, size), item, size)
    while left:
        if each[0] == LONG_SIZE:
            text = object_of(each)
            long_count += 1
            long_size += block_size(PyBytes_GET_SIZE(<object>text) + TEXT_HEADER_SIZE)
        each += item_size(each)
        left -= 1
    to.count += count
    to.long_count += long_count
    to.long_size += long_size
    block.count -= count
    block.long_count -= long_count
    block.long_size -= long_size
    close_gap(block, item, size)
    return 0


@cython.final
@cython.no_gc
cdef class ScoreOrder:
    """See `score_order_plain.ScoreOrder`."""

    cdef Block *chunks
    cdef u32 chunks_count, chunks_room
    # Places of `GROUP_SIZE` chunks each, and the size of this table.
    cdef u32 *groups
    cdef u32 groups_room
    cdef u64 count
    # Bytes of the chunks.
    cdef u64 weight

    def __dealloc__(self):
        cdef u32 at
        for at in range(self.chunks_count):
            free_block(&self.chunks[at])
        PyMem_Free(self.chunks)
        PyMem_Free(self.groups)

    def __len__(self):
        return self.count

    @property
    def memory_size(self):
        """See `score_order_plain`."""
        return (
            ORDER_SIZE + self.weight + block_size(self.chunks_room * sizeof(Block)) + block_size(self.groups_room * sizeof(u32))
        )

    # -- chunks ----------------------------------------------------------------------------------

    cdef inline int reserve(self) except -1:
        """Make room for another chunk."""
        return self.reserve_more(1)

    cdef int reserve_more(self, u32 count) except -1:
        """Make room for so many chunks."""
        cdef size_t room
        cdef Block *chunks
        cdef u32 *groups
        if <size_t>self.chunks_count + count <= self.chunks_room:
            return 0
        room = <size_t>self.chunks_room + (self.chunks_room >> 3) + count
        if room >> 31:
            raise MemoryError
        groups = <u32 *>PyMem_Realloc(self.groups, (room // GROUP_SIZE + 1) * sizeof(u32))
        if groups == NULL:
            raise MemoryError
        self.groups, self.groups_room = groups, <u32>(room // GROUP_SIZE + 1)
        chunks = <Block *>PyMem_Realloc(self.chunks, room * sizeof(Block))
        if chunks == NULL:
            raise MemoryError
        self.chunks, self.chunks_room = chunks, <u32>room
        return 0

    cdef void count_groups(self) noexcept:
        """Count the groups anew, after chunks have moved."""
        cdef u32 at
        if self.groups != NULL:
            memset(self.groups, 0, self.groups_room * sizeof(u32))
        for at in range(self.chunks_count):
            self.groups[at // GROUP_SIZE] += self.chunks[at].count

    cdef int open_chunk(self, u32 at) except -1:
        """Make room for a chunk, which is empty, at an index."""
        self.reserve()
        memmove(self.chunks + at + 1, self.chunks + at, (self.chunks_count - at) * sizeof(Block))
        memset(self.chunks + at, 0, sizeof(Block))
        self.chunks_count += 1
        return 0

    cdef void drop_chunk(self, u32 at) noexcept:
        """Take out a chunk that is empty."""
        PyMem_Free(self.chunks[at].data)
        self.chunks_count -= 1
        memmove(self.chunks + at, self.chunks + at + 1, (self.chunks_count - at) * sizeof(Block))

    cdef int split(self, u32 at) except -1:
        """Give the second half of a full chunk a chunk of its own."""
        cdef Block *old
        self.open_chunk(at + 1)
        old = &self.chunks[at]
        self.weight -= block_weight(old)
        try:
            move_items(&self.chunks[at + 1], old, item_at(old, old.count >> 1), old.count - (old.count >> 1))
        except MemoryError:
            self.drop_chunk(at + 1)
            raise
        finally:
            self.weight += block_weight(&self.chunks[at])
        self.weight += block_weight(&self.chunks[at + 1])
        self.count_groups()
        return 0

    cdef int join(self, u32 at) except -1:
        """Join a chunk and the next one, if there is one and both fit in one."""
        cdef Block *first = &self.chunks[at]
        cdef Block *second
        if at + 1 >= self.chunks_count or first.count + self.chunks[at + 1].count > CHUNK_MAX:
            return 0
        second = &self.chunks[at + 1]
        self.weight -= block_weight(first) + block_weight(second)
        try:
            move_items(first, second, second.data, second.count)
        finally:
            self.weight += block_weight(first) + block_weight(second)
        if not second.count:
            self.drop_chunk(at + 1)
        self.count_groups()
        return 1

    cdef void tidy(self, u32 at) noexcept:
        """Drop a chunk that has become empty, or join one that has become small."""
        if not self.chunks[at].count:
            self.weight -= block_weight(&self.chunks[at])
            self.drop_chunk(at)
            self.count_groups()
        elif self.chunks[at].count < CHUNK_MIN:
            try:
                if not self.join(at) and at:
                    self.join(at - 1)
            except MemoryError:
                pass

    # -- finding ---------------------------------------------------------------------------------

    cdef Spot spot_of(self, bytes place) noexcept:
        """Where a place is or would be. There is a chunk."""
        cdef Needle needle
        cdef Spot spot
        cdef u32 low = 0, high = self.chunks_count, middle
        cdef Block *chunk
        set_needle(&needle, place)
        # The last chunk whose first place is not above the place.
        while high - low > 1:
            middle = (low + high) >> 1
            if is_less(self.chunks[middle].data, &needle):
                low = middle
            else:
                high = middle
        if high < self.chunks_count and ends_with(self.chunks[high].data, &needle, 0):
            low = high
        chunk = &self.chunks[low]
        spot.chunk, spot.index, spot.item = low, 0, chunk.data
        if low + 1 < self.chunks_count and is_nearer(&needle, self.chunks[low + 1].data, chunk.data):
            spot.index, spot.item = chunk.count, chunk.data + chunk.size
            while spot.index and not is_less(item_before(spot.item), &needle):
                spot.item = item_before(spot.item)
                spot.index -= 1
            return spot
        while spot.index < chunk.count and is_less(spot.item, &needle):
            spot.item += item_size(spot.item)
            spot.index += 1
        return spot

    cdef u64 count_before(self, u32 chunk) noexcept:
        """The number of places before a chunk."""
        cdef u64 before = 0
        cdef u32 at
        for at in range(chunk // GROUP_SIZE):
            before += self.groups[at]
        for at in range(chunk // GROUP_SIZE * GROUP_SIZE, chunk):
            before += self.chunks[at].count
        return before

    cdef Spot spot_at(self, u64 rank) noexcept:
        """Where the place of a rank is, which is there."""
        cdef Spot spot
        cdef u32 group = 0
        while rank >= self.groups[group]:
            rank -= self.groups[group]
            group += 1
        spot.chunk = group * GROUP_SIZE
        while rank >= self.chunks[spot.chunk].count:
            rank -= self.chunks[spot.chunk].count
            spot.chunk += 1
        spot.index = <u32>rank
        spot.item = item_at(&self.chunks[spot.chunk], spot.index)
        return spot

    cdef u64 rank_of(self, bytes place) noexcept:
        cdef Spot spot
        if not self.count:
            return 0
        spot = self.spot_of(place)
        return self.count_before(spot.chunk) + spot.index

    def rank(self, bytes place not None):
        """See `score_order_plain`."""
        return self.rank_of(place)

    def score_ranks(self, list ranges not None):
        """See `score_order_plain`."""
        cdef list ranks = []
        cdef tuple limits
        cdef bytes place
        cdef Spot spot
        cdef Needle needle
        cdef u64 start, stop
        cdef u32 chunk_count, near
        if not self.count:
            return ranks
        for limits in ranges:
            place = PyBytes_FromStringAndSize(NULL, SCORE_BYTES)
            write_score(<u8 *>PyBytes_AS_STRING(place), limits[0])
            spot = self.spot_of(place)
            start = self.count_before(spot.chunk) + spot.index
            place = PyBytes_FromStringAndSize(NULL, SCORE_BYTES)
            write_score(<u8 *>PyBytes_AS_STRING(place), limits[1])
            set_needle(&needle, place)
            # Most ranges have few places.
            chunk_count = self.chunks[spot.chunk].count
            near = 0
            while near < NEAR_PLACES and spot.index < chunk_count and is_less(spot.item, &needle):
                spot.item += item_size(spot.item)
                spot.index += 1
                near += 1
            if near < NEAR_PLACES and spot.index < chunk_count:
                stop = start + near
            else:
                stop = self.rank_of(place)
            if start < stop:
                ranks.append((start, stop))
        return ranks

    def between(self, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t skip=0):
        """See `score_order_plain`."""
        cdef list places = []
        cdef Spot spot
        cdef Block *chunk
        stop = min(stop, <Py_ssize_t>self.count)
        if start < 0 or start >= stop:
            return places
        spot = self.spot_at(start)
        while start < stop:
            chunk = &self.chunks[spot.chunk]
            while start < stop and spot.index < chunk.count:
                places.append(tail_of(spot.item, max(skip, 0)))
                spot.item += item_size(spot.item)
                spot.index += 1
                start += 1
            spot.chunk += 1
            spot.index = 0
            spot.item = self.chunks[spot.chunk].data if spot.chunk < self.chunks_count else NULL
        return places

    def words(self, Py_ssize_t start, Py_ssize_t stop, bint reverse):
        """See `score_order_plain`."""
        cdef list words
        cdef Spot spot
        cdef Py_ssize_t at, step = 1
        stop = min(stop, <Py_ssize_t>self.count)
        if start < 0 or start >= stop:
            return []
        words = [None] * (2 * (stop - start))
        at = 0
        if reverse:
            at, step = stop - start - 1, -1
        spot = self.spot_at(start)
        while start < stop:
            words[2 * at] = tail_of(spot.item, SCORE_BYTES)
            words[2 * at + 1] = read_score(bytes_of(spot.item, SCORE_BYTES))
            self.step(&spot)
            start += 1
            at += step
        return words

    def array(self, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t skip, bint reverse):
        """See `score_order_plain`."""
        cdef char header[INTEGER_SIZE_MAX]
        cdef Spot spot, first
        cdef Py_ssize_t left, size, header_size
        cdef bytes reply
        cdef char *at
        stop = min(stop, <Py_ssize_t>self.count)
        if start < 0 or start >= stop:
            return b"*0\r\n"
        skip = max(skip, 0)
        header_size = size = write_line(header, c'*', stop - start) - header
        first = spot = self.spot_at(start)
        for left in range(stop - start):
            size += bulk_size(max(text_size(spot.item) - skip, 0))
            self.step(&spot)
        reply = PyBytes_FromStringAndSize(NULL, size)
        at = PyBytes_AS_STRING(reply)
        memcpy(at, header, header_size)
        # Descending ones are written from the end on.
        at += size if reverse else header_size
        for left in range(stop - start):
            if reverse:
                at -= bulk_size(max(text_size(first.item) - skip, 0))
                write_tail(at, first.item, skip)
            else:
                at = write_tail(at, first.item, skip)
            self.step(&first)
        return reply

    cdef inline void step(self, Spot *spot) noexcept:
        """Go from a place to the next one, if there is one."""
        spot.item += item_size(spot.item)
        spot.index += 1
        if spot.index == self.chunks[spot.chunk].count and spot.chunk + 1 < self.chunks_count:
            spot.chunk += 1
            spot.index = 0
            spot.item = self.chunks[spot.chunk].data

    def __iter__(self):
        cdef u32 at = 0
        while at < self.chunks_count:
            yield from texts_between(&self.chunks[at], 0, self.chunks[at].count, 0)
            at += 1

    # -- changing --------------------------------------------------------------------------------

    cdef int append_place(self, bytes place) except -1:
        """Add a place after all others. Those that come in their order fill chunk after chunk."""
        cdef Block *chunk = &self.chunks[self.chunks_count - 1]
        if chunk.count == CHUNK_MAX:
            self.open_chunk(self.chunks_count)
            chunk = &self.chunks[self.chunks_count - 1]
            if not (self.chunks_count - 1) % GROUP_SIZE:
                self.groups[(self.chunks_count - 1) // GROUP_SIZE] = 0
        self.weight -= block_weight(chunk)
        try:
            insert_item(chunk, chunk.data + chunk.size, place)
        except MemoryError:
            self.weight += block_weight(chunk)
            if not chunk.count:
                self.weight -= block_weight(chunk)
                self.drop_chunk(self.chunks_count - 1)
            raise
        self.weight += block_weight(chunk)
        self.groups[(self.chunks_count - 1) // GROUP_SIZE] += 1
        self.count += 1
        return 0

    def add(self, bytes place not None):
        """See `score_order_plain`."""
        self.insert(place)

    def remove(self, bytes place not None):
        """See `score_order_plain`."""
        self.take(place)

    def put(self, bytes member not None, double score, bytes old):
        """See `score_order_plain`."""
        cdef double old_score
        if old is not None:
            old_score = unpacked_score(old)
            if old_score == score:
                return old
            self.take(place_text(old_score, member))
        self.insert(place_text(score, member))
        return packed_score(score)

    def put_new(self, list members not None, list scores not None):
        """See `score_order_plain`."""
        cdef Py_ssize_t count = len(members), index
        cdef list places, words
        cdef bytes member
        cdef double score
        if len(scores) != count:
            raise ValueError(len(scores))
        places, words = [None] * count, [None] * (2 * count)
        for index in range(count):
            member, score = members[index], scores[index]
            if member is None:
                raise TypeError("bytes were expected")
            places[index] = place_text(score, member)
            words[2 * index] = member
            words[2 * index + 1] = packed_score(score)
        # Members that come in a descending order take no time to sort.
        places.sort()
        if count > CHUNK_MIN and self.are_before_all(places):
            self.prepend_places(places)
        else:
            for place in places:
                self.insert(place)
        return words

    cdef bint are_before_all(self, list places) noexcept:
        """Whether ascending places are before all others."""
        cdef Needle needle
        if not self.chunks_count:
            return True
        set_needle(&needle, <bytes>places[len(places) - 1])
        # A place that is there already is not before itself.
        return not is_less(self.chunks[0].data, &needle) and not ends_with(self.chunks[0].data, &needle, 0)

    cdef int prepend_places(self, list places) except -1:
        """Add many ascending places before all others, in chunks of their own."""
        cdef u32 chunks_count = <u32>((len(places) + CHUNK_MAX - 1) // CHUNK_MAX), at, done = 0
        cdef Py_ssize_t start, stop, index
        cdef size_t room
        cdef Block *chunk
        self.reserve_more(chunks_count)
        memmove(self.chunks + chunks_count, self.chunks, self.chunks_count * sizeof(Block))
        memset(self.chunks, 0, chunks_count * sizeof(Block))
        self.chunks_count += chunks_count
        try:
            for at in range(chunks_count):
                start, stop = len(places) * at // chunks_count, len(places) * (at + 1) // chunks_count
                room = 0
                for index in range(start, stop):
                    room += needed_size(<bytes>places[index])
                chunk = &self.chunks[at]
                set_room(chunk, room)
                for index in range(start, stop):
                    insert_item(chunk, chunk.data + chunk.size, <bytes>places[index])
                self.weight += block_weight(chunk)
                self.count += chunk.count
                done += 1
        finally:
            while done < chunks_count:
                # There was no memory for these.
                free_block(&self.chunks[done])
                chunks_count -= 1
                self.chunks_count -= 1
                memmove(self.chunks + done, self.chunks + done + 1, (self.chunks_count - done) * sizeof(Block))
            self.count_groups()
        return 0

    cdef int insert(self, bytes place) except -1:
        """Add a place."""
        cdef Needle needle
        cdef Spot spot
        cdef Block *chunk
        if not self.chunks_count:
            self.open_chunk(0)
            self.count_groups()
        set_needle(&needle, place)
        chunk = &self.chunks[self.chunks_count - 1]
        if chunk.count and is_less(item_at(chunk, chunk.count - 1), &needle):
            self.append_place(place)
            return 0
        spot = self.spot_of(place)
        if self.chunks[spot.chunk].count == CHUNK_MAX:
            self.split(spot.chunk)
            spot = self.spot_of(place)
        chunk = &self.chunks[spot.chunk]
        self.weight -= block_weight(chunk)
        try:
            insert_item(chunk, spot.item, place)
        finally:
            self.weight += block_weight(chunk)
        self.groups[spot.chunk // GROUP_SIZE] += 1
        self.count += 1
        return 0

    cdef int take(self, bytes place) except -1:
        """Remove a place. Raises ValueError if it is not there."""
        cdef Needle needle
        cdef Spot spot
        set_needle(&needle, place)
        if self.count:
            spot = self.spot_of(place)
            if spot.index < self.chunks[spot.chunk].count and ends_with(spot.item, &needle, 0):
                self.cut(&spot, 1)
                self.tidy(spot.chunk)
                return 0
        raise ValueError(place)

    cdef void cut(self, Spot *spot, u32 count) noexcept:
        """Remove so many places of a chunk, which may then be empty or small."""
        cdef Block *chunk = &self.chunks[spot.chunk]
        self.weight -= block_weight(chunk)
        remove_items(chunk, spot.item, count)
        self.weight += block_weight(chunk)
        self.groups[spot.chunk // GROUP_SIZE] -= count
        self.count -= count

    def remove_range(self, Py_ssize_t start, Py_ssize_t stop):
        """See `score_order_plain`."""
        cdef Spot spot
        cdef Py_ssize_t left = min(stop, <Py_ssize_t>self.count) - start
        cdef Py_ssize_t count
        cdef u32 first, end
        if start < 0 or left <= 0:
            return
        spot = self.spot_at(start)
        count = self.chunks[spot.chunk].count - spot.index
        if left <= count:
            self.cut(&spot, <u32>left)
            self.tidy(spot.chunk)
            return
        first = spot.chunk
        if spot.index:
            self.cut(&spot, <u32>count)
            left -= count
            first += 1
        # Whole chunks are dropped together.
        end = first
        while left and self.chunks[end].count <= left:
            left -= self.chunks[end].count
            self.count -= self.chunks[end].count
            self.weight -= block_weight(&self.chunks[end])
            free_block(&self.chunks[end])
            end += 1
        memmove(self.chunks + first, self.chunks + end, (self.chunks_count - end) * sizeof(Block))
        self.chunks_count -= end - first
        self.count_groups()
        if left:
            spot.chunk, spot.index, spot.item = first, 0, self.chunks[first].data
            self.cut(&spot, <u32>left)
        if first < self.chunks_count:
            self.tidy(first)
        if 0 < first <= self.chunks_count:
            self.tidy(first - 1)

    def copy(self):
        """See `score_order_plain`."""
        cdef ScoreOrder twin = ScoreOrder.__new__(ScoreOrder)
        cdef u32 at
        for at in range(self.chunks_count):
            twin.open_chunk(at)
            copy_block(&twin.chunks[at], &self.chunks[at])
            twin.weight += block_weight(&twin.chunks[at])
        twin.count = self.count
        twin.count_groups()
        return twin

    def check(self):
        """See `score_order_plain`."""
        cdef u32 at
        cdef u64 count = 0, weight = 0
        places = list(self)
        assert places == sorted(places)
        for at in range(self.chunks_count):
            assert 0 < self.chunks[at].count <= CHUNK_MAX
            assert self.count_before(at) == count
            count += self.chunks[at].count
            weight += block_weight(&self.chunks[at])
        assert count == self.count == <u64>len(places)
        assert weight == self.weight
