"""The options of SORT and SORT_RO."""

from __future__ import annotations

from typing import Final

from ...store.errors import GenericError, syntax_error
from ..core.numbers import integer
from ..core.table import Row
from ..permissions.user import User
from .patterns import Pattern, has_star

DENIED: Final = b"%b option of SORT denied due to insufficient ACL permissions."


class SortOptions:
    """The options of one request. It is no dataclass, because a compiled dataclass is slower."""

    __slots__ = ("count", "destination", "is_alphabetic", "is_descending", "is_unsorted", "offset", "results", "weight")

    def __init__(self) -> None:
        self.is_descending = False
        # Whether texts are compared, not numbers.
        self.is_alphabetic = False
        # Index of the first element of the result, and the number of its elements; negative for all.
        self.offset = 0
        self.count = -1
        # What elements are sorted by; None for themselves.
        self.weight: Pattern | None = None
        # Whether BY has a pattern without `*`: nothing is sorted.
        self.is_unsorted = False
        # What the result has for each element; the element itself if there is none.
        self.results: Final[list[Pattern]] = []
        # Where the result is stored; None if it is returned.
        self.destination: bytes | None = None


def parse_options(row: Row, argv: list[bytes], user: User, *, may_store: bool) -> SortOptions:
    """The options after the key. The last one of a kind holds, but each GET adds a result. Raises GenericError, also if
    patterns would read keys that the user may not read."""
    options = SortOptions()
    index, last = 2, len(argv) - 1
    while index <= last:
        word = argv[index].upper()
        if word in (b"ASC", b"DESC"):
            options.is_descending = word == b"DESC"
        elif word == b"ALPHA":
            options.is_alphabetic = True
        elif word == b"LIMIT" and index + 2 <= last:
            options.offset, options.count = integer(argv[index + 1]), integer(argv[index + 2])
            index += 2
        elif word == b"STORE" and may_store and index < last:
            index += 1
            options.destination = argv[index]
        elif word == b"BY" and index < last:
            index += 1
            options.weight = Pattern(argv[index])
            if not has_star(argv[index]):
                # A later BY does not change this, as in Redis.
                options.is_unsorted = True
            elif not user.may_read_all(row, argv):
                raise GenericError(DENIED % b"BY")
        elif word == b"GET" and index < last:
            if not user.may_read_all(row, argv):
                raise GenericError(DENIED % b"GET")
            index += 1
            options.results.append(Pattern(argv[index]))
        else:
            raise syntax_error()
        index += 1
    return options
