# Doubles as texts in C: see `double_texts_plain`. Included by the `.pyx` modules, which define `u64` and `i64`.

from libc.math cimport fabs, floor, isinf, isnan, signbit
from libc.stdio cimport snprintf
from libc.string cimport memcpy, memset

from headrace.protocol.powers_of_ten import FIRST_POWER, POWERS_COUNT, POWERS_STEP, power_of_ten

cdef enum:
    FRACTION_BITS = 52
    EXPONENT_MASK = 0x7FF
    EXPONENT_BIAS = 1023 + FRACTION_BITS
    WORD_BITS = 64
    POWERS_MAX = 128
    PRODUCT_EXPONENT_MIN = -60
    PRODUCT_EXPONENT_MAX = -32
    WHOLE_DIGITS = 10
    DIGITS_MAX = 24
    TEXT_SIZE_MAX = 64
    TRAILING_ZEROS_MAX = 7
    PLAIN_SCALE_MAX = 4

cdef double LOG_TEN_OF_TWO = 0.30102999566398114
cdef double WHOLE_DOUBLE_MAX = 4611686018427387904.0
cdef u64 HIDDEN = <u64>1 << FRACTION_BITS
cdef u64 LOW_WORD = 0xFFFFFFFF

cdef int first_power = FIRST_POWER
cdef int powers_step = POWERS_STEP
cdef int powers_count = POWERS_COUNT
cdef u64 fractions[POWERS_MAX]
cdef int exponents[POWERS_MAX]


cdef int fill_powers() except -1:
    for index in range(powers_count):
        fractions[index], exponents[index] = power_of_ten(index)
    return 0


fill_powers()

cdef struct Digits:
    char text[DIGITS_MAX]
    int count
    # The power of ten of the last digit.
    int exponent


cdef inline u64 multiply(u64 one, u64 other) noexcept:
    """The upper 64 bits of a product, rounded."""
    cdef u64 low = (one & LOW_WORD) * (other & LOW_WORD)
    cdef u64 left = (one >> 32) * (other & LOW_WORD)
    cdef u64 right = (one & LOW_WORD) * (other >> 32)
    cdef u64 middle = (low >> 32) + (left & LOW_WORD) + (right & LOW_WORD) + (<u64>1 << 31)
    return (one >> 32) * (other >> 32) + (left >> 32) + (right >> 32) + (middle >> 32)


cdef inline void round_digits(Digits *digits, u64 delta, u64 rest, u64 step, u64 distance) noexcept:
    """Make the last digit smaller while this brings the number nearer to the double."""
    while rest < distance and delta - rest >= step and (
        rest + step < distance or distance - rest > rest + step - distance
    ):
        digits.text[digits.count - 1] -= 1
        rest += step


cdef void generate(Digits *digits, u64 upper, u64 middle, u64 delta, int point) noexcept:
    """Write the digits of a number that is less than `upper` by `delta` at most, near `middle`. `point` bits are after
    the point."""
    cdef u64 distance = upper - middle
    cdef u64 whole = upper >> point
    cdef u64 mask = (<u64>1 << point) - 1
    cdef u64 part = upper & mask
    cdef u64 divisor = 1000000000, unit = 1, rest
    cdef int scale = WHOLE_DIGITS - 1
    cdef int digit
    digits.count = 0
    while scale >= 0:
        digit = <int>(whole // divisor)
        whole %= divisor
        if digit or digits.count:
            digits.text[digits.count] = <char>(c'0' + digit)
            digits.count += 1
        rest = (whole << point) + part
        if rest <= delta:
            round_digits(digits, delta, rest, divisor << point, distance)
            digits.exponent = scale
            return
        divisor //= 10
        scale -= 1
    scale = 0
    while True:
        part *= 10
        delta *= 10
        unit *= 10
        scale -= 1
        digit = <int>(part >> point)
        part &= mask
        if digit or digits.count:
            digits.text[digits.count] = <char>(c'0' + digit)
            digits.count += 1
        if part < delta:
            round_digits(digits, delta, part, <u64>1 << point, distance * unit)
            digits.exponent = scale
            return


cdef int find_digits(Digits *digits, double number) noexcept:
    """Write the digits of a positive, finite double."""
    cdef u64 bits, fraction, upper, lower, power
    cdef int exponent, shift = 0, places, index, product_exponent
    memcpy(&bits, &number, sizeof(bits))
    fraction = bits & (HIDDEN - 1)
    exponent = <int>(bits >> FRACTION_BITS & EXPONENT_MASK)
    if exponent:
        fraction += HIDDEN
    exponent = max(exponent, 1) - EXPONENT_BIAS
    while not fraction << shift >> (WORD_BITS - 1):
        shift += 1
    places = 2 if fraction == HIDDEN else 1
    exponent -= shift
    index = (<int>(-(exponent + powers_count) * LOG_TEN_OF_TWO) - first_power) // powers_step
    while True:
        product_exponent = exponent + exponents[index] + WORD_BITS
        if product_exponent < PRODUCT_EXPONENT_MIN:
            index += 1
        elif product_exponent > PRODUCT_EXPONENT_MAX:
            index -= 1
        else:
            break
    power = fractions[index]
    upper = multiply((2 * fraction + 1) << (shift - 1), power) - 1
    lower = multiply(((fraction << places) - 1) << (shift - places), power) + 1
    generate(digits, upper, multiply(fraction << shift, power), upper - lower, -product_exponent)
    digits.exponent -= first_power + index * powers_step
    return 0


cdef Py_ssize_t write_shortest(char *at, double number) noexcept:
    """Write a finite number. Returns the size of its text."""
    cdef char *start = at
    cdef Digits digits
    cdef int scale, point
    if isnan(number):
        memcpy(at, b"nan", 3)
        return 3
    if signbit(number):
        at[0] = c'-'
        at += 1
    if number == 0:
        at[0] = c'0'
        return at + 1 - start
    if isinf(number):
        memcpy(at, b"inf", 3)
        return at + 3 - start
    find_digits(&digits, fabs(number))
    scale = digits.count + digits.exponent - 1
    if digits.exponent >= 0 and scale < digits.count + TRAILING_ZEROS_MAX:
        memcpy(at, digits.text, digits.count)
        memset(at + digits.count, c'0', digits.exponent)
        return at + digits.count + digits.exponent - start
    if digits.exponent < 0 and (digits.exponent > -TRAILING_ZEROS_MAX or -PLAIN_SCALE_MAX < scale < PLAIN_SCALE_MAX):
        point = digits.count + digits.exponent
        if point > 0:
            memcpy(at, digits.text, point)
            at[point] = c'.'
            memcpy(at + point + 1, digits.text + point, digits.count - point)
            return at + digits.count + 1 - start
        at[0] = c'0'
        at[1] = c'.'
        memset(at + 2, c'0', -point)
        memcpy(at + 2 - point, digits.text, digits.count)
        return at + 2 - point + digits.count - start
    at[0] = digits.text[0]
    at += 1
    if digits.count > 1:
        at[0] = c'.'
        memcpy(at + 1, digits.text + 1, digits.count - 1)
        at += digits.count
    return at + snprintf(at, 8, b"e%+d", scale) - start


cdef inline Py_ssize_t write_double(char *at, double number) noexcept:
    """Write a double as `double_text` returns it, in `TEXT_SIZE_MAX` bytes. Returns how many."""
    if number and fabs(number) <= WHOLE_DOUBLE_MAX and number == floor(number):
        return snprintf(at, TEXT_SIZE_MAX, b"%lld", <i64>number)
    return write_shortest(at, number)
