"""Lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from ..limits import Limits
from . import quicklist
from .companion import Companion
from .quicklist import Node

try:
    from .packed_texts import entries_size, packed_size
except ImportError:  # there was no C compiler at installation
    from .packed_texts_plain import entries_size, packed_size

# Bytes of the object and its attributes, and of a node without its elements.
LIST_SIZE: Final = 160
NODE_SIZE: Final = 150


class ListValue(Companion):
    """Elements in an order. Both ends are near; others are reached node by node."""

    __slots__ = ("_count", "_fill", "_is_packed", "_nodes", "_text_size")

    type_name: ClassVar[bytes] = b"list"
    type_number: ClassVar[int] = 1

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._nodes: list[Node] = []
        self._count = 0
        self._text_size = 0
        # Whether Redis keeps the list as one listpack. Then there is one node at most.
        self._is_packed = True
        # `list-max-listpack-size` as it was when the list became a quicklist.
        self._fill = limits.list_node_max

    def __len__(self) -> int:
        """Number of elements."""
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        """The elements from left to right. They must not change meanwhile."""
        for node in self._nodes:
            yield from node.elements.all()

    def nodes(self) -> list[Node]:
        """The nodes as Redis would have them."""
        return list(self._nodes)

    @property
    def encoding(self) -> bytes:
        """`listpack` or `quicklist`."""
        return b"listpack" if self._is_packed else b"quicklist"

    @property
    def memory_size(self) -> int:
        """Bytes of the list."""
        return LIST_SIZE + self._text_size + len(self._nodes) * NODE_SIZE

    # -- encodings -------------------------------------------------------------------------------

    def make_room(self, elements: list[bytes]) -> None:
        """Choose the encoding before these elements are added."""
        if not self._is_packed:
            return
        size, fill = quicklist.EMPTY_SIZE, self.limits.list_node_max
        if self._nodes:
            size = self._nodes[0].size
        if quicklist.exceeds(fill, size + sum(map(len, elements)), self._count + len(elements)):
            self._is_packed, self._fill = False, fill

    def shrink(self) -> None:
        """Choose the encoding after elements were removed: a quicklist becomes a listpack at half of its limit."""
        self._pack(2)

    def settle_encoding(self) -> None:
        """Choose the encoding of a list that was loaded."""
        if self._is_packed:
            self.make_room([])
        else:
            self._pack(1)

    def _pack(self, part: int) -> None:
        if self._is_packed or len(self._nodes) != 1 or self._nodes[0].is_plain:
            return
        fill, node = self.limits.list_node_max, self._nodes[0]
        used, limit = (node.size, quicklist.size_max(fill)) if fill < 0 else (self._count, max(fill, 1))
        self._is_packed = used <= limit // part

    def append_node(self, elements: list[bytes], is_plain: bool) -> None:
        """Add a node that was loaded, as it is. The list becomes a quicklist: see `settle_encoding`."""
        self._is_packed = False
        if elements:
            self._nodes.append(Node(elements, is_plain))
            self._note_new(elements)

    def append_elements(self, elements: list[bytes]) -> None:
        """Add elements that were loaded without a node. The list becomes a quicklist: see `settle_encoding`."""
        self._is_packed = False
        self._text_size += quicklist.add_at_end(self._nodes, self._fill, elements, False)
        self._count += len(elements)

    # -- changes ---------------------------------------------------------------------------------

    def _note_new(self, elements: list[bytes]) -> None:
        self._count += len(elements)
        self._text_size += packed_size(elements)

    def _note_removed(self, elements: list[bytes]) -> None:
        self._count -= len(elements)
        self._text_size -= packed_size(elements)

    def push_left(self, elements: list[bytes]) -> None:
        """Add elements before the first one, one after the other."""
        self._add_at_end(elements, True)

    def push_right(self, elements: list[bytes]) -> None:
        """Add elements after the last one."""
        self._add_at_end(elements, False)

    def _add_at_end(self, elements: list[bytes], at_left: bool) -> None:
        nodes = self._nodes
        self.make_room(elements)
        if not self._is_packed:
            self._text_size += quicklist.add_at_end(nodes, self._fill, elements, at_left)
            self._count += len(elements)
            return
        if not nodes:
            nodes.append(Node([]))
        if at_left:
            for element in elements:
                nodes[0].insert(0, element)
        else:
            nodes[0].extend(elements)
        self._note_new(elements)

    def pop(self, count: int, at_left: bool) -> list[bytes]:
        """Remove up to so many elements at an end, and return them as they were popped."""
        if count == 1 and self._count > 1:
            return [self._pop_one(at_left)]
        count = min(count, self._count)
        start = 0 if at_left else self._count - count
        popped = self.remove_range(start, count)
        return popped if at_left else popped[::-1]

    def _pop_one(self, at_left: bool) -> bytes:
        """Remove the element at an end, and return it. There is one."""
        nodes = self._nodes
        at = 0 if at_left else len(nodes) - 1
        node = nodes[at]
        size = len(node.elements)
        if size == 1:
            element, taken = node.elements.at(0), node.elements.packed_size
            del nodes[at]
        else:
            element, taken = node.pop(0 if at_left else size - 1)
        self._count -= 1
        self._text_size -= taken
        return element

    def remove_range(self, start: int, count: int) -> list[bytes]:
        """Remove so many elements, which are there, and return them. The encoding stays: see `shrink`."""
        if not count:
            return []
        removed: list[bytes] = []
        at, index = self._find(start)
        nodes = self._nodes
        first_whole = last_whole = at if not index else at + 1
        while len(removed) < count:
            node = nodes[at]
            end = min(index + count - len(removed), len(node.elements))
            if end - index == len(node.elements):
                removed += node.elements.all()
                last_whole = at + 1
            else:
                removed += node.remove(index, end)
            at, index = at + 1, 0
        del nodes[first_whole:last_whole]
        self._note_removed(removed)
        return removed

    def drop_range(self, start: int, count: int) -> None:
        """Like `remove_range`, but elements of whole nodes are not looked at."""
        if not count:
            return
        at, index = self._find(start)
        first_whole = at + 1 if index else at
        nodes, left = self._nodes, count
        if index:
            left -= len(self.remove_range(start, min(count, len(nodes[at].elements) - index)))
        last = first_whole
        while last < len(nodes) and len(nodes[last].elements) <= left:
            left -= len(nodes[last].elements)
            self._count -= len(nodes[last].elements)
            self._text_size -= nodes[last].elements.packed_size
            last += 1
        del nodes[first_whole:last]
        if left:
            self._note_removed(nodes[first_whole].remove(0, left))

    def _find(self, place: int) -> tuple[int, int]:
        """The index of the node that has the element at this place, and its index in the node."""
        nodes = self._nodes
        if place < self._count - place:
            for at, node in enumerate(nodes):
                if place < len(node.elements):
                    return at, place
                place -= len(node.elements)
        before = self._count
        for at in range(len(nodes) - 1, -1, -1):
            before -= len(nodes[at].elements)
            if place >= before:
                return at, place - before
        raise AssertionError

    def at(self, place: int) -> bytes:
        """The element at this place, which is there."""
        at, index = self._find(place)
        return self._nodes[at].elements.at(index)

    def between(self, start: int, count: int) -> list[bytes]:
        """So many elements from a place on. All are there."""
        if not count:
            return []
        found: list[bytes] = []
        at, index = self._find(start)
        while len(found) < count:
            elements = self._nodes[at].elements
            found += elements.between(index, min(index + count - len(found), len(elements)))
            at, index = at + 1, 0
        return found

    def replace(self, place: int, element: bytes) -> None:
        """Replace the element at this place, which is there."""
        at, index = self._find(place)
        old = self._nodes[at].elements.at(index)
        if self._is_packed:
            self._nodes[at].replace(index, element)
        else:
            quicklist.replace(self._nodes, self._fill, at, index, element)
        self._text_size += packed_size([element]) - packed_size([old])

    def insert(self, pivot: bytes, element: bytes, after: bool) -> bool:
        """Add an element next to the first one that equals `pivot`. Returns whether there is one."""
        for at, node in enumerate(self._nodes):
            index = node.elements.find(pivot)
            if index >= 0:
                if self._is_packed:
                    node.insert(index + 1 if after else index, element)
                else:
                    quicklist.insert(self._nodes, self._fill, at, index, element, after)
                self._note_new([element])
                return True
        return False

    def remove_equal(self, element: bytes, count: int, from_left: bool) -> int:
        """Remove up to so many elements equal to this one. Returns how many were removed."""
        left = count
        kept: list[Node] = []
        for node in self._nodes if from_left else self._nodes[::-1]:
            if left and element in node.elements:
                rest: list[bytes] = []
                for each in node.elements.all() if from_left else node.elements.all()[::-1]:
                    if left and each == element:
                        left -= 1
                    else:
                        rest.append(each)
                if not rest:
                    continue
                node.fill(rest if from_left else rest[::-1])
            kept.append(node)
        removed = count - left
        if removed:
            self._nodes = kept if from_left else kept[::-1]
            self._note_removed([element] * removed)
        return removed

    # -- as a whole ------------------------------------------------------------------------------

    def copy(self) -> ListValue:
        """Another list with the same elements and nodes."""
        twin = ListValue(self.limits)
        for node in self._nodes:
            twin._nodes.append(node.copy())
        twin._count, twin._text_size = self._count, self._text_size
        twin._is_packed, twin._fill = self._is_packed, self._fill
        return twin

    def heaps(self) -> list[Any]:
        """The nodes, if there are many."""
        return [self._nodes] if len(self._nodes) > 1 else []

    def check(self) -> None:
        """Assert that the parts agree. Raises AssertionError."""
        assert self._count == sum(len(node.elements) for node in self._nodes)
        assert self._text_size == packed_size(list(self))
        assert not self._is_packed or len(self._nodes) <= 1
        for node in self._nodes:
            assert len(node.elements)
            if not node.is_plain:
                assert node.size == quicklist.EMPTY_SIZE + entries_size(node.elements.all())
