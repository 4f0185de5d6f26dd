"""The elements of a list in nodes, by the rules by which Redis splits and merges them, which DUMP shows.

The specification of `quicklist`, and its replacement where there is no C compiler.

A packed node has some elements, whose bytes in a listpack are counted; a plain node has one large element.
"""

from __future__ import annotations

from typing import Final

from ..object_sizes import REFERENCE_SIZE, text_size
from .integers import as_integer

# Bytes of a listpack without entries.
EMPTY_SIZE: Final = 7
# Bytes that Redis adds to an element to estimate its entry.
OVERHEAD: Final = 8
# Bytes of a node whose elements are limited, not its bytes.
SAFE_SIZE: Final = 8192
# Bytes of a node by `list-max-listpack-size` -1; twice as many by each further one, as far as the last.
SMALLEST_SIZE: Final = 4096
LAST_FILL: Final = -5

# Bytes of the object and its attributes, and of a node without its elements.
LIST_SIZE: Final = 192
NODE_SIZE: Final = 176


def size_max(fill: int) -> int:
    """Bytes of a node at most by this negative `list-max-listpack-size`."""
    return SMALLEST_SIZE << -max(fill, LAST_FILL) - 1


def exceeds(fill: int, size: int, count: int) -> bool:
    """Whether a node with so many bytes and elements is too large for this `list-max-listpack-size`."""
    if fill < 0:
        return size > size_max(fill)
    return size > SAFE_SIZE or count > max(fill, 1)


def is_large(fill: int, element: bytes) -> bool:
    """Whether an element has a plain node of its own."""
    return len(element) > (SAFE_SIZE if fill >= 0 else size_max(fill))


def entry_size(text: bytes) -> int:
    """Bytes of a text in a listpack of Redis."""
    number = as_integer(text)
    if number is not None:
        if 0 <= number <= 127:
            return 2
        if -4096 <= number <= 4095:
            return 3
        if -(1 << 15) <= number < 1 << 15:
            return 4
        if -(1 << 23) <= number < 1 << 23:
            return 5
        return 6 if -(1 << 31) <= number < 1 << 31 else 10
    size = len(text) + (1 if len(text) < 64 else 2 if len(text) < 4096 else 5)
    # Its length, for walking backwards, 7 bits in a byte.
    return size + (size.bit_length() + 6) // 7


class Node:
    """Some elements that follow each other."""

    __slots__ = ("elements", "is_plain", "size")

    def __init__(self, elements: list[bytes], is_plain: bool = False) -> None:
        self.elements = elements
        self.is_plain = is_plain
        # Bytes of the listpack.
        self.size = EMPTY_SIZE + sum(map(entry_size, elements))

    def copy(self) -> Node:
        """Another node with the same elements."""
        return Node(self.elements.copy(), self.is_plain)

    def allows(self, fill: int, element: bytes) -> bool:
        """Whether an element may be added."""
        if self.is_plain:
            return False
        # An element that would be large exceeds the size of a node.
        return not exceeds(fill, self.size + len(element) + OVERHEAD, len(self.elements) + 1)

    def insert(self, index: int, element: bytes) -> None:
        """Add an element before the one at this index."""
        self.elements.insert(index, element)
        self.size += entry_size(element)

    def remove(self, start: int, stop: int) -> list[bytes]:
        """Remove the elements from one index on, before another one, and return them."""
        removed = self.elements[start:stop]
        del self.elements[start:stop]
        self.size -= sum(map(entry_size, removed))
        return removed

    def split(self, index: int) -> Node:
        """Keep the elements before this index, and return a node with the others."""
        return Node(self.remove(index, len(self.elements)))


