"""The cursor of SCAN, and the options of the commands like it that iterate over members: HSCAN, SSCAN."""

from __future__ import annotations

from typing import Final

from ...store.errors import GenericError, syntax_error
from ...store.ids import loose_number
from .numbers import integer

COUNT_DEFAULT: Final = 10


class MemberScan:
    """The options."""

    __slots__ = ("count_hint", "has_novalues", "pattern")

    def __init__(self, pattern: bytes | None, count_hint: int, has_novalues: bool) -> None:
        # None if every member matches.
        self.pattern: Final = pattern
        self.count_hint: Final = count_hint
        self.has_novalues: Final = has_novalues


def parse_cursor(token: bytes) -> int:
    """The cursor. Raises GenericError."""
    try:
        return loose_number(token)
    except GenericError:
        raise GenericError(b"invalid cursor") from None


def parse_member_scan(argv: list[bytes]) -> MemberScan:
    """The options, which begin at index 3. Raises GenericError."""
    pattern: bytes | None = None
    count, has_novalues, index = COUNT_DEFAULT, False, 3
    while index < len(argv):
        word, has_value = argv[index].upper(), index + 1 < len(argv)
        if word == b"COUNT" and has_value:
            index += 1
            count = integer(argv[index])
            if count < 1:
                raise syntax_error()
        elif word == b"MATCH" and has_value:
            index += 1
            pattern = None if argv[index] == b"*" else argv[index]
        elif word == b"NOVALUES":
            has_novalues = True
        else:
            raise syntax_error()
        index += 1
    return MemberScan(pattern, count, has_novalues)
