# Numbers of several bytes in either order. Included by the `.pyx` modules, which define `u64`.

ctypedef long long i64


cdef inline void write_little(unsigned char *at, u64 number, int size) noexcept:
    cdef int index
    for index in range(size):
        at[index] = <unsigned char>(number >> 8 * index)


cdef inline void write_big(unsigned char *at, u64 number, int size) noexcept:
    cdef int index
    for index in range(size):
        at[size - 1 - index] = <unsigned char>(number >> 8 * index)


cdef inline u64 read_little(const unsigned char *at, int size) noexcept:
    cdef u64 number = 0
    cdef int index
    for index in range(size):
        number |= <u64>at[index] << 8 * index
    return number


cdef inline u64 read_big(const unsigned char *at, int size) noexcept:
    cdef u64 number = 0
    cdef int index
    for index in range(size):
        number = number << 8 | at[index]
    return number
