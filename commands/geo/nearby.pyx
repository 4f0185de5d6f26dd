# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The members of a sorted set that are in a shape, for installations with a C compiler: `nearby_plain` in C.

Both modules behave alike and are tested by the same tests; `search` imports this one if it was built. The formulas are
those of `geohash` and `shapes`, in the same order.
"""

from libc.math cimport asin, cos, fabs, sin, sqrt
from libc.stdint cimport int64_t, uint64_t

cdef extern from "math.h":
    const double M_PI
    const double NAN

cdef double RADIANS = M_PI / 180.0
cdef double EARTH_RADIUS_METERS = 6372797.560856
cdef double LONGITUDE_MAX = 180.0
cdef double LATITUDE_MAX = 85.05112878
# Cells of a row or a column, at the step of scores.
cdef double CELLS_COUNT = <double>(1 << 26)
# Scores from here on, or below the negative of half of it, are not 64 bits.
cdef double BITS_LIMIT = 18446744073709551616.0


def add_nearby(
    list scored not None, double longitude, double latitude, double radius, double half_width, double half_height,
    list members not None, list scores not None, list distances not None, Py_ssize_t limit,
):
    """See `nearby_plain.add_nearby`."""
    cdef double size, other_longitude, other_latitude
    cdef Py_ssize_t left = limit - len(members) if limit else len(scored)
    cdef tuple pair
    for pair in scored:
        if left <= 0:
            return
        place_of(pair[1], &other_longitude, &other_latitude)
        if radius >= 0:
            size = distance(longitude, latitude, other_longitude, other_latitude)
            if size > radius:
                continue
        else:
            if latitude_distance(other_latitude, latitude) > half_height:
                continue
            if distance(other_longitude, other_latitude, longitude, other_latitude) > half_width:
                continue
            size = distance(longitude, latitude, other_longitude, other_latitude)
        members.append(pair[0])
        scores.append(pair[1])
        distances.append(size)
        left -= 1


cdef inline double latitude_distance(double one, double other) noexcept nogil:
    return EARTH_RADIUS_METERS * fabs(other * RADIANS - one * RADIANS)


cdef inline double distance(
    double longitude, double latitude, double other_longitude, double other_latitude
) noexcept nogil:
    """See `shapes.distance`."""
    cdef double v = sin((other_longitude * RADIANS - longitude * RADIANS) / 2)
    cdef double one, other, u, root
    if v == 0.0:
        return latitude_distance(latitude, other_latitude)
    one, other = latitude * RADIANS, other_latitude * RADIANS
    u = sin((other - one) / 2)
    root = sqrt(u * u + cos(one) * cos(other) * v * v)
    return 2.0 * EARTH_RADIUS_METERS * (asin(root) if root <= 1.0 else NAN)


cdef inline uint64_t gather(uint64_t bits) noexcept nogil:
    """Every second one of 64 bits, from the last one on."""
    bits &= 0x5555555555555555ULL
    bits = (bits | bits >> 1) & 0x3333333333333333ULL
    bits = (bits | bits >> 2) & 0x0F0F0F0F0F0F0F0FULL
    bits = (bits | bits >> 4) & 0x00FF00FF00FF00FFULL
    bits = (bits | bits >> 8) & 0x0000FFFF0000FFFFULL
    return (bits | bits >> 16) & 0x00000000FFFFFFFFULL


cdef inline uint64_t bits_of(double score) noexcept nogil:
    """The 64 bits of any score, as the processor converts it for Redis."""
    if 0 <= score < BITS_LIMIT:
        return <uint64_t>score
    if -BITS_LIMIT / 2 <= score < 0:
        return <uint64_t><int64_t>score
    return <uint64_t>1 << 63 if score < 0 else 0


cdef inline double middle(uint64_t cell, double largest) noexcept nogil:
    """The coordinate in the middle of a column or a row, within its limits."""
    cdef double size = largest + largest
    cdef double first = -largest + <double>cell / CELLS_COUNT * size
    cdef double last = -largest + <double>((cell + 1) & 0xFFFFFFFFULL) / CELLS_COUNT * size
    cdef double found = (first + last) / 2
    return -largest if found < -largest else largest if found > largest else found


cdef inline void place_of(double score, double *longitude, double *latitude) noexcept nogil:
    """See `geohash.place_of`."""
    cdef uint64_t bits = bits_of(score)
    longitude[0] = middle(gather(bits >> 1), LONGITUDE_MAX)
    latitude[0] = middle(gather(bits), LATITUDE_MAX)
