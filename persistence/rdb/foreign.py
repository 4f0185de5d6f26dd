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
    6: "a value of an early module",
    7: "a value of a module",
}

Skip = Callable[[Source], None]

DOUBLE_SIZE: Final = 8


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


def _skip_times(count: int, source: Source, *skips: Skip) -> None:
    """Skip `count` groups of these kinds. Each takes at least a byte, so with a wrong count the data ends first."""
    while count:
        for skip in skips:
            skip(source)
        count -= 1


def _skip_double(source: Source) -> None:
    source.skip(DOUBLE_SIZE)


def _skip_length(source: Source) -> None:
    read_length(source)


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

_SKIPS: Final[dict[int, Skip]] = {
    7: _skip_module_value,
}
