# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Ascending IDs, for installations with a C compiler: `id_list_plain` in C.

A list of Python's numbers has each number in another place, and a search waits for the memory of each one that it
compares (benchmark row XDEL at random). Here they are in one block.
"""

from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.string cimport memcpy, memmove

include "packed_id.pxi"

cdef enum:
    # Bytes of a list without its IDs.
    LIST_SIZE = 64
    ROOM_MIN = 8


cdef class IDList:
    """Ascending IDs, in which the one that precedes an ID is found."""

    cdef Place *places
    # The IDs begin at `start`: removing the first ones moves none of the others.
    cdef Py_ssize_t start, count, room

    def __dealloc__(self):
        PyMem_Free(self.places)

    def __len__(self):
        return self.count

    def __getitem__(self, Py_ssize_t index):
        """The ID at `index`, which counts from the end if negative. Raises IndexError."""
        if index < 0:
            index += self.count
        if not 0 <= index < self.count:
            raise IndexError("no such ID")
        return make_id(&self.places[self.start + index])

    def __iter__(self):
        cdef Py_ssize_t index
        for index in range(self.count):
            yield make_id(&self.places[self.start + index])

    @property
    def memory_size(self):
        """Bytes held."""
        return LIST_SIZE + self.room * <Py_ssize_t>sizeof(Place)

    def append(self, entry_id):
        """Add an ID above all others."""
        cdef Place place
        read_place(entry_id, &place)
        if self.start + self.count == self.room:
            if self.start > self.count:
                move_to_front(self)
            else:
                take_room(self, self.room + self.room // 4 + ROOM_MIN)
        self.places[self.start + self.count] = place
        self.count += 1

    def index_of(self, entry_id):
        """Index of the last ID that is not above this one, -1 if all are."""
        cdef Place wanted
        cdef Place *here
        cdef Py_ssize_t low = self.start, high = self.start + self.count, middle
        try:
            read_place(entry_id, &wanted)
        except OverflowError:
            return self.count - 1
        while low < high:
            middle = (low + high) // 2
            here = self.places + middle
            if wanted.ms < here.ms or (wanted.ms == here.ms and wanted.seq < here.seq):
                high = middle
            else:
                low = middle + 1
        return low - self.start - 1

    def remove(self, Py_ssize_t index, Py_ssize_t count):
        """Remove the `count` IDs from `index` on. Raises IndexError if there are fewer."""
        if not 0 <= index <= index + count <= self.count:
            raise IndexError("no such IDs")
        cdef Place *first = self.places + self.start + index
        self.count -= count
        if not index:
            self.start += count
        elif count:
            memmove(first, first + count, (self.count - index) * sizeof(Place))
        if self.room > 4 * (self.count + ROOM_MIN):
            move_to_front(self)
            take_room(self, 2 * self.count)

    def copy(self):
        """An independent list of the same IDs."""
        cdef IDList twin = IDList()
        if self.count:
            take_room(twin, self.count)
            memcpy(twin.places, self.places + self.start, self.count * sizeof(Place))
            twin.count = self.count
        return twin


cdef void move_to_front(IDList ids) noexcept:
    if ids.start:
        memmove(ids.places, ids.places + ids.start, ids.count * sizeof(Place))
        ids.start = 0


cdef int take_room(IDList ids, Py_ssize_t room) except -1:
    cdef void *moved = PyMem_Realloc(ids.places, room * sizeof(Place))
    if moved == NULL:
        raise MemoryError
    ids.places, ids.room = <Place *>moved, room
    return 0
