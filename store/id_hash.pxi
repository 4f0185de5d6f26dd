# Spreads entry IDs over the cells of an index. Included after `packed_id.pxi`.

from os import urandom

cdef u64 MS_KEY = int.from_bytes(urandom(8), "little")
cdef u64 SEQ_KEY = int.from_bytes(urandom(8), "little")


cdef inline size_t home_of(const Place *place, size_t cells_count) noexcept:
    """Return the cell of an index at which the search for an ID begins. Multiplying by odd numbers without pattern
    spreads consecutive IDs evenly, so they rarely collide. The keys are random in each process, and high bits are
    mixed into low ones before the products, so no client can choose IDs that collide."""
    cdef u64 mixed = (place.ms ^ MS_KEY) * 0x9E3779B97F4A7C15ULL
    mixed = (mixed ^ mixed >> 32) + (place.seq ^ SEQ_KEY)
    mixed = (mixed ^ mixed >> 32) * 0xD1B54A32D192ED03ULL
    mixed = (mixed ^ mixed >> 29) * 0x9E3779B97F4A7C15ULL
    return <size_t>(((mixed >> 32) * <u64>cells_count) >> 32)
