# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The members of a sorted set that are in a shape, for installations with a C compiler: `nearby_plain` in C.

Both modules behave alike and are tested by the same tests; `search` imports this one if it was built. The formulas are
those of `geohash` and `shapes`, in the same order.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.math cimport asin, copysign, cos, fabs, isnan, llrint, sin, sqrt
from libc.stdint cimport int64_t, uint64_t

cdef extern from "math.h":
    const double INFINITY
    const double M_PI
    const double NAN

cdef enum:
    # As in `geohash` and `shapes`.
    STEP_MAX = 26
    SCORE_BITS = 2 * STEP_MAX
    NARROW_LATITUDE = 66
    NARROWER_LATITUDE = 80
    DISTANCE_SCALE = 10_000
    # Digits of a distance after the point, and characters of any distance.
    DISTANCE_DIGITS = 4
    DISTANCE_SIZE_MAX = 32

    # Characters of a geohash, and bits of each but the last one.
    TEXT_SIZE = 11
    TEXT_BITS = 5

cdef const char *ALPHABET = b"0123456789bcdefghjkmnpqrstuvwxyz"
cdef double LATITUDE_TEXT_MAX = 90.0
cdef double MERCATOR_MAX_METERS = 20037726.37
cdef double INT64_END = 9223372036854775808.0

cdef struct Cell:
    uint64_t column
    uint64_t row
    int step

cdef struct Area:
    double west
    double south
    double east
    double north

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
    cdef double size, score, other_longitude, other_latitude
    cdef Py_ssize_t left = limit - len(members) if limit else len(scored)
    cdef tuple pair
    for pair in scored:
        if left <= 0:
            break
        score = pair[1]
        find_place(score, &other_longitude, &other_latitude)
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


def place_of(double score):
    """See `geohash.place_of`."""
    cdef double longitude, latitude
    find_place(score, &longitude, &latitude)
    return longitude, latitude


def score_of(double longitude, double latitude):
    """See `geohash.score_of`."""
    cdef Cell cell = cell_of(longitude, latitude, STEP_MAX)
    return spread(cell.row) | spread(cell.column) << 1


def distance_of(double one, double other):
    """See `nearby_plain.distance_of`."""
    cdef double longitude, latitude, other_longitude, other_latitude
    find_place(one, &longitude, &latitude)
    find_place(other, &other_longitude, &other_latitude)
    return distance(longitude, latitude, other_longitude, other_latitude)


cdef inline void find_place(double score, double *longitude, double *latitude) noexcept nogil:
    cdef uint64_t bits = bits_of(score)
    longitude[0] = middle(gather(bits >> 1), LONGITUDE_MAX)
    latitude[0] = middle(gather(bits), LATITUDE_MAX)


def shown_distance(double size):
    """See `nearby_plain.shown_distance`."""
    cdef char text[DISTANCE_SIZE_MAX]
    cdef char *at = text + DISTANCE_SIZE_MAX
    cdef double scaled = size * DISTANCE_SCALE
    cdef uint64_t value = <uint64_t>1 << 63
    cdef bint is_negative = True
    cdef int digits = 0
    if fabs(scaled) < INT64_END:
        is_negative = llrint(scaled) < 0
        value = <uint64_t>llrint(fabs(scaled))
    while value or digits <= DISTANCE_DIGITS:
        if digits == DISTANCE_DIGITS:
            at -= 1
            at[0] = c'.'
        at -= 1
        at[0] = <char>(c'0' + value % 10)
        value //= 10
        digits += 1
    if is_negative:
        at -= 1
        at[0] = c'-'
    return PyBytes_FromStringAndSize(at, text + DISTANCE_SIZE_MAX - at)


cdef inline uint64_t spread(uint64_t number) noexcept nogil:
    """The 32 bits of a number, with a zero bit before each."""
    number &= 0xFFFFFFFFULL
    number = (number | number << 16) & 0x0000FFFF0000FFFFULL
    number = (number | number << 8) & 0x00FF00FF00FF00FFULL
    number = (number | number << 4) & 0x0F0F0F0F0F0F0F0FULL
    number = (number | number << 2) & 0x3333333333333333ULL
    return (number | number << 1) & 0x5555555555555555ULL


cdef inline Cell cell_of(double longitude, double latitude, int step) noexcept nogil:
    """See `geohash.cell_of`."""
    cdef Cell cell
    cdef double scale = <double>(<uint64_t>1 << step)
    cell.row = <uint64_t>((latitude + LATITUDE_MAX) / (LATITUDE_MAX + LATITUDE_MAX) * scale)
    cell.column = <uint64_t>((longitude + LONGITUDE_MAX) / (LONGITUDE_MAX + LONGITUDE_MAX) * scale)
    cell.step = step
    return cell


cdef inline Cell moved(Cell cell, int columns, int rows) noexcept nogil:
    """See `geohash.Cell.moved`."""
    cdef uint64_t mask = (<uint64_t>1 << cell.step) - 1
    if columns:
        cell.column = (cell.column + <uint64_t>columns) & mask
    if rows:
        cell.row = (cell.row + <uint64_t>rows) & mask
    return cell


