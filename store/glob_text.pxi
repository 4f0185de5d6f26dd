# Matches a glob pattern with a text, without an object for either: see `glob_match_plain`. Included by `glob_match.pyx`
# and `companions/array_slices.pyx`.

cdef extern from "string.h" nogil:
    # Linear in both sizes, in the libraries of GNU, musl and macOS.
    void *memmem(const void *text, size_t size, const void *part, size_t part_size)

cdef enum:
    STARS_MAX = 1000

# Redis compares signed `char`s: in a range, bytes from 0x80 on come before all others.
ctypedef const signed char *Place

# What a part of the pattern between two stars matches: `size` bytes.
cdef struct Part:
    Place end
    Py_ssize_t size
    bint is_literal


cdef inline int lowered(int char) noexcept:
    return char + 32 if c'A' <= char <= c'Z' else char


cdef inline bint is_equal(int one, int other, bint ignore_case) noexcept:
    return one == other or (ignore_case and lowered(one) == lowered(other))


cdef bint is_in_class(Place *at, Place end, int char, bint ignore_case) noexcept:
    """Whether the class that starts at `at` contains the byte. Moves `at` past the class, which may end with the
    pattern."""
    cdef Place place = at[0] + 1
    cdef bint is_negated = place < end and place[0] == c'^'
    cdef bint found = False
    cdef int low, high
    if is_negated:
        place += 1
    while place < end:
        if place[0] == c'\\' and end - place >= 2:
            place += 1
            # Redis does not ignore the case here.
            if place[0] == char:
                found = True
        elif place[0] == c']':
            break
        elif end - place >= 3 and place[1] == c'-':
            low, high = min(place[0], place[2]), max(place[0], place[2])
            if ignore_case:
                if lowered(low) <= lowered(char) <= lowered(high):
                    found = True
            elif low <= char <= high:
                found = True
            place += 2
        elif is_equal(place[0], char, ignore_case):
            found = True
        place += 1
    at[0] = place + 1 if place < end else end
    return found != is_negated


cdef inline bint takes(Place *at, Place end, int char, bint ignore_case) noexcept:
    """Whether the pattern at `at`, which is no star, matches the byte. Moves `at` past that part of the pattern."""
    if at[0][0] == c'[':
        return is_in_class(at, end, char, ignore_case)
    if at[0][0] == c'\\' and end - at[0] >= 2:
        at[0] += 1
    elif at[0][0] == c'?':
        at[0] += 1
        return True
    at[0] += 1
    return is_equal(at[0][-1], char, ignore_case)


cdef Part part_at(Place at, Place end, Py_ssize_t size_max) noexcept:
    """The part that begins at `at`. Reading stops once its size is above `size_max`."""
    cdef Part part
    part.size, part.is_literal = 0, True
    while at < end and at[0] != c'*' and part.size <= size_max:
        part.size += 1
        if at[0] == c'[':
            part.is_literal = False
            is_in_class(&at, end, 0, False)
            continue
        if at[0] == c'\\' and end - at >= 2:
            part.is_literal = False
            at += 1
        elif at[0] == c'?':
            part.is_literal = False
        at += 1
    part.end = at
    return part


cdef bint is_here(Place at, Place part_end, Place end, Place char, bint ignore_case) noexcept:
    """Whether the part from `at` to `part_end` matches the bytes from `char` on. There are at least as many bytes."""
    while at < part_end:
        if not takes(&at, end, char[0], ignore_case):
            return False
        char += 1
    return True


cdef bint is_match(Place at, Place end, Place char, Place last, bint ignore_case) noexcept:
    """Whether the pattern from `at` to `end` matches the whole text from `char` to `last`.

    The part between two stars is matched at the first place where it fits. There is no backtracking: a later place
    would only leave less text for the rest.
    """
    cdef Part part
    cdef bint is_empty = char == last
    cdef int stars_count = 0
    while at < end and at[0] != c'*':
        if char == last or not takes(&at, end, char[0], ignore_case):
            return False
        char += 1
    if at == end or is_empty:
        return at == end and char == last
    while True:
        while at < end and at[0] == c'*':
            at += 1
        if at == end:
            return True
        stars_count += 1
        part = part_at(at, end, last - char)
        if part.size > last - char or stars_count > STARS_MAX:
            return False
        if part.end == end:
            return is_here(at, end, end, last - part.size, ignore_case)
        if part.is_literal and not ignore_case:
            char = <Place> memmem(char, last - char, at, part.size)
            if char == NULL:
                return False
        else:
            while not is_here(at, part.end, end, char, ignore_case):
                char += 1
                if part.size > last - char:
                    return False
        char += part.size
        at = part.end
