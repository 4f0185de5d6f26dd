"""Lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from ..class_marks import mypyc_attr
from ..limits import Limits
from ..object_sizes import COLLECTOR_SIZE
from .companion import Companion

try:
    from .quicklist import Quicklist
except ImportError:  # there was no C compiler at installation
    from .quicklist_plain import Quicklist  # type: ignore[assignment]

# Bytes of the object and its attributes, without the elements.
VALUE_SIZE: Final = 80 + COLLECTOR_SIZE


@mypyc_attr(acyclic=True)
class ListValue(Companion):
    """A list. Its `elements` are read there; what may change the encoding is done here, by the present limits."""

    __slots__ = ("elements",)

    type_name: ClassVar[bytes] = b"list"
    type_number: ClassVar[int] = 1

    def __init__(self, limits: Limits, elements: Quicklist | None = None) -> None:
        super().__init__(limits)
        self.elements: Final = Quicklist(limits.list_node_max) if elements is None else elements

    def __len__(self) -> int:
        """Number of elements."""
        return len(self.elements)

    def __iter__(self) -> Iterator[bytes]:
        """The elements from left to right. They must not change meanwhile."""
        for index in range(self.elements.nodes_count):
            yield from self.elements.node(index)

    @property
    def encoding(self) -> bytes:
        """`listpack` or `quicklist`."""
        return b"listpack" if self.elements.is_packed else b"quicklist"

    @property
    def memory_size(self) -> int:
        """Bytes of the list."""
        return VALUE_SIZE + self.elements.memory_size

    def make_room(self, element: bytes) -> None:
        """Choose the encoding before an element is added or replaced."""
        self.elements.make_room([element], self.limits.list_node_max)

    def shrink(self) -> None:
        """Choose the encoding after elements were removed: see `Quicklist.shrink`."""
        if not self.elements.is_packed:
            self.elements.shrink(self.limits.list_node_max)

    def settle_encoding(self) -> None:
        """Choose the encoding of a list that was loaded."""
        self.elements.settle(self.limits.list_node_max)

    def push_left(self, elements: list[bytes]) -> None:
        """Add elements before the first one, one after the other."""
        self.elements.push(elements, True, self.limits.list_node_max)

    def push_right(self, elements: list[bytes]) -> None:
        """Add elements after the last one."""
        self.elements.push(elements, False, self.limits.list_node_max)

    def pop(self, count: int, at_left: bool) -> list[bytes]:
        """Remove up to so many elements at an end, and return them as they were popped."""
        if count == 1:
            return [self.elements.pop(at_left)]
        count = min(count, len(self))
        if at_left:
            return self.elements.remove_range(0, count)
        return self.elements.remove_range(len(self) - count, count)[::-1]

    def pop_encoded(self, count: int, at_left: bool) -> bytes:
        """Remove `count` elements at an end, and return them as they were popped, as bulk strings."""
        start = 0 if at_left else len(self) - count
        popped = self.elements.encoded(start, count, not at_left)
        self.elements.drop_range(start, count)
        return popped

    # -- as a whole ------------------------------------------------------------------------------

    def copy(self) -> ListValue:
        """Another list with the same elements and nodes."""
        return ListValue(self.limits, self.elements.copy())

    def heaps(self) -> list[Any]:
        """The elements, if there are several nodes."""
        return [self.elements] if self.elements.nodes_count > 1 else []

    def check(self) -> None:
        """Assert that the parts agree. Raises AssertionError."""
        self.elements.check()
