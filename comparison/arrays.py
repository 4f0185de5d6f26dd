"""The pieces of arrays: the cursor, and pages of elements by index, since most indexes may be empty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from .connection import Request
from .pieces import Facts, Label, PagePiece, Piece, fitting_count, is_absent

INDEX_MAX: Final = b"18446744073709551614"
# Elements of the first page of an array, which shows how large they are.
FIRST_COUNT: Final = 64


@dataclass(frozen=True, slots=True)
class CursorPiece(Piece):
    """The index at which the next element is inserted; nothing if the last index is taken."""

    NAME: ClassVar[Label] = (b"next-insert-index",)

    def requests(self) -> list[Request]:
        return [(b"ARNEXT", self.key)]

    def facts(self, replies: Sequence[Any]) -> Facts:
        return {} if is_absent(replies[0]) else {self.NAME: replies[0]}

    def following(self, a: Facts, b: Facts) -> Iterator[Piece]:
        yield SlotsPiece(self.databases, self.key)


@dataclass(frozen=True, slots=True)
class SlotsPiece(PagePiece):
    """Elements of an array: index to element."""

    first: bytes = b"0"
    last: bytes = INDEX_MAX
    count: int = FIRST_COUNT

    @property
    def weight(self) -> int:
        return self.count

    def requests(self) -> list[Request]:
        return [(b"ARSCAN", self.key, self.first, self.last, b"LIMIT", b"%d" % self.count)]

    def facts(self, replies: Sequence[Any]) -> Facts:
        if is_absent(replies[0]):
            return {}
        # An index above the largest integer of the protocol is text.
        return {(b"%d" % int(index),): element for index, element in replies[0]}

    def following(self, a: Facts, b: Facts) -> Iterator[Piece]:
        end = self.common_horizon(a, b)
        if end is not None and end != INDEX_MAX:
            longer = max(a, b, key=len)
            count = fitting_count([[element] for element in longer.values()])
            yield replace(self, first=b"%d" % (int(end) + 1), count=count)

    def narrowed(self, labels: Sequence[Label]) -> Piece:
        return replace(self, first=labels[0][0], last=labels[-1][0], count=2 * self.count + 1)
