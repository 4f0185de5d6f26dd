# Bytes that the allocator takes for a block of memory. Included by `key_table.pyx` and `companions/text_block.pxi`.

cdef enum:
    # Blocks up to this size come from Python's pools, without a header of their own.
    POOLED_SIZE_MAX = 512
    MALLOC_HEADER_SIZE = 8
    # Bytes of a byte string without its text.
    TEXT_HEADER_SIZE = 33


cdef inline size_t block_size(size_t size) noexcept:
    """Return the bytes that the allocator takes for a block."""
    if size > POOLED_SIZE_MAX:
        size += MALLOC_HEADER_SIZE
    return (size + 15) & ~<size_t>15
