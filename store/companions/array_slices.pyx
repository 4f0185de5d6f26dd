# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The elements of an array in slices of eight-byte words, for installations with a C compiler: `array_slices_plain`
in C, without an object for each element.

Both modules behave alike and are tested by the same tests; each caller imports this one if it was built. Slices grow
and shrink as those of Redis do, which ARINFO shows.

A word is 0 if there is no element. Its last two bits say what it is:

    1   an integer of 62 bits
    2   digits with a point: `digits << 8 | number of digits after the point << 3 | whether there is a sign << 2`
    3   up to seven bytes: `bytes << 8 | their number << 2`
    0   a reference to a text: to an object if the third bit is set, otherwise to a length of 16 bits and the bytes
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.string cimport memcmp, memcpy, memmove, memset

include "../integer_text.pxi"
include "../block_size.pxi"
include "../glob_text.pxi"

ctypedef unsigned char u8
ctypedef unsigned short u16
ctypedef unsigned int u32
ctypedef unsigned long long u64
ctypedef long long i64

cdef enum:
    # Kinds of words, and the mark of a reference to an object.
    TEXT = 0
    INTEGER = 1
    DECIMAL = 2
    SHORT = 3
    KIND_MASK = 3
    OBJECT = 4
    SHORT_SIZE_MAX = 7
    INTEGER_BITS = 61
    # Sums of integers are smaller than two to this.
    SUM_BITS = 62
    # Digits of a decimal are a number of so many bits, and at most so many are after the point.
    DIGITS_BITS = 56
    FRACTION_MAX = 31
    # Bytes of the length before a text that has no object, and the longest such text: its block is from Python's pools.
    LENGTH_SIZE = 2
    PLAIN_SIZE_MAX = POOLED_SIZE_MAX - LENGTH_SIZE
    # Bytes of an encoded pair besides its text, at most.
    PAIR_FRAME_SIZE = 64
    # Characters of any word that is a number.
    NUMBER_SIZE_MAX = 40
    # `Slice.start` of a sparse slice.
    SPARSE = 0xFFFFFFFF
    # As in `array_slices_plain`.
    WINDOW_MIN = 8
    ROOM_FIRST = 4
    BLOCK_BITS = 11
    BLOCK_SLICES = 1 << BLOCK_BITS
    BLOCKS_FIRST = 4

cdef struct Slice:
    # Words follow: of a dense slice, those of its window; of a sparse one, its elements in the order of their places,
    # and then the places.
    u32 count
    u32 room
    # Place of the first word, and of the last element, of a dense slice.
    u32 start
    u32 last

cdef struct Block:
    # The slices whose numbers have the same upper bits.
    u64 number
    u32 count
    Slice **slices

cdef struct Walk:
    # Elements in a range, in one direction.
    u64 first
    u64 last
    bint descending
    # The slice that is read, how many words of it are left, and the next of them.
    u64 number
    Slice *slice
    i64 left
    i64 at
    bint is_over
    # The element that was found.
    u64 index
    u64 word


cdef inline u64 *words_of(Slice *slice) noexcept:
    return <u64 *>(slice + 1)


cdef inline u16 *places_of(Slice *slice) noexcept:
    return <u16 *>(words_of(slice) + slice.room)


cdef inline size_t bytes_of(bint is_dense, u32 room) noexcept:
    return sizeof(Slice) + room * (sizeof(u64) + (0 if is_dense else sizeof(u16)))


cdef inline u32 power_of_two(u32 number) noexcept:
    """Return the least power of two that is not less."""
    cdef u32 power = 1
    while power < number:
        power <<= 1
    return power


cdef u64 decimal_word(const char *text, Py_ssize_t size) noexcept:
    """Return the word of digits with a point, 0 for another text."""
    cdef u64 digits = 0, negative = 0
    cdef Py_ssize_t at = 0, point = -1, begin
    if size and text[0] == c'-':
        negative = at = 1
    begin = at
    if size - begin > NUMBER_SIZE_MAX - 4:
        return 0
    while at < size:
        if text[at] == c'.':
            if point >= 0:
                return 0
            point = at
        elif c'0' <= text[at] <= c'9':
            digits = digits * 10 + <u64>(text[at] - c'0')
            if digits >> DIGITS_BITS:
                return 0
        else:
            return 0
        at += 1
    # There is a digit on both sides of the point, and no zero that is not needed before it.
    if point <= begin or point == size - 1 or (text[begin] == c'0' and point > begin + 1):
        return 0
    if size - 1 - point > FRACTION_MAX:
        return 0
    return digits << 8 | <u64>(size - 1 - point) << 3 | negative << 2 | DECIMAL


cdef u64 plain_word_of(const char *text, Py_ssize_t size) noexcept:
    """Return the word of an element that refers to no text, 0 if it would."""
    cdef i64 number
    cdef u64 word = 0
    cdef Py_ssize_t at = size
    if read_integer(text, size, &number) and -(<i64>1 << INTEGER_BITS) <= number < <i64>1 << INTEGER_BITS:
        return <u64>number << 2 | INTEGER
    if size <= SHORT_SIZE_MAX:
        while at:
            at -= 1
            word = word << 8 | <u8>text[at]
        return word << 8 | <u64>size << 2 | SHORT
    return decimal_word(text, size)


cdef u64 word_of(bytes text) except? 0:
    """Return the word of an element."""
    cdef const char *data = PyBytes_AS_STRING(text)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text)
    cdef u64 word = plain_word_of(data, size)
    cdef u8 *block
    if word:
        return word
    if size > PLAIN_SIZE_MAX:
        Py_INCREF(text)
        return <u64><size_t><PyObject *>text | OBJECT
    block = <u8 *>PyMem_Malloc(size + LENGTH_SIZE)
    if block == NULL:
        raise MemoryError
    (<u16 *>block)[0] = <u16>size
    memcpy(block + LENGTH_SIZE, data, size)
    return <u64><size_t>block


