# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Sums and ranks of the counts of a histogram, for installations with a C compiler: `bucket_counts_plain` in C.

Both modules behave alike and are tested by the same tests; `durations` imports this one if it was built.
"""


def summed(list counts not None, long long width):
    """See `bucket_counts_plain.summed`."""
    cdef long long total = 0, weighted = 0, count
    cdef Py_ssize_t index
    for index in range(len(counts)):
        count = counts[index]
        total += count
        weighted += count * (index * width + (width >> 1))
    return total, weighted


def ranked(list counts not None, list ranks not None):
    """See `bucket_counts_plain.ranked`."""
    cdef long long seen = 0, rank, count
    cdef Py_ssize_t index = 0, size = len(counts)
    cdef list found = []
    for each in ranks:
        rank = each
        if rank <= seen:
            index = seen = 0
        while index < size:
            count = counts[index]
            if seen + count >= rank:
                break
            seen += count
            index += 1
        found.append(index)
    return found