class Quicklist:
    """Elements by their places. Both ends are near; others are reached node by node.

    `fill` is always `list-max-listpack-size` as it is now.
    """

    __slots__ = ("_count", "_fill", "_nodes", "_text_size", "is_packed")

    def __init__(self, fill: int) -> None:
        self._nodes: list[Node] = []
        self._count = 0
        self._text_size = 0
        # Whether Redis keeps the list as one listpack. Then there is one node at most.
        self.is_packed = True
        # `list-max-listpack-size` as it was when the list became a quicklist.
        self._fill = fill

    def __len__(self) -> int:
        """Number of elements."""
        return self._count

    @property
    def memory_size(self) -> int:
        """Bytes of the list."""
        return LIST_SIZE + self._text_size + self._count * REFERENCE_SIZE + len(self._nodes) * NODE_SIZE

    # -- nodes -----------------------------------------------------------------------------------

    @property
    def nodes_count(self) -> int:
        """Number of nodes, as Redis would have them."""
        return len(self._nodes)

    def node(self, index: int) -> list[bytes]:
        """The elements of a node. Raises IndexError."""
        self._demand_node(index)
        return self._nodes[index].elements.copy()

    def is_plain(self, index: int) -> bool:
        """Whether a node is one large element. Raises IndexError."""
        self._demand_node(index)
        return self._nodes[index].is_plain

    def listpack(self, index: int) -> bytes | None:
        """The listpack of a node; None if it is not kept as one. Raises IndexError."""
        self._demand_node(index)
        return None

    def _demand_node(self, index: int) -> None:
        if not 0 <= index < len(self._nodes):
            raise IndexError

    def append_listpack(self, data: bytes) -> bool:
        """Add a listpack that was loaded as a node, as it is. Returns False, and adds nothing, if it cannot be kept so:
        it is damaged, or Redis would encode an element in fewer bytes. See also `append_node`."""
        return False

    def append_node(self, elements: list[bytes], is_plain: bool) -> None:
        """Add a node that was loaded, as it is. The list becomes a quicklist: see `settle`."""
        self.is_packed = False
        if elements:
            self._nodes.append(Node(elements.copy(), is_plain))
            self._note_new(elements)

    def append(self, elements: list[bytes]) -> None:
        """Add elements that were loaded without a node. The list becomes a quicklist: see `settle`."""
        self.is_packed = False
        self._add_at_end(elements, False)

    # -- encodings -------------------------------------------------------------------------------

    def make_room(self, elements: list[bytes], fill: int) -> None:
        """Choose the encoding before these elements are added."""
        if not self.is_packed:
            return
        size = self._nodes[0].size if self._nodes else EMPTY_SIZE
        if exceeds(fill, size + sum(map(len, elements)), self._count + len(elements)):
            self.is_packed, self._fill = False, fill

    def shrink(self, fill: int) -> None:
        """Choose the encoding after elements were removed: a quicklist becomes a listpack at half of its limit."""
        self._pack(fill, 2)

    def settle(self, fill: int) -> None:
        """Choose the encoding of a list that was loaded."""
        self._pack(fill, 1)

    def _pack(self, fill: int, part: int) -> None:
        if self.is_packed or len(self._nodes) != 1 or self._nodes[0].is_plain:
            return
        used, limit = (self._nodes[0].size, size_max(fill)) if fill < 0 else (self._count, max(fill, 1))
        self.is_packed = used <= limit // part

    # -- elements --------------------------------------------------------------------------------

    def at(self, place: int) -> bytes:
        """The element at a place. Raises IndexError."""
        self._demand(place, 1)
        at, index = self._find(place)
        return self._nodes[at].elements[index]

    def between(self, start: int, count: int) -> list[bytes]:
        """So many elements from a place on. Raises IndexError."""
        self._demand(start, count)
        found: list[bytes] = []
        at, index = self._find(start) if count else (0, 0)
        while len(found) < count:
            found += self._nodes[at].elements[index : index + count - len(found)]
            at, index = at + 1, 0
        return found

    def encoded(self, start: int, count: int, reverse: bool = False) -> bytes:
        """What `between` returns as bulk strings, one after the other, the last one first if `reverse` is set. Raises
        IndexError."""
        found = self.between(start, count)
        return b"".join([b"$%d\r\n%b\r\n" % (len(each), each) for each in (found[::-1] if reverse else found)])

    def places(self, element: bytes, skipped: int, count: int, seen_max: int, from_left: bool) -> list[int]:
        """The places of an element, up to so many after the first ones. At most `seen_max` elements are compared."""
        found: list[int] = []
        seen = 0
        for node in self._nodes if from_left else self._nodes[::-1]:
            for each in node.elements if from_left else node.elements[::-1]:
                if seen >= seen_max or len(found) >= count:
                    return found
                if each == element:
                    if skipped:
                        skipped -= 1
                    else:
                        found.append(seen if from_left else self._count - 1 - seen)
                seen += 1
        return found

    def _demand(self, start: int, count: int) -> None:
        if start < 0 or count < 0 or start + count > self._count:
            raise IndexError

    def _find(self, place: int) -> tuple[int, int]:
        """The index of the node that has the element at this place, and its index in the node."""
        nodes = self._nodes
        if place < self._count - place:
            at = 0
            while place >= len(nodes[at].elements):
                place -= len(nodes[at].elements)
                at += 1
            return at, place
        at, before = len(nodes), self._count
        while place < before:
            at -= 1
            before -= len(nodes[at].elements)
        return at, place - before

    # -- changes ---------------------------------------------------------------------------------

    def _note_new(self, elements: list[bytes]) -> None:
        self._count += len(elements)
        self._text_size += sum(map(text_size, elements))

    def _note_removed(self, elements: list[bytes]) -> None:
        self._count -= len(elements)
        self._text_size -= sum(map(text_size, elements))

    def push(self, elements: list[bytes], at_left: bool, fill: int) -> None:
        """Add elements at an end, one after the other."""
        self.make_room(elements, fill)
        self._add_at_end(elements, at_left)

    def _add_at_end(self, elements: list[bytes], at_left: bool) -> None:
        for element in elements:
            end = 0 if at_left else len(self._nodes) - 1
            if self._nodes and (self.is_packed or self._nodes[end].allows(self._fill, element)):
                node = self._nodes[end]
                node.insert(0 if at_left else len(node.elements), element)
            else:
                self._nodes.insert(end if at_left else end + 1, self._new_node(element))
        self._note_new(elements)

    def _new_node(self, element: bytes) -> Node:
        return Node([element], not self.is_packed and is_large(self._fill, element))

    def pop(self, at_left: bool) -> bytes:
        """Remove the element at an end, and return it. Raises IndexError."""
        return self.remove_range(0 if at_left else self._count - 1, 1)[0]

    def remove_range(self, start: int, count: int) -> list[bytes]:
        """Remove so many elements, and return them. The encoding stays: see `shrink`. Raises IndexError."""
        self._demand(start, count)
        removed: list[bytes] = []
        if not count:
            return removed
        first, index = self._find(start)
        after = first
        while len(removed) < count:
            removed += self._nodes[after].remove(index, index + count - len(removed))
            after, index = after + 1, 0
        # Of these nodes, only the first and the last one may still have elements.
        del self._nodes[first + bool(self._nodes[first].elements) : after - bool(self._nodes[after - 1].elements)]
        self._note_removed(removed)
        return removed

    def drop_range(self, start: int, count: int) -> None:
        """Like `remove_range`, but nothing is returned. Raises IndexError."""
        self.remove_range(start, count)

    def replace_at(self, place: int, element: bytes) -> None:
        """Replace the element at a place. Raises IndexError."""
        self._demand(place, 1)
        at, index = self._find(place)
        node = self._nodes[at]
        self._note_removed([node.elements[index]])
        self._note_new([element])
        large = not self.is_packed and is_large(self._fill, element)
        if not node.is_plain and not large:
            node.remove(index, index + 1)
            node.insert(index, element)
        elif not node.is_plain:
            self._replace_by_large(at, index, element)
        elif large:
            self._nodes[at] = self._new_node(element)
        else:
            self._insert(at, 0, element, True)
            del self._nodes[at]

    def _replace_by_large(self, at: int, index: int, element: bytes) -> None:
        node = self._nodes[at]
        if index + 1 < len(node.elements):
            self._nodes.insert(at + 1, node.split(index + 1))
        self._nodes.insert(at + 1, self._new_node(element))
        if len(node.elements) == 1:
            del self._nodes[at]
        else:
            node.remove(index, index + 1)
            self._merge_around(at + 1)

    def insert(self, pivot: bytes, element: bytes, after: bool) -> bool:
        """Add an element next to the first one that equals `pivot`. Returns whether there is one."""
        for at, node in enumerate(self._nodes):
            if pivot in node.elements:
                index = node.elements.index(pivot)
                if self.is_packed:
                    node.insert(index + 1 if after else index, element)
                else:
                    self._insert(at, index, element, after)
                self._note_new([element])
                return True
        return False

    def _insert(self, at: int, index: int, element: bytes, after: bool) -> None:
        """Add an element before or after the one at `index` of the node at `at`."""
        nodes, fill = self._nodes, self._fill
        node = nodes[at]
        place = index + 1 if after else index
        at_end = place == (len(node.elements) if after else 0)
        beside = at + 1 if after else at
        neighbour = at + 1 if after else at - 1
        if is_large(fill, element):
            if not node.is_plain and not at_end:
                nodes.insert(at + 1, node.split(place))
                beside = at + 1
            nodes.insert(beside, self._new_node(element))
        elif node.allows(fill, element):
            node.insert(place, element)
        elif not at_end:
            other = node.split(place)
            nodes.insert(at + 1, other)
            if after:
                other.insert(0, element)
            else:
                node.insert(len(node.elements), element)
            self._merge_around(at if after else at + 1)
        elif 0 <= neighbour < len(nodes) and nodes[neighbour].allows(fill, element):
            nodes[neighbour].insert(0 if after else len(nodes[neighbour].elements), element)
        else:
            nodes.insert(beside, self._new_node(element))

    def _merge_around(self, center: int) -> None:
        """Merge the node at this index and its neighbours, as far as Redis does."""
        if self._merge(center - 2):
            center -= 1
        self._merge(center + 1)
        if self._merge(center - 1):
            center -= 1
        self._merge(center)

    def _merge(self, at: int) -> bool:
        """Merge the node at this index and the next one if both are there and Redis allows it."""
        if at < 0 or at + 1 >= len(self._nodes):
            return False
        first, second = self._nodes[at], self._nodes[at + 1]
        count = len(first.elements) + len(second.elements)
        if first.is_plain or second.is_plain or exceeds(self._fill, first.size + second.size - EMPTY_SIZE, count):
            return False
        first.elements += second.elements
        first.size += second.size - EMPTY_SIZE
        del self._nodes[at + 1]
        return True

    def remove_equal(self, element: bytes, count: int, from_left: bool) -> int:
        """Remove up to so many elements equal to this one. Returns how many were removed."""
        left = count
        for at in range(len(self._nodes)) if from_left else range(len(self._nodes) - 1, -1, -1):
            elements = self._nodes[at].elements
            if left and element in elements:
                rest: list[bytes] = []
                for each in elements if from_left else elements[::-1]:
                    if left and each == element:
                        left -= 1
                    else:
                        rest.append(each)
                self._nodes[at] = Node(rest if from_left else rest[::-1], self._nodes[at].is_plain)
        self._nodes = [node for node in self._nodes if node.elements]
        self._note_removed([element] * (count - left))
        return count - left

    # -- as a whole ------------------------------------------------------------------------------

    def copy(self) -> Quicklist:
        """Another list with the same elements and nodes."""
        twin = Quicklist(self._fill)
        twin._nodes = [node.copy() for node in self._nodes]
        twin._count, twin._text_size, twin.is_packed = self._count, self._text_size, self.is_packed
        return twin

    def give_back(self, count: int) -> None:
        """Free the last nodes, with at least so many elements if there are as many."""
        while count > 0 and self._nodes:
            elements = self._nodes.pop().elements
            self._note_removed(elements)
            count -= len(elements)

    def check(self) -> None:
        """Assert that the parts agree. Raises AssertionError."""
        elements = self.between(0, self._count)
        assert self._count == sum(len(node.elements) for node in self._nodes)
        assert self._text_size == sum(map(text_size, elements))
        assert not self.is_packed or len(self._nodes) <= 1
        for node in self._nodes:
            assert node.elements
            assert node.size == EMPTY_SIZE + sum(map(entry_size, node.elements))
            assert not node.is_plain or len(node.elements) == 1
