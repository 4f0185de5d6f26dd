"""Hashes: fields and values one by one, or as a listpack, a ziplist or a zipmap.

With expiry times, the first of them comes first, in 8 bytes. Then a field that is alone has its time before it: 0 for
none, or 1 and the ms after the first; in a listpack its Unix time in ms comes after its value, 0 for none. Early
versions did without the first time, and had Unix times before fields.

Redis limits the number of the fields of a listpack or a ziplist, but not their sizes.

Hashes that HIMPORT made are in `imported_hashes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...store.companions.hash_value import LISTPACK, LISTPACK_EX, HashValue
from ...store.companions.integers import as_integer
from ...store.due_times import NEVER_DUE_MS
from ...store.image import Packed
from ...store.limits import Limits
from ..errors import EmptyValue, RdbError
from .imported_hashes import HASH_TEMPLATE_TYPES, encode_imported_hash, imported_hash_type, read_imported_hash
from .lengths import encode_length, encode_time_ms, read_length, read_string, read_time_ms
from .source import Source
from .texts import encode_strings, encode_timed, pack_texts, read_strings, read_timed_fields, unpack_texts
from .ziplist import unpack_ziplist, unpack_zipmap

HASH: Final = 4
HASH_ZIPMAP: Final = 9
HASH_ZIPLIST: Final = 13
HASH_LISTPACK: Final = 16
HASH_TIMES_EARLY: Final = 22
HASH_LISTPACK_EX_EARLY: Final = 23
HASH_TIMES: Final = 24
HASH_LISTPACK_EX: Final = 25
HASH_TYPES: Final = (
    HASH, HASH_ZIPMAP, HASH_ZIPLIST, HASH_LISTPACK,
    HASH_TIMES_EARLY, HASH_LISTPACK_EX_EARLY, HASH_TIMES, HASH_LISTPACK_EX,
    *HASH_TEMPLATE_TYPES,
)  # fmt: skip

# Later than any expiry time of a field: 48 bits.
NO_TIME_MS: Final = (1 << 48) - 1
SAME_FIELD: Final = "Duplicate hash fields detected"
TIME_OUT_OF_RANGE: Final = "Hash integrity check failed: a time out of range"
_LISTPACK_HEAD: Final = bytes((HASH_LISTPACK,))
_LISTPACK_EX_HEAD: Final = bytes((HASH_LISTPACK_EX,))
# Fields that are encoded at a time.
_FIELDS_AT_ONCE: Final = 128


def hash_type(value: HashValue) -> int:
    """The type byte of a hash."""
    if value.encoding == LISTPACK_EX:
        return HASH_LISTPACK_EX
    if value.encoding == LISTPACK:
        return HASH_LISTPACK
    if value.has_template:
        return imported_hash_type(value)
    return HASH if value.first_due_ms == NEVER_DUE_MS else HASH_TIMES


def packed_hash(value: HashValue) -> Packed | None:
    """A hash that is a listpack; None if it is not one."""
    encoding = value.encoding
    if encoding == LISTPACK:
        return _LISTPACK_HEAD, value.listpack() or pack_texts(value.words())
    if encoding != LISTPACK_EX:
        return None
    return _LISTPACK_EX_HEAD + _first_time(value), value.listpack() or pack_texts(_timed_words(value))


def _timed_words(value: HashValue) -> list[bytes]:
    """The fields, each with its value and its expiry time after it."""
    words: list[bytes] = []
    pairs = list(value.items())
    for pair, due_ms in zip(pairs, value.due_times([pair[0] for pair in pairs]), strict=True):
        words += (pair[0], pair[1], b"%d" % due_ms)
    return words


def encode_hash(value: HashValue, *, compress: bool) -> Iterator[bytes]:
    """Yield a hash that is not a listpack, without its type."""
    if value.has_template:
        yield from encode_imported_hash(value, compress=compress)
        return
    if value.first_due_ms < NEVER_DUE_MS:
        yield from _encode_timed(value, compress=compress)
        return
    yield encode_length(len(value))
    for words in value.word_parts(_FIELDS_AT_ONCE):
        yield encode_strings(words, compress)


def _first_time(value: HashValue) -> bytes:
    """The first expiry time; that of a hash without any is the largest time, as in Redis."""
    value.first_due(0)
    return encode_time_ms(min(value.first_due_ms, NO_TIME_MS))


def _encode_timed(value: HashValue, *, compress: bool) -> Iterator[bytes]:
    yield _first_time(value) + encode_length(len(value))
    times = value.times_by_name()
    for words in value.word_parts(_FIELDS_AT_ONCE):
        yield encode_timed(words, times, value.first_due_ms, compress)


def read_hash(source: Source, kind: int, limits: Limits) -> HashValue:
    """The hash of type `kind`. Raises RdbError."""
    if kind == HASH_LISTPACK:
        return hash_of_listpack(read_string(source), limits)
    if kind == HASH_LISTPACK_EX:
        read_time_ms(source)
        return timed_hash_of_listpack(read_string(source), limits)
    if kind == HASH_LISTPACK_EX_EARLY:
        return timed_hash_of_listpack(read_string(source), limits)
    value = HashValue(limits)
    if kind == HASH:
        count = read_length(source)
        if count > limits.hash_entries_max:
            value.become_table(count)
        while count:
            words = read_strings(source, 2 * count)
            if len(words) % 2:
                words.append(read_string(source))
            if value.set_words(words) < len(words) // 2:
                raise RdbError(SAME_FIELD)
            count -= len(words) // 2
    elif kind in (HASH_TIMES, HASH_TIMES_EARLY):
        first_ms = read_time_ms(source) if kind == HASH_TIMES else 1
        count = read_length(source)
        if count > limits.hash_entries_max:
            value.become_table(count)
            _read_timed(value, source, count, first_ms)
            count = 0
        for _ in range(count):
            after = read_length(source)
            _set_timed(value, read_string(source), read_string(source), after and after + first_ms - 1)
    elif kind in HASH_TEMPLATE_TYPES:
        value = read_imported_hash(source, kind, limits)
    else:
        words = (unpack_zipmap if kind == HASH_ZIPMAP else unpack_ziplist)(read_string(source))
        if kind == HASH_ZIPLIST:
            _fill(value, words)
        else:
            _demand_pairs(words)
            if value.set_words(words) < len(words) // 2:
                raise RdbError(SAME_FIELD)
    return _with_fields(value)


def hash_of_listpack(listpack: bytes, limits: Limits) -> HashValue:
    """The hash of a listpack without expiry times. Raises RdbError, EmptyValue."""
    value = HashValue(limits)
    if not value.load_listpack(listpack, has_times=False):
        _fill(value, unpack_texts(listpack))
    return _with_fields(value)


def timed_hash_of_listpack(listpack: bytes, limits: Limits) -> HashValue:
    """The hash of a listpack with expiry times. Raises RdbError, EmptyValue."""
    value = HashValue(limits)
    if not value.load_listpack(listpack, has_times=True):
        _fill_timed(value, unpack_texts(listpack))
    return _with_fields(value)


def _with_fields(value: HashValue) -> HashValue:
    if not len(value):
        raise EmptyValue
    return value


def _read_timed(value: HashValue, source: Source, count: int, first_ms: int) -> None:
    """Set so many fields of a hash table, all of which are new. Raises RdbError."""
    found: dict[bytes, int] = {}
    while count:
        words, times = read_timed_fields(source, count)
        if value.set_words(words) < len(times):
            raise RdbError(SAME_FIELD)
        for index, after in enumerate(times):
            due_ms = after and after + first_ms - 1
            if due_ms:
                found[words[2 * index]] = due_ms
        count -= len(times)
    if found:
        _take_times(value, found)


def _set_timed(value: HashValue, field: bytes, text: bytes, due_ms: int) -> None:
    """Set a field with its expiry time, 0 for none. Raises RdbError."""
    if not 0 <= due_ms <= NO_TIME_MS:
        raise RdbError(TIME_OUT_OF_RANGE)
    if not value.set(field, text):
        raise RdbError(SAME_FIELD)
    if due_ms:
        value.expire_at(field, due_ms)


def _demand_pairs(words: list[bytes]) -> None:
    if len(words) % 2:
        raise RdbError("Hash integrity check failed: a field without a value")


def _fill_timed(value: HashValue, words: list[bytes]) -> None:
    """Set the fields of a listpack, each with its value and its expiry time after it. Raises RdbError."""
    if len(words) % 3:
        raise RdbError("Hash integrity check failed: a field without a value or a time")
    pairs: list[bytes] = []
    found: dict[bytes, int] = {}
    for index in range(0, len(words), 3):
        pairs.append(words[index])
        pairs.append(words[index + 1])
        due_ms = _time_of(words[index + 2])
        if due_ms:
            found[words[index]] = due_ms
    _fill(value, pairs)
    value.become_listpack_ex()
    if found:
        _take_times(value, found)


def _fill(value: HashValue, words: list[bytes]) -> None:
    """Set the fields of a listpack, each with its value after it. Raises RdbError."""
    _demand_pairs(words)
    if value.fill(words) < len(words) // 2:
        raise RdbError("Hash integrity check failed: a field twice")


def _time_of(text: bytes) -> int:
    """The expiry time after a field of a listpack, 0 for none. Raises RdbError."""
    due_ms = as_integer(text)
    if due_ms is None:
        raise RdbError(TIME_OUT_OF_RANGE)
    return due_ms


def _take_times(value: HashValue, times: dict[bytes, int]) -> None:
    """Set the expiry times of fields. Raises RdbError."""
    if min(times.values()) < 0 or max(times.values()) > NO_TIME_MS:
        raise RdbError(TIME_OUT_OF_RANGE)
    value.take_times(times)