cdef inline PyObject *object_of(u64 word) noexcept:
    return <PyObject *><size_t>(word & ~<u64>OBJECT)


cdef inline size_t word_weight(u64 word) noexcept:
    """Return the bytes of what a word refers to."""
    if word & KIND_MASK or not word:
        return 0
    if word & OBJECT:
        return block_size(PyBytes_GET_SIZE(<object>object_of(word)) + TEXT_HEADER_SIZE)
    return block_size((<u16 *><size_t>word)[0] + LENGTH_SIZE)


cdef inline void let_go(u64 word) noexcept:
    """Free what a word refers to."""
    if word & KIND_MASK or not word:
        return
    if word & OBJECT:
        Py_DECREF(<object>object_of(word))
    else:
        PyMem_Free(<void *><size_t>word)


cdef u64 copied_word(u64 word) noexcept:
    """Return a word of the same element that is to be freed on its own, 0 if memory is short."""
    cdef size_t size
    cdef u8 *block
    if word & KIND_MASK or not word:
        return word
    if word & OBJECT:
        Py_INCREF(<object>object_of(word))
        return word
    size = (<u16 *><size_t>word)[0] + LENGTH_SIZE
    block = <u8 *>PyMem_Malloc(size)
    if block != NULL:
        memcpy(block, <void *><size_t>word, size)
    return <u64><size_t>block


cdef Py_ssize_t view(u64 word, char *digits, const char **text) noexcept:
    """Set where the text of a word begins, which may be in `digits`. Returns its size."""
    cdef u32 kind = word & KIND_MASK
    cdef char *at = digits + NUMBER_SIZE_MAX
    cdef u64 number
    cdef i64 fraction = -1
    cdef bint is_negative
    cdef int size, index
    if kind == SHORT:
        size = word >> 2 & SHORT_SIZE_MAX
        for index in range(size):
            digits[index] = <char>(word >> 8 * (index + 1))
        text[0] = digits
        return size
    if kind == TEXT:
        if word & OBJECT:
            text[0] = PyBytes_AS_STRING(<object>object_of(word))
            return PyBytes_GET_SIZE(<object>object_of(word))
        text[0] = <char *><size_t>word + LENGTH_SIZE
        return (<u16 *><size_t>word)[0]
    if kind == INTEGER:
        is_negative = <i64>word < 0
        number = <u64>(-(<i64>word >> 2)) if is_negative else word >> 2
    else:
        is_negative = word >> 2 & 1
        fraction = word >> 3 & FRACTION_MAX
        number = word >> 8
    while True:
        at -= 1
        at[0] = c'0' + <char>(number % 10)
        number //= 10
        fraction -= 1
        if not fraction:
            at -= 1
            at[0] = c'.'
        # A digit is before the point, also if it is zero.
        if not number and fraction < 0:
            break
    if is_negative:
        at -= 1
        at[0] = c'-'
    text[0] = at
    return digits + NUMBER_SIZE_MAX - at


cdef inline object text_of(u64 word):
    """Return the element of a word."""
    cdef char digits[NUMBER_SIZE_MAX]
    cdef const char *text = NULL
    cdef Py_ssize_t size
    if word & (KIND_MASK | OBJECT) == OBJECT:
        return <object>object_of(word)
    size = view(word, digits, &text)
    return PyBytes_FromStringAndSize(text, size)


cdef inline char *write_line(char *at, char mark, u64 number) noexcept:
    """Write a line of RESP such as `:1` or `$5`. Returns where it ends."""
    cdef char digits[NUMBER_SIZE_MAX]
    cdef char *start = digits + NUMBER_SIZE_MAX
    while True:
        start -= 1
        start[0] = c'0' + <char>(number % 10)
        number //= 10
        if not number:
            break
    at[0] = mark
    at += 1
    memcpy(at, start, digits + NUMBER_SIZE_MAX - start)
    at += digits + NUMBER_SIZE_MAX - start
    at[0] = c'\r'
    at[1] = c'\n'
    return at + 2


include "array_search.pxi"
include "array_numbers.pxi"


cdef inline u32 sparse_at(Slice *slice, u32 place) noexcept:
    """Return which element of a sparse slice is the first at this place or after it."""
    cdef u16 *places = places_of(slice)
    cdef u32 low = 0, high = slice.count, middle
    while low < high:
        middle = (low + high) >> 1
        if places[middle] < place:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline u64 *find_word(Slice *slice, u32 place) noexcept:
    """Return the word at a place of a slice; NULL if there is none."""
    cdef u32 at
    if slice.start != SPARSE:
        # A place before the window is a large number here.
        at = place - slice.start
        return words_of(slice) + at if at < slice.room else NULL
    at = sparse_at(slice, place)
    return words_of(slice) + at if at < slice.count and places_of(slice)[at] == place else NULL


