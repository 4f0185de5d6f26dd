"""The nodes of a list, and the rules by which Redis splits and merges them, which DUMP shows.

A packed node has some elements, whose bytes in a listpack are counted; a plain node has one large element.
"""

from __future__ import annotations

from sys import maxsize
from typing import Final

try:
    from .packed_texts import PackedTexts, entries_size, entry_size
except ImportError:  # there was no C compiler at installation
    from .packed_texts_plain import PackedTexts, entries_size, entry_size  # type: ignore[assignment]

# Bytes of a listpack without entries.
EMPTY_SIZE: Final = 7
# Bytes that Redis adds to an element to estimate its entry.
OVERHEAD: Final = 8
# Bytes of a node whose elements are limited, not its bytes.
SAFE_SIZE: Final = 8192
# Bytes of a node by `list-max-listpack-size` -1; twice as many by each further one, as far as the last.
SMALLEST_SIZE: Final = 4096
LAST_FILL: Final = -5


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


class Node:
    """Some elements that follow each other."""

    __slots__ = ("elements", "is_plain", "size")

    def __init__(self, elements: list[bytes], is_plain: bool = False) -> None:
        self.elements = PackedTexts()
        self.elements.extend(elements)
        self.is_plain = is_plain
        # Bytes of the listpack; of a plain node, of its element.
        self.size = len(elements[0]) if is_plain else EMPTY_SIZE + entries_size(elements)

    def fill(self, elements: list[bytes]) -> None:
        """Have these elements instead of those of before."""
        self.elements = PackedTexts()
        self.elements.extend(elements)
        self.size = EMPTY_SIZE + entries_size(elements)

    def copy(self) -> Node:
        """Another node with the same elements."""
        twin = Node([])
        twin.elements, twin.is_plain, twin.size = self.elements.copy(), self.is_plain, self.size
        return twin

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

    def extend(self, elements: list[bytes]) -> None:
        """Add elements after the last one."""
        self.elements.extend(elements)
        self.size += entries_size(elements)

    def extend_within(self, fill: int, elements: list[bytes], start: int, at_left: bool) -> tuple[int, int]:
        """Add elements from index `start` of the list on, at an end, as far as `allows` holds. Returns the index after
        the last one that was added, and the bytes that they take."""
        if self.is_plain:
            return start, 0
        room = size_max(fill) if fill < 0 else SAFE_SIZE
        count_max = maxsize if fill < 0 else max(fill, 1)
        stop, self.size, added = self.elements.extend_within(elements, start, at_left, self.size, room, count_max)
        return stop, added

    def remove(self, start: int, stop: int) -> list[bytes]:
        """Remove the elements from one index on, before another one, and return them."""
        removed = self.elements.between(start, stop)
        self.elements.remove(start, stop)
        self.size -= entries_size(removed)
        return removed

    def pop(self, index: int) -> tuple[bytes, int]:
        """Remove the element at this index. Returns it, and the bytes that it took."""
        element, size, taken = self.elements.pop_text(index)
        self.size -= size
        return element, taken

    def replace(self, index: int, element: bytes) -> None:
        """Replace the element at this index."""
        self.size += entry_size(element) - entry_size(self.elements.at(index))
        self.elements.put(index, element)

    def split(self, index: int) -> Node:
        """Keep the elements before this index, and return a node with the others."""
        return Node(self.remove(index, len(self.elements)))


def _may_merge(fill: int, first: Node, second: Node) -> bool:
    if first.is_plain or second.is_plain:
        return False
    count = len(first.elements) + len(second.elements)
    return not exceeds(fill, first.size + second.size - EMPTY_SIZE, count)


def _merge(nodes: list[Node], at: int, fill: int) -> bool:
    """Merge the node at this index and the next one if both are there and Redis allows it."""
    if at < 0 or at + 1 >= len(nodes) or not _may_merge(fill, nodes[at], nodes[at + 1]):
        return False
    first, second = nodes[at], nodes[at + 1]
    first.extend(second.elements.all())
    del nodes[at + 1]
    return True


def merge_around(nodes: list[Node], center: int, fill: int) -> None:
    """Merge the node at this index and its neighbours, as far as Redis does."""
    if _merge(nodes, center - 2, fill):
        center -= 1
    _merge(nodes, center + 1, fill)
    if _merge(nodes, center - 1, fill):
        center -= 1
    _merge(nodes, center, fill)


def new_node(fill: int, element: bytes) -> Node:
    """A node with one element."""
    return Node([element], is_large(fill, element))


def add_at_end(nodes: list[Node], fill: int, elements: list[bytes], at_left: bool) -> int:
    """Add elements at an end, one after the other. Returns the bytes that they take."""
    index = size = 0
    while index < len(elements):
        after = index
        if nodes:
            after, added = nodes[0 if at_left else -1].extend_within(fill, elements, index, at_left)
            size += added
        if after == index:
            node = new_node(fill, elements[index])
            nodes.insert(0 if at_left else len(nodes), node)
            size += node.elements.packed_size
            after += 1
        index = after
    return size


def insert(nodes: list[Node], fill: int, at: int, index: int, element: bytes, after: bool) -> None:
    """Add an element before or after the one at `index` of the node at `at`."""
    node = nodes[at]
    place = index + 1 if after else index
    at_end = place == (len(node.elements) if after else 0)
    beside = at + 1 if after else at
    if is_large(fill, element):
        if not node.is_plain and not at_end:
            nodes.insert(at + 1, node.split(place))
            beside = at + 1
        nodes.insert(beside, new_node(fill, element))
    elif node.allows(fill, element):
        node.insert(place, element)
    elif at_end:
        neighbour = at + 1 if after else at - 1
        if 0 <= neighbour < len(nodes) and nodes[neighbour].allows(fill, element):
            nodes[neighbour].insert(0 if after else len(nodes[neighbour].elements), element)
        else:
            nodes.insert(beside, new_node(fill, element))
    else:
        other = node.split(place)
        nodes.insert(at + 1, other)
        if after:
            other.insert(0, element)
        else:
            node.insert(len(node.elements), element)
        merge_around(nodes, at if after else at + 1, fill)


def replace(nodes: list[Node], fill: int, at: int, index: int, element: bytes) -> None:
    """Replace the element at `index` of the node at `at`."""
    node = nodes[at]
    large = is_large(fill, element)
    if node.is_plain:
        if large:
            nodes[at] = new_node(fill, element)
        else:
            insert(nodes, fill, at, 0, element, True)
            del nodes[at]
        return
    if not large:
        node.replace(index, element)
        return
    if index + 1 < len(node.elements):
        nodes.insert(at + 1, node.split(index + 1))
    nodes.insert(at + 1, new_node(fill, element))
    if len(node.elements) == 1:
        del nodes[at]
    else:
        node.pop(index)
        merge_around(nodes, at + 1, fill)
