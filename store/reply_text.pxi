# Writes parts of replies in RESP: entry IDs, and what `bulk_text.pxi` writes. Included by the `.pyx` modules, after
# `packed_id.pxi`.

include "bulk_text.pxi"

cdef enum:
    # Bytes of the longest ID as text, and as a bulk string.
    ID_TEXT_SIZE_MAX = 41
    BULK_ID_SIZE_MAX = 48


cdef inline char *write_id_before(char *end, const Place *place) noexcept:
    """Write an ID, `ms-seq`, so that it ends before `end`. Returns where it begins."""
    end = write_number_before(end, place.seq) - 1
    end[0] = c'-'
    return write_number_before(end, place.ms)


cdef inline char *write_bulk_id(char *at, const Place *place) noexcept:
    """Write an ID as a bulk string. Returns where it ends."""
    cdef char text[ID_TEXT_SIZE_MAX]
    cdef char *end = text + ID_TEXT_SIZE_MAX
    cdef char *start = write_id_before(end, place)
    return write_bulk_text(at, start, end - start)