@cython.final
@cython.no_gc
cdef class ArraySlices:
    """See `array_slices_plain.ArraySlices`."""

    cdef u32 slice_bits
    cdef u64 count
    # Bytes of all blocks.
    cdef u64 weight
    cdef u64 slices_count
    # The largest number of a slice.
    cdef u64 number_max
    # Slices by their numbers, while all numbers are small.
    cdef Slice **flat
    cdef u64 flat_size
    # Otherwise, blocks of them in order.
    cdef Block *blocks
    cdef u32 blocks_count
    cdef u32 blocks_room

    def __init__(self, u32 slice_size):
        if slice_size < WINDOW_MIN or slice_size > 1 << 16 or slice_size & (slice_size - 1):
            raise ValueError(slice_size)
        while slice_size > 1:
            self.slice_bits += 1
            slice_size >>= 1

    def __dealloc__(self):
        while self.slices_count:
            self.drop_last()
        PyMem_Free(self.flat)
        PyMem_Free(self.blocks)

    def __len__(self):
        return self.count

    @property
    def slice_size(self):
        """See `array_slices_plain`."""
        return 1 << self.slice_bits

    @property
    def memory_size(self):
        """See `array_slices_plain`."""
        return self.weight

    @property
    def end(self):
        """See `array_slices_plain`."""
        cdef Slice *slice
        cdef u64 last
        if not self.count:
            return 0
        slice = self.slice_at(self.number_max)
        last = slice.last if slice.start != SPARSE else places_of(slice)[slice.count - 1]
        return (self.number_max << self.slice_bits | last) + 1

    # -- directory -------------------------------------------------------------------------------

    cdef u32 block_at(self, u64 number) noexcept:
        """Return which block is the first with this number or a larger one."""
        cdef u32 low = 0, high = self.blocks_count, middle
        while low < high:
            middle = (low + high) >> 1
            if self.blocks[middle].number < number:
                low = middle + 1
            else:
                high = middle
        return low

    cdef inline Slice *slice_at(self, u64 number) noexcept:
        """Return a slice by its number; NULL if there is none."""
        cdef u32 at
        if self.blocks == NULL:
            return self.flat[number] if number < self.flat_size else NULL
        at = self.block_at(number >> BLOCK_BITS)
        if at == self.blocks_count or self.blocks[at].number != number >> BLOCK_BITS:
            return NULL
        return self.blocks[at].slices[number & (BLOCK_SLICES - 1)]

    cdef bint reserve(self, u64 number) noexcept:
        """Make the directory large enough for a number. Returns whether there is memory for it."""
        cdef u64 size = self.flat_size or 1
        cdef Slice **flat
        if self.blocks == NULL and number >= BLOCK_SLICES and not self.leave_flat():
            return False
        if self.blocks != NULL or number < self.flat_size:
            return True
        while size <= number:
            size <<= 1
        flat = <Slice **>PyMem_Realloc(self.flat, size * sizeof(Slice *))
        if flat == NULL:
            return False
        memset(flat + self.flat_size, 0, (size - self.flat_size) * sizeof(Slice *))
        self.count_block(self.flat_size * sizeof(Slice *), size * sizeof(Slice *))
        self.flat, self.flat_size = flat, size
        return True

    cdef inline void count_block(self, size_t old, size_t new) noexcept:
        """Count the new size of a block of memory. 0 is no block."""
        self.weight += (block_size(new) if new else 0) - (block_size(old) if old else 0)

    cdef bint leave_flat(self) noexcept:
        """Go over to blocks."""
        cdef u32 at
        cdef Slice **slices = NULL
        cdef Block *blocks = <Block *>PyMem_Malloc(BLOCKS_FIRST * sizeof(Block))
        if self.flat_size:
            slices = <Slice **>PyMem_Calloc(BLOCK_SLICES, sizeof(Slice *))
        if blocks == NULL or (slices == NULL and self.flat_size):
            PyMem_Free(blocks)
            PyMem_Free(slices)
            return False
        self.blocks, self.blocks_room = blocks, BLOCKS_FIRST
        self.count_block(self.flat_size * sizeof(Slice *), BLOCKS_FIRST * sizeof(Block))
        if self.flat_size:
            memcpy(slices, self.flat, self.flat_size * sizeof(Slice *))
            blocks[0].number, blocks[0].count, blocks[0].slices = 0, <u32>self.slices_count, slices
            self.blocks_count = 1
            self.count_block(0, BLOCK_SLICES * sizeof(Slice *))
        PyMem_Free(self.flat)
        self.flat, self.flat_size = NULL, 0
        return True

    cdef bint set_slice(self, u64 number, Slice *slice) noexcept:
        """Put a slice into the directory, which has room for its number. Returns whether there is memory for it."""
        cdef u32 at
        cdef Block *blocks
        cdef Slice **slices
        if self.blocks == NULL:
            self.slices_count += self.flat[number] == NULL
            self.flat[number] = slice
            return True
        at = self.block_at(number >> BLOCK_BITS)
        if at == self.blocks_count or self.blocks[at].number != number >> BLOCK_BITS:
            if self.blocks_count == self.blocks_room:
                blocks = <Block *>PyMem_Realloc(self.blocks, 2 * self.blocks_room * sizeof(Block))
                if blocks == NULL:
                    return False
                self.count_block(self.blocks_room * sizeof(Block), 2 * self.blocks_room * sizeof(Block))
                self.blocks = blocks
                self.blocks_room *= 2
            slices = <Slice **>PyMem_Calloc(BLOCK_SLICES, sizeof(Slice *))
            if slices == NULL:
                return False
            self.count_block(0, BLOCK_SLICES * sizeof(Slice *))
            memmove(self.blocks + at + 1, self.blocks + at, (self.blocks_count - at) * sizeof(Block))
            self.blocks[at].number, self.blocks[at].count = number >> BLOCK_BITS, 0
            self.blocks[at].slices = slices
            self.blocks_count += 1
        slices = self.blocks[at].slices + (number & (BLOCK_SLICES - 1))
        if slices[0] == NULL:
            self.blocks[at].count += 1
            self.slices_count += 1
        slices[0] = slice
        return True

    cdef void drop_slice(self, u64 number, Slice *slice) noexcept:
        """Free a slice with its elements, and take it out of the directory."""
        cdef u32 at, words_count = slice.room if slice.start != SPARSE else slice.count
        cdef u64 *words = words_of(slice)
        self.count -= slice.count
        self.slices_count -= 1
        for at in range(words_count):
            self.weight -= word_weight(words[at])
            let_go(words[at])
        self.count_block(bytes_of(slice.start != SPARSE, slice.room), 0)
        PyMem_Free(slice)
        if self.blocks == NULL:
            self.flat[number] = NULL
            return
        at = self.block_at(number >> BLOCK_BITS)
        self.blocks[at].slices[number & (BLOCK_SLICES - 1)] = NULL
        self.blocks[at].count -= 1
        if not self.blocks[at].count:
            PyMem_Free(self.blocks[at].slices)
            self.count_block(BLOCK_SLICES * sizeof(Slice *), 0)
            self.blocks_count -= 1
            memmove(self.blocks + at, self.blocks + at + 1, (self.blocks_count - at) * sizeof(Block))

    cdef void settle(self) noexcept:
        """Find the last slice after some were dropped, and shrink the directory."""
        cdef u64 number = self.number_max, size = 1
        cdef Slice **flat
        if not self.count:
            return
        self.next_slice(&number, 0, True)
        self.number_max = number
        if self.blocks != NULL or number >= self.flat_size * 9 // 10:
            return
        while size <= number:
            size <<= 1
        if size < self.flat_size:
            flat = <Slice **>PyMem_Realloc(self.flat, size * sizeof(Slice *))
            if flat != NULL:
                self.count_block(self.flat_size * sizeof(Slice *), size * sizeof(Slice *))
                self.flat, self.flat_size = flat, size

    cdef Slice *next_slice(self, u64 *number, u64 bound, bint descending) noexcept:
        """Return the first slice from a number to a bound, and set its number; NULL if there is none."""
        cdef i64 at, stop
        cdef u64 base
        cdef i64 block
        cdef Slice **slices
        if self.blocks == NULL:
            if descending:
                at = <i64>min(number[0], self.flat_size - 1) if self.flat_size else -1
                while at >= <i64>bound:
                    if self.flat[at] != NULL:
                        number[0] = at
                        return self.flat[at]
                    at -= 1
                return NULL
            at = <i64>min(number[0], self.flat_size)
            stop = <i64>min(bound + 1, self.flat_size)
            while at < stop:
                if self.flat[at] != NULL:
                    number[0] = at
                    return self.flat[at]
                at += 1
            return NULL
        block = self.block_at(number[0] >> BLOCK_BITS)
        if descending and (block == self.blocks_count or self.blocks[block].number > number[0] >> BLOCK_BITS):
            block -= 1
        while 0 <= block < self.blocks_count:
            base = self.blocks[block].number << BLOCK_BITS
            slices = self.blocks[block].slices
            if descending:
                at = <i64>min(number[0] - base, BLOCK_SLICES - 1)
                while at >= 0 and base + at >= bound:
                    if slices[at] != NULL:
                        number[0] = base + at
                        return slices[at]
                    at -= 1
                if base <= bound:
                    return NULL
                block -= 1
            else:
                at = <i64>(number[0] - base) if number[0] > base else 0
                while at < BLOCK_SLICES and base + at <= bound:
                    if slices[at] != NULL:
                        number[0] = base + at
                        return slices[at]
                    at += 1
                if base + BLOCK_SLICES > bound:
                    return NULL
                block += 1
        return NULL

    cdef void drop_last(self) noexcept:
        """Free the last slice."""
        cdef u64 number = ~<u64>0
        cdef Slice *slice = self.next_slice(&number, 0, True)
        self.drop_slice(number, slice)
        self.number_max = number

    # -- slices ----------------------------------------------------------------------------------

    cdef Slice *new_slice(self, bint is_dense, u32 start, u32 room) noexcept:
        cdef size_t size = bytes_of(is_dense, room)
        cdef Slice *slice = <Slice *>PyMem_Malloc(size)
        if slice != NULL:
            self.count_block(0, size)
            memset(slice, 0, sizeof(Slice) + room * sizeof(u64) if is_dense else sizeof(Slice))
            slice.room, slice.start = room, start if is_dense else SPARSE
        return slice

    cdef Slice *exchange(self, u64 number, Slice *slice, Slice *new) noexcept:
        """Put a slice into the place of another one, whose words it has. Returns it, NULL if it is NULL."""
        if new != NULL:
            self.count_block(bytes_of(slice.start != SPARSE, slice.room), 0)
            PyMem_Free(slice)
            self.set_slice(number, new)
        return new

    cdef Slice *with_window(self, u64 number, Slice *slice, u32 start, u32 room) noexcept:
        """Make a slice dense with such a window, which contains all its elements. Returns it, NULL if memory is
        short."""
        cdef Slice *new
        cdef u32 at
        cdef u64 *words
        if start == slice.start:
            new = <Slice *>PyMem_Realloc(slice, bytes_of(True, room))
            if new != NULL:
                self.count_block(bytes_of(True, new.room), bytes_of(True, room))
                memset(words_of(new) + new.room, 0, (room - new.room) * sizeof(u64))
                new.room = room
                self.set_slice(number, new)
            return new
        new = self.new_slice(True, start, room)
        if new == NULL:
            return NULL
        words = words_of(new)
        new.count = slice.count
        if slice.start != SPARSE:
            memcpy(words + (slice.start - start), words_of(slice), slice.room * sizeof(u64))
            new.last = slice.last
        else:
            for at in range(slice.count):
                words[places_of(slice)[at] - start] = words_of(slice)[at]
            new.last = places_of(slice)[slice.count - 1]
        return self.exchange(number, slice, new)

    cdef Slice *with_room(self, u64 number, Slice *slice, u32 room) noexcept:
        """Make a slice sparse with such a room. Returns it, NULL if memory is short."""
        cdef Slice *new = self.new_slice(False, 0, room)
        cdef u32 at
        if new == NULL:
            return NULL
        new.count = slice.count
        if slice.start == SPARSE:
            memcpy(words_of(new), words_of(slice), slice.count * sizeof(u64))
            memcpy(places_of(new), places_of(slice), slice.count * sizeof(u16))
        else:
            new.count = 0
            for at in range(slice.room):
                if words_of(slice)[at]:
                    words_of(new)[new.count] = words_of(slice)[at]
                    places_of(new)[new.count] = <u16>(slice.start + at)
                    new.count += 1
        return self.exchange(number, slice, new)

    cdef Slice *dense(self, u64 number, Slice *slice) noexcept:
        """Make a sparse slice dense. Returns it, NULL if memory is short."""
        cdef u32 size = 1 << self.slice_bits
        cdef u32 start = places_of(slice)[0]
        cdef u32 room = max(power_of_two(places_of(slice)[slice.count - 1] - start + 1), WINDOW_MIN)
        if room >= size:
            room, start = size, 0
        return self.with_window(number, slice, min(start, size - room), room)

    cdef Slice *reach(self, u64 number, Slice *slice, u32 place) noexcept:
        """Make the window of a dense slice contain a place. Returns the slice, NULL if memory is short."""
        cdef u32 size = 1 << self.slice_bits
        cdef u32 start = slice.start, room = slice.room, end
        if place >= start + room:
            while place >= start + room and room < size:
                room <<= 1
            if room >= size:
                room, start = size, 0
            return self.with_window(number, slice, min(start, size - room), room)
        if place < start:
            end = start + room
            room = min(max(power_of_two(end - place), WINDOW_MIN), size)
            return self.with_window(number, slice, end - room if end > room and room < size else 0, room)
        return slice

    cdef Slice *sparser(self, u64 number, Slice *slice, u32 sparse_min, u32 sparse_max) noexcept:
        """Make a dense slice sparse if that is worth it. Returns the slice."""
        cdef u32 sparse_size = 32 + ((2 * sparse_min + 7) & ~7) + 8 * sparse_min
        cdef Slice *new
        if slice.count > sparse_min or slice.count > sparse_max or slice.room == WINDOW_MIN:
            return slice
        if slice.room < 4 * sparse_min or 32 + 8 * slice.room < sparse_size * 5 // 4:
            return slice
        new = self.with_room(number, slice, sparse_min)
        return slice if new == NULL else new

    cdef Slice *add_slice(self, u64 number, bint is_dense, u32 place, u32 room) noexcept:
        """Add an empty slice, dense around a place or sparse. Returns it, NULL if memory is short."""
        cdef Slice *slice = self.new_slice(is_dense, min(place, (1 << self.slice_bits) - room), room)
        if slice != NULL and not self.set_slice(number, slice):
            self.count_block(bytes_of(is_dense, room), 0)
            PyMem_Free(slice)
            return NULL
        return slice

    cdef u64 *word_for(self, u64 index, u32 sparse_max) noexcept:
        """Return the word at an index, which is made if there is none; NULL if memory is short."""
        cdef u64 number = index >> self.slice_bits
        cdef u32 place = index & ((1 << self.slice_bits) - 1), at
        cdef Slice *slice = self.slice_at(number)
        cdef u64 *words
        if slice == NULL:
            if not self.reserve(number):
                return NULL
            slice = self.add_slice(
                number, not sparse_max, place, min(sparse_max, ROOM_FIRST) if sparse_max else WINDOW_MIN
            )
            if slice == NULL:
                return NULL
        if not self.count or number > self.number_max:
            self.number_max = number
        if slice.start == SPARSE:
            at = sparse_at(slice, place)
            if at < slice.count and places_of(slice)[at] == place:
                return words_of(slice) + at
            if slice.count < sparse_max:
                if slice.count >= slice.room:
                    slice = self.with_room(number, slice, min(2 * slice.room, sparse_max))
                    if slice == NULL:
                        return NULL
                words = words_of(slice)
                memmove(words + at + 1, words + at, (slice.count - at) * sizeof(u64))
                memmove(places_of(slice) + at + 1, places_of(slice) + at, (slice.count - at) * sizeof(u16))
                places_of(slice)[at] = <u16>place
                words[at] = 0
                slice.count += 1
                return words + at
            slice = self.dense(number, slice)
            if slice == NULL:
                return NULL
        slice = self.reach(number, slice, place)
        if slice == NULL:
            return NULL
        words = words_of(slice) + (place - slice.start)
        if not words[0]:
            slice.count += 1
            slice.last = max(slice.last, place)
        return words

    cdef int set_text(self, u64 index, bytes text, u32 sparse_max) except -1:
        """Store an element. Returns whether the index was empty."""
        cdef u64 word = word_of(text)
        cdef u64 *at = self.word_for(index, sparse_max)
        cdef bint is_new
        if at == NULL:
            let_go(word)
            raise MemoryError
        is_new = not at[0]
        self.count += is_new
        self.weight += word_weight(word) - word_weight(at[0])
        let_go(at[0])
        at[0] = word
        return is_new

    cdef void prepare(self, u64 number, u32 first, u32 last, u32 sparse_max) noexcept:
        """Make a slice dense that is to get elements at all places from one to another, if it gets too many."""
        cdef Slice *slice = self.slice_at(number)
        cdef u32 at, added = last - first + 1
        if slice == NULL:
            if added > sparse_max and self.reserve(number):
                self.add_slice(number, True, first, WINDOW_MIN)
            return
        if slice.start == SPARSE:
            for at in range(slice.count):
                added -= first <= places_of(slice)[at] <= last
            if slice.count + added > sparse_max:
                self.dense(number, slice)

    cdef u32 clear(self, u64 number, Slice *slice, u32 first, u32 last, u32 sparse_min, u32 sparse_max) noexcept:
        """Remove the elements from one place to another. Returns how many there were."""
        # As in Redis, a range without an element may make a slice sparse.
        cdef u64 *words = words_of(slice)
        cdef u32 start = 0, stop, at, removed = 0
        if slice.start != SPARSE:
            start = max(first, slice.start) - slice.start
            stop = min(last + 1, slice.start + slice.room)
            stop = stop - slice.start if stop > slice.start else 0
        else:
            start, stop = sparse_at(slice, first), sparse_at(slice, last + 1)
        for at in range(start, stop):
            if words[at]:
                self.weight -= word_weight(words[at])
                let_go(words[at])
                words[at] = 0
                removed += 1
        slice.count -= removed
        self.count -= removed
        if slice.start == SPARSE:
            memmove(words + start, words + stop, (slice.count - start) * sizeof(u64))
            memmove(places_of(slice) + start, places_of(slice) + stop, (slice.count - start) * sizeof(u16))
            if not slice.count:
                self.drop_slice(number, slice)
        elif not slice.count:
            self.drop_slice(number, slice)
        else:
            while not words[slice.last - slice.start]:
                slice.last -= 1
            self.sparser(number, slice, sparse_min, sparse_max)
        return removed

    # -- walks -----------------------------------------------------------------------------------

    cdef void begin(self, Walk *walk, u64 first, u64 last, bint descending) noexcept:
        walk.first, walk.last, walk.descending = first, last, descending
        walk.number = (last if descending else first) >> self.slice_bits
        walk.slice = NULL
        walk.left = 0
        walk.is_over = first > last or not self.count

    cdef bint enter(self, Walk *walk) noexcept:
        """Go to the next slice. Returns whether there is one."""
        cdef u32 low = 0, high = (1 << self.slice_bits) - 1
        cdef u64 bound = (walk.first if walk.descending else walk.last) >> self.slice_bits
        cdef Slice *slice
        cdef i64 start, stop
        if walk.slice != NULL:
            if walk.number == bound:
                return False
            walk.number += -1 if walk.descending else 1
        slice = walk.slice = self.next_slice(&walk.number, bound, walk.descending)
        if slice == NULL:
            return False
        if walk.number == walk.first >> self.slice_bits:
            low = walk.first & high
        if walk.number == walk.last >> self.slice_bits:
            high = walk.last & ((1 << self.slice_bits) - 1)
        if slice.start != SPARSE:
            start = <i64>max(low, slice.start) - slice.start
            stop = <i64>min(high, slice.last) + 1 - slice.start
        else:
            start, stop = sparse_at(slice, low), sparse_at(slice, high + 1)
        walk.left = stop - start
        walk.at = stop - 1 if walk.descending else start
        return True

    cdef bint advance(self, Walk *walk) noexcept:
        """Go to the next element. Returns whether there is one."""
        cdef Slice *slice
        cdef u64 *words
        cdef i64 at
        while not walk.is_over:
            slice = walk.slice
            if walk.left > 0:
                words = words_of(slice)
                while walk.left > 0:
                    at = walk.at
                    walk.at += -1 if walk.descending else 1
                    walk.left -= 1
                    if words[at]:
                        walk.word = words[at]
                        walk.index = walk.number << self.slice_bits
                        walk.index |= <u64>(places_of(slice)[at] if slice.start == SPARSE else slice.start + at)
                        return True
            walk.is_over = not self.enter(walk)
        return False

    # -- reading ---------------------------------------------------------------------------------

    cdef object element(self, u64 index):
        cdef Slice *slice = self.slice_at(index >> self.slice_bits)
        cdef u64 *word
        if slice == NULL:
            return None
        word = find_word(slice, index & ((1 << self.slice_bits) - 1))
        return None if word == NULL or not word[0] else text_of(word[0])

    def at(self, u64 index):
        """See `array_slices_plain`."""
        return self.element(index)

    def many(self, list indexes not None):
        """See `array_slices_plain`."""
        cdef list found = []
        for index in indexes:
            found.append(self.element(index))
        return found

    def between(self, u64 first, u64 last):
        """See `array_slices_plain`."""
        cdef Py_ssize_t count = last - first + 1, at = 0, next
        cdef list found = PyList_New(count)
        cdef Walk walk
        self.begin(&walk, first, last, False)
        while self.advance(&walk):
            next = walk.index - first
            while at < next:
                Py_INCREF(None)
                PyList_SET_ITEM(found, at, None)
                at += 1
            text = text_of(walk.word)
            Py_INCREF(text)
            PyList_SET_ITEM(found, at, text)
            at += 1
        while at < count:
            Py_INCREF(None)
            PyList_SET_ITEM(found, at, None)
            at += 1
        return found

    def encoded_range(self, u64 first, u64 last, bint descending, bytes null not None):
        """See `array_slices_plain`."""
        cdef char digits[NUMBER_SIZE_MAX]
        cdef const char *text = NULL
        cdef const char *empty = PyBytes_AS_STRING(null)
        cdef Py_ssize_t empty_size = PyBytes_GET_SIZE(null)
        cdef char *buffer = NULL
        cdef char *grown
        cdef char *at
        cdef Py_ssize_t size, room = 0, used = 0
        # Of the indexes in their order, those that have been written, and the one of the next element.
        cdef u64 done = 0, next, count = last - first + 1
        cdef Walk walk
        cdef bint has_more = True
        try:
            self.begin(&walk, first, last, descending)
            while done < count:
                has_more = has_more and self.advance(&walk)
                next = count
                size = 0
                if has_more:
                    next = last - walk.index if descending else walk.index - first
                    size = view(walk.word, digits, &text)
                size += PAIR_FRAME_SIZE + <Py_ssize_t>(next - done) * empty_size
                if used + size > room:
                    room = 2 * room + size + 16 * PAIR_FRAME_SIZE
                    grown = <char *>PyMem_Realloc(buffer, room)
                    if grown == NULL:
                        raise MemoryError
                    buffer = grown
                at = buffer + used
                while done < next:
                    memcpy(at, empty, empty_size)
                    at += empty_size
                    done += 1
                if has_more:
                    size = view(walk.word, digits, &text)
                    at = write_line(at, c'$', size)
                    memcpy(at, text, size)
                    memcpy(at + size, b"\r\n", 2)
                    at += size + 2
                    done += 1
                used = at - buffer
            return PyBytes_FromStringAndSize(buffer, used)
        finally:
            PyMem_Free(buffer)

    def pairs(self, u64 first, u64 last, i64 count, bint descending=False):
        """See `array_slices_plain`."""
        cdef list found = []
        cdef Walk walk
        self.begin(&walk, first, last, descending)
        while count > 0 and self.advance(&walk):
            found.append([walk.index, text_of(walk.word)])
            count -= 1
        return found

    def encoded_pairs(self, u64 first, u64 last, i64 count, bint descending=False):
        """See `array_slices_plain`."""
        return self.encoded(None, first, last, count, descending, True)

    def encoded_matches(
        self, ArraySearch search not None, u64 first, u64 last, i64 count, bint descending, bint with_elements
    ):
        """See `array_slices_plain`."""
        return self.encoded(search, first, last, count, descending, with_elements)

    cdef object encoded(
        self, ArraySearch search, u64 first, u64 last, i64 count, bint descending, bint with_elements
    ):
        """Return how many elements a search finds, or how many there are without one, up to a count, and their indexes
        as replies, each in an array with the element or alone."""
        cdef char digits[NUMBER_SIZE_MAX]
        cdef const char *text = NULL
        cdef char *buffer = NULL
        cdef char *grown
        cdef char *at = NULL
        cdef Py_ssize_t size = 0, room = 0, used = 0
        cdef i64 left = count
        cdef Walk walk
        try:
            self.begin(&walk, first, last, descending)
            while left > 0 and self.advance(&walk):
                if search is not None and not search.accepts_word(walk.word):
                    continue
                if with_elements:
                    size = view(walk.word, digits, &text)
                if used + size + PAIR_FRAME_SIZE > room:
                    room = 2 * room + size + 16 * PAIR_FRAME_SIZE
                    grown = <char *>PyMem_Realloc(buffer, room)
                    if grown == NULL:
                        raise MemoryError
                    buffer = grown
                at = buffer + used
                if with_elements:
                    memcpy(at, b"*2\r\n", 4)
                    at = write_line(write_line(at + 4, c':', walk.index), c'$', size)
                    memcpy(at, text, size)
                    memcpy(at + size, b"\r\n", 2)
                    at += size + 2
                else:
                    at = write_line(at, c':', walk.index)
                used = at - buffer
                left -= 1
            return count - left, PyBytes_FromStringAndSize(buffer, used)
        finally:
            PyMem_Free(buffer)

    def count_equal(self, u64 first, u64 last, bytes text not None):
        """See `array_slices_plain`."""
        cdef ArraySearch search = ArraySearch([(EXACT, text, [])], False, False)
        cdef u64 count = 0
        cdef Walk walk
        self.begin(&walk, first, last, False)
        while self.advance(&walk):
            count += search.accepts_word(walk.word)
        return count

    def integers(self, u64 first, u64 last):
        """See `array_slices_plain`."""
        cdef u64 count = 0
        cdef i64 total = 0, least = 0, greatest = 0, all_bits = -1, any_bits = 0, odd_bits = 0, number
        cdef Walk walk
        self.begin(&walk, first, last, False)
        while self.advance(&walk):
            if walk.word & KIND_MASK != INTEGER:
                return None
            number = <i64>walk.word >> 2
            total += number
            if not -(<i64>1 << SUM_BITS) < total < <i64>1 << SUM_BITS:
                return None
            least = number if not count else min(least, number)
            greatest = number if not count else max(greatest, number)
            all_bits &= number
            any_bits |= number
            odd_bits ^= number
            count += 1
        return (total, least, greatest, all_bits, any_bits, odd_bits) if count else None

    def decimals(self, u64 first, u64 last, int operation, shortest_text):
        """See `array_slices_plain`."""
        cdef long double number = 0, result = 0
        cdef char text[RESULT_SIZE_MAX]
        cdef i64 whole, bits = 0
        cdef u64 count = 0
        cdef int kind
        cdef Walk walk
        if LDBL_MANT_DIG != LONG_DOUBLE_BITS:
            return None
        self.begin(&walk, first, last, False)
        while self.advance(&walk):
            kind = read_number(walk.word, &number)
            if kind == UNREAD:
                return None
            if kind == NO_NUMBER:
                continue
            if <long double><double>number != number:
                number = kept_number(<bytes>text_of(walk.word), number, shortest_text)
            if operation >= AND:
                # There is no fraction near the limits.
                if not -TWO_TO_63 <= number < TWO_TO_63:
                    continue
                whole = <i64>number
                if not count:
                    bits = whole
                elif operation == AND:
                    bits &= whole
                elif operation == OR:
                    bits |= whole
                else:
                    bits ^= whole
            elif not count:
                result = number
            elif operation == SUM:
                result += number
            elif number < result if operation == MIN else number > result:
                result = number
            count += 1
        if not count:
            return (None,)
        if operation >= AND:
            return (bits,)
        return (text[:snprintf(text, RESULT_SIZE_MAX, "%.17Lg", result)],)

    def texts(self, u64 first, u64 last):
        """See `array_slices_plain`."""
        cdef list found = []
        cdef Walk walk
        self.begin(&walk, first, last, False)
        while self.advance(&walk):
            found.append(text_of(walk.word))
        return found

    def count_between(self, u64 first, u64 last):
        """See `array_slices_plain`."""
        cdef u64 count = 0
        cdef Walk walk
        self.begin(&walk, first, last, False)
        while self.advance(&walk):
            count += 1
        return count

    # -- changes ---------------------------------------------------------------------------------

    def put(self, u64 index, bytes text not None, u32 sparse_max):
        """See `array_slices_plain`."""
        return bool(self.set_text(index, text, sparse_max))

    def put_all(self, u64 first, list texts not None, u32 sparse_max):
        """See `array_slices_plain`."""
        cdef u64 index = first, added = 0
        cdef u64 last = first + <u64>len(texts) - 1
        cdef u64 number, size_mask = (1 << self.slice_bits) - 1
        if len(texts) > 1 and sparse_max and self.reserve(last >> self.slice_bits):
            for number in range(first >> self.slice_bits, (last >> self.slice_bits) + 1):
                self.prepare(
                    number,
                    <u32>(first & size_mask if number == first >> self.slice_bits else 0),
                    <u32>(last & size_mask if number == last >> self.slice_bits else size_mask),
                    sparse_max,
                )
        for text in texts:
            added += self.set_text(index, text, sparse_max)
            index += 1
        return added

    def put_each(self, list indexes not None, list texts not None, u32 sparse_max):
        """See `array_slices_plain`."""
        cdef Py_ssize_t at
        cdef u64 added = 0
        if len(indexes) != len(texts):
            raise ValueError(len(texts))
        for at in range(len(indexes)):
            added += self.set_text(indexes[at], texts[at], sparse_max)
        return added

    def put_in_ring(self, u64 index, u64 size, list texts not None, u32 sparse_max):
        """See `array_slices_plain`."""
        for text in texts:
            index = index + 1 if index + 1 < size else 0
            self.set_text(index, text, sparse_max)
        return index

    def remove(self, u64 index, u32 sparse_min, u32 sparse_max):
        """See `array_slices_plain`."""
        cdef Slice *slice = self.slice_at(index >> self.slice_bits)
        cdef u64 *word = NULL
        if slice != NULL:
            word = find_word(slice, index & ((1 << self.slice_bits) - 1))
        if word == NULL or not word[0]:
            return False
        self.remove_range(index, index, sparse_min, sparse_max)
        return True

    def remove_each(self, list indexes not None, u32 sparse_min, u32 sparse_max):
        """See `array_slices_plain`."""
        cdef u64 removed = 0
        cdef u64 index
        for index in indexes:
            removed += self.remove(index, sparse_min, sparse_max)
        return removed

    def remove_range(self, u64 first, u64 last, u32 sparse_min, u32 sparse_max):
        """See `array_slices_plain`."""
        cdef u64 number = first >> self.slice_bits, bound = last >> self.slice_bits
        cdef u64 count = self.count, slices_count = self.slices_count
        cdef u32 low, high
        cdef Slice *slice
        while self.count and number <= bound:
            slice = self.next_slice(&number, bound, False)
            if slice == NULL:
                break
            low, high = 0, (1 << self.slice_bits) - 1
            if number == bound:
                high = last & high
            if number == first >> self.slice_bits:
                low = first & ((1 << self.slice_bits) - 1)
            if not low and high == (1 << self.slice_bits) - 1:
                self.drop_slice(number, slice)
            else:
                self.clear(number, slice, low, high, sparse_min, sparse_max)
            number += 1
        if self.slices_count < slices_count:
            self.settle()
        return count - self.count

    # -- as a whole ------------------------------------------------------------------------------

    def directory(self):
        """See `array_slices_plain`."""
        if self.blocks != NULL:
            return self.slices_count, self.blocks_room, self.blocks_count
        return self.slices_count, self.flat_size, 0

    def shapes(self):
        """See `array_slices_plain`."""
        cdef u64 dense_count = 0, sparse_count = 0, dense_elements = 0, dense_room = 0, sparse_room = 0
        cdef u64 number = 0
        cdef Slice *slice
        while self.slices_count:
            slice = self.next_slice(&number, self.number_max, False)
            if slice == NULL:
                break
            if slice.start != SPARSE:
                dense_count += 1
                dense_elements += slice.count
                dense_room += slice.room
            else:
                sparse_count += 1
                sparse_room += slice.room
            number += 1
        return dense_count, dense_elements, dense_room, sparse_count, sparse_room

    def copy(self):
        """See `array_slices_plain`."""
        cdef ArraySlices twin = ArraySlices.__new__(ArraySlices)
        cdef u64 number = 0
        cdef Slice *slice
        cdef Slice *new
        cdef u32 at, words_count
        twin.slice_bits = self.slice_bits
        if self.blocks != NULL:
            twin.blocks = <Block *>PyMem_Malloc(self.blocks_room * sizeof(Block))
            if twin.blocks == NULL:
                raise MemoryError
            twin.blocks_room = self.blocks_room
            twin.count_block(0, self.blocks_room * sizeof(Block))
        elif self.flat_size and not twin.reserve(self.flat_size - 1):
            raise MemoryError
        while self.count:
            slice = self.next_slice(&number, self.number_max, False)
            if slice == NULL:
                break
            new = twin.new_slice(slice.start != SPARSE, slice.start, slice.room)
            if new == NULL:
                raise MemoryError
            twin.number_max = number
            if not twin.set_slice(number, new):
                PyMem_Free(new)
                raise MemoryError
            # A slice with elements that are not copied yet is freed without them.
            new.last, new.count = slice.last, 0
            words_count = slice.room if slice.start != SPARSE else slice.count
            if slice.start == SPARSE:
                memcpy(places_of(new), places_of(slice), slice.count * sizeof(u16))
            for at in range(words_count):
                words_of(new)[at] = copied_word(words_of(slice)[at])
                if words_of(slice)[at]:
                    if not words_of(new)[at]:
                        raise MemoryError
                    twin.weight += word_weight(words_of(new)[at])
                    new.count += 1
                    twin.count += 1
            number += 1
        return twin

    def give_back(self, u64 count):
        """See `array_slices_plain`."""
        cdef u64 left = self.count - min(count, self.count)
        while self.count > left:
            self.drop_last()
        self.settle()

    def check(self):
        """See `array_slices_plain`."""
        cdef u64 number = 0, count = 0, slices_count = 0, weight = 0
        cdef Slice *slice
        cdef u32 at, words_count, slice_count
        if self.blocks != NULL:
            weight = block_size(self.blocks_room * sizeof(Block))
            weight += self.blocks_count * block_size(BLOCK_SLICES * sizeof(Slice *))
        elif self.flat_size:
            weight = block_size(self.flat_size * sizeof(Slice *))
        while slices_count < self.slices_count:
            slice = self.next_slice(&number, self.number_max, False)
            assert slice != NULL
            slices_count += 1
            weight += block_size(bytes_of(slice.start != SPARSE, slice.room))
            words_count = slice.room if slice.start != SPARSE else slice.count
            slice_count = 0
            for at in range(words_count):
                weight += word_weight(words_of(slice)[at])
                slice_count += words_of(slice)[at] != 0
                assert not at or slice.start != SPARSE or places_of(slice)[at - 1] < places_of(slice)[at]
            assert 0 < slice_count == slice.count <= slice.room
            if slice.start != SPARSE:
                assert slice.start + slice.room <= 1 << self.slice_bits and words_of(slice)[slice.last - slice.start]
            count += slice_count
            number += 1
        assert not self.count or self.slice_at(self.number_max) != NULL
        assert (count, weight) == (self.count, self.weight)
