"""Values of unsupported types: their names, and how to skip them.

All types that Redis can skip without understanding them are supported. Types that cannot be skipped, because their end
is unknown, only have a name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..errors import RdbError
from .lengths import read_length, skip_string
from .source import Source

# Names of the types, for error messages.
FOREIGN_TYPES: Final = {
    1: "a list",
    3: "a sorted set",
    5: "a sorted set",
    6: "a value of an early module",
    7: "a value of a module",
    10: "a list",
    12: "a sorted set",
    14: "a list",
    17: "a sorted set",
    18: "a list",
    28: "an array",
}

Skip = Callable[[Source], None]

DOUBLE_SIZE: Final = 8
# Longest text of an old score. Larger first bytes stand for NaN and the infinities.
TEXT_SIZE_MAX: Final = 252


def skip_value(source: Source, kind: int) -> bool:
    """Skip a value. Returns False if that is not possible with this type. Raises RdbError."""
    skip = _SKIPS.get(kind)
    if skip is None:
        return False
    skip(source)
    return True


def can_skip(kind: int) -> bool:
    """Whether a value of this type can be skipped."""
    return kind in _SKIPS


def _skip_strings(source: Source) -> None:
    _skip_times(read_length(source), source, skip_string)


def _skip_times(count: int, source: Source, *skips: Skip) -> None:
    """Skip `count` groups of these kinds. Each takes at least a byte, so with a wrong count the data ends first."""
    while count:
        for skip in skips:
            skip(source)
        count -= 1


def _skip_double(source: Source) -> None:
    source.skip(DOUBLE_SIZE)


def _skip_text_score(source: Source) -> None:
    size = source.byte()
    if size <= TEXT_SIZE_MAX:
        source.skip(size)


def _skip_length(source: Source) -> None:
    read_length(source)


def _skip_sorted_set(source: Source) -> None:
    _skip_times(read_length(source), source, skip_string, _skip_double)


def _skip_old_sorted_set(source: Source) -> None:
    _skip_times(read_length(source), source, skip_string, _skip_text_score)


def _skip_quicklist(source: Source) -> None:
    _skip_times(read_length(source), source, _skip_length, skip_string)


def _skip_module_value(source: Source) -> None:
    read_length(source)
    skip_module_fields(source)


def skip_module_fields(source: Source) -> None:
    """Skip the data of a module: fields, each preceded by its kind, up to a zero. Raises RdbError."""
    while kind := read_length(source):
        skip = _MODULE_FIELDS.get(kind)
        if skip is None:
            raise RdbError(f"Unknown kind {kind} of a module's field at offset {source.offset}")
        skip(source)


def _skip_array(source: Source) -> None:
    """Skip an array: its number of elements, the place of the next insertion if there is one, and for each element its
    index, its kind and its value. Raises RdbError.
    """
    count = read_length(source)
    if read_length(source):
        read_length(source)
    while count:
        read_length(source)
        kind = read_length(source)
        skip = _ARRAY_ELEMENTS.get(kind)
        if skip is None:
            raise RdbError(f"Unknown kind {kind} of an element of an array at offset {source.offset}")
        skip(source)
        count -= 1


def _skip_float(source: Source) -> None:
    source.skip(4)


# How to skip a field of each kind: signed and unsigned integers, floats, doubles, strings.
_MODULE_FIELDS: Final[dict[int, Skip]] = {
    1: _skip_length,
    2: _skip_length,
    3: _skip_float,
    4: _skip_double,
    5: skip_string,
}

# How to skip an element of an array, by kind: long strings, integers, doubles, short strings.
_ARRAY_ELEMENTS: Final[dict[int, Skip]] = {0: skip_string, 1: _skip_double, 2: _skip_double, 3: skip_string}

_SKIPS: Final[dict[int, Skip]] = {
    1: _skip_strings,
    3: _skip_old_sorted_set,
    5: _skip_sorted_set,
    7: _skip_module_value,
    **dict.fromkeys((10, 12, 17), skip_string),
    14: _skip_strings,
    18: _skip_quicklist,
    28: _skip_array,
}