cdef inline Area area_of(Cell cell) noexcept nogil:
    """See `geohash.area_of`."""
    cdef Area area
    cdef double count = <double>(<uint64_t>1 << cell.step)
    cdef double height = LATITUDE_MAX + LATITUDE_MAX, width = LONGITUDE_MAX + LONGITUDE_MAX
    area.west = -LONGITUDE_MAX + <double>cell.column / count * width
    area.south = -LATITUDE_MAX + <double>cell.row / count * height
    area.east = -LONGITUDE_MAX + <double>((cell.column + 1) & 0xFFFFFFFFULL) / count * width
    area.north = -LATITUDE_MAX + <double>((cell.row + 1) & 0xFFFFFFFFULL) / count * height
    return area


cdef inline double quotient(double number, double divisor) noexcept nogil:
    """See `shapes._quotient`."""
    if divisor != 0:
        return number / divisor
    return NAN if number == 0 or isnan(number) else copysign(INFINITY, number)


cdef Area bounds_of(
    double longitude, double latitude, double meters, double radius, double width, double height
) noexcept nogil:
    """See `shapes.Shape._bounds`."""
    cdef Area area
    cdef double rows, nearer, columns
    height = meters * (height / 2 if radius < 0 else radius)
    width = meters * (width / 2 if radius < 0 else radius)
    rows = height / EARTH_RADIUS_METERS / RADIANS
    nearer = latitude - rows if latitude < 0 else latitude + rows
    columns = quotient(width / EARTH_RADIUS_METERS, cos(nearer * RADIANS)) / RADIANS
    area.west, area.south = longitude - columns, latitude - rows
    area.east, area.north = longitude + columns, latitude + rows
    return area


cdef int step_of(double latitude, double meters, double radius, double width, double height) noexcept nogil:
    """See `shapes.Shape._step`."""
    cdef double size = sqrt((width / 2) * (width / 2) + (height / 2) * (height / 2)) if radius < 0 else radius
    cdef int step = 1
    size *= meters
    if size == 0:
        return STEP_MAX
    while size < MERCATOR_MAX_METERS:
        size *= 2
        step += 1
    step -= 2 + (fabs(latitude) > NARROW_LATITUDE) + (fabs(latitude) > NARROWER_LATITUDE)
    return max(1, min(step, STEP_MAX))


def cell_ranges(double longitude, double latitude, double meters, double radius, double width, double height):
    """See `nearby_plain.cell_ranges`."""
    cdef Area bounds = bounds_of(longitude, latitude, meters, radius, width, height)
    cdef Area area
    cdef int step = step_of(latitude, meters, radius, width, height)
    cdef Cell center = cell_of(longitude, latitude, step)
    cdef Cell cell, before
    cdef bint is_coarse, goes_north, goes_south, goes_east, goes_west, has_before = False
    cdef int *columns = [0, 0, 0, 1, -1, 1, -1, 1, -1]
    cdef int *rows = [0, 1, -1, 0, 0, 1, 1, -1, -1]
    cdef int index
    cdef list ranges = []
    if step > 1 and (
        area_of(moved(center, 0, 1)).north < bounds.north
        or area_of(moved(center, 0, -1)).south > bounds.south
        or area_of(moved(center, 1, 0)).east < bounds.east
        or area_of(moved(center, -1, 0)).west > bounds.west
    ):
        step -= 1
        center = cell_of(longitude, latitude, step)
    area = area_of(center)
    is_coarse = step < 2
    goes_north = is_coarse or not area.north > bounds.north
    goes_south = is_coarse or not area.south < bounds.south
    goes_east = is_coarse or not area.east > bounds.east
    goes_west = is_coarse or not area.west < bounds.west
    for index in range(9):
        if (
            (rows[index] > 0 and not goes_north) or (rows[index] < 0 and not goes_south)
            or (columns[index] > 0 and not goes_east) or (columns[index] < 0 and not goes_west)
        ):
            continue
        cell = moved(center, columns[index], rows[index])
        if has_before and cell.column == before.column and cell.row == before.row:
            continue
        ranges.append((first_score(cell, 0), first_score(cell, 1)))
        # As in Redis, the one in the middle is not compared.
        before, has_before = cell, index > 0
    return ranges


cdef inline double first_score(Cell cell, uint64_t cells) noexcept nogil:
    """The first score of a cell, or of the one so many after it."""
    return <double>(((spread(cell.row) | spread(cell.column) << 1) + cells) << (SCORE_BITS - 2 * cell.step))


def text_of(double score):
    """See `geohash.text_of`."""
    cdef char text[TEXT_SIZE]
    cdef double longitude, latitude
    cdef uint64_t row, column, bits
    cdef int index
    find_place(score, &longitude, &latitude)
    row = <uint64_t>((latitude + LATITUDE_TEXT_MAX) / (LATITUDE_TEXT_MAX + LATITUDE_TEXT_MAX) * CELLS_COUNT)
    column = <uint64_t>((longitude + LONGITUDE_MAX) / (LONGITUDE_MAX + LONGITUDE_MAX) * CELLS_COUNT)
    bits = spread(row) | spread(column) << 1
    for index in range(TEXT_SIZE - 1):
        text[index] = ALPHABET[bits >> (SCORE_BITS - TEXT_BITS * (index + 1)) & 31]
    text[TEXT_SIZE - 1] = c'0'
    return PyBytes_FromStringAndSize(text, TEXT_SIZE)
