"""The nodes of a list, and the rules by which Redis splits and merges them, which DUMP shows.

A packed node has some elements, whose bytes in a listpack are counted; a plain node has one large element.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from .integers import as_integer

# Bytes of a listpack without entries.
EMPTY_SIZE: Final = 7
# Bytes that Redis adds to an element to estimate its entry.
OVERHEAD: Final = 8
# Bytes of a node whose elements are limited, not its bytes.
SAFE_SIZE: Final = 8192
# Bytes of a node by `list-max-listpack-size` -1, -2 and so on.
SIZES: Final = (4096, 8192, 16384, 32768, 65536)


def entry_size(element: bytes) -> int:
    """Bytes of an element in a listpack."""
    length = len(element)
    number = as_integer(element)
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
    size = length + (1 if length < 64 else 2 if length < 4096 else 5)
    return size + (1 if size <= 127 else 2 if size < 16383 else 3 if size < 2097151 else 4 if size < 268435455 else 5)


def exceeds(fill: int, size: int, count: int) -> bool:
    """Whether a node with so many bytes and elements is too large for this `list-max-listpack-size`."""
    if fill < 0:
        return size > SIZES[min(-fill, len(SIZES)) - 1]
    return size > SAFE_SIZE or count > max(fill, 1)


def is_large(fill: int, element: bytes) -> bool:
    """Whether an element has a plain node of its own."""
    return len(element) > (SAFE_SIZE if fill >= 0 else SIZES[min(-fill, len(SIZES)) - 1])


class Node:
    """Some elements that follow each other."""

    __slots__ = ("elements", "is_plain", "size")

    def __init__(self, elements: list[bytes], is_plain: bool = False) -> None:
        self.elements = elements
        self.is_plain = is_plain
        # Bytes of the listpack; of a plain node, of its element.
        self.size = len(elements[0]) if is_plain else EMPTY_SIZE + sum(map(entry_size, elements))

    def copy(self) -> Node:
        """Another node with the same elements."""
        twin = Node([])
        twin.elements, twin.is_plain, twin.size = self.elements.copy(), self.is_plain, self.size
        return twin

    def allows(self, fill: int, element: bytes) -> bool:
        """Whether an element may be added."""
        if self.is_plain or is_large(fill, element):
            return False
        return not exceeds(fill, self.size + len(element) + OVERHEAD, len(self.elements) + 1)

    def insert(self, index: int, element: bytes) -> None:
        """Add an element before the one at this index."""
        self.elements.insert(index, element)
        self.size += entry_size(element)

    def remove(self, index: int) -> bytes:
        """Remove the element at this index, and return it."""
        element = self.elements.pop(index)
        self.size -= entry_size(element)
        return element

    def replace(self, index: int, element: bytes) -> None:
        """Replace the element at this index."""
        self.size += entry_size(element) - entry_size(self.elements[index])
        self.elements[index] = element

    def split(self, index: int) -> Node:
        """Keep the elements before this index, and return a node with the others."""
        other = Node(self.elements[index:])
        del self.elements[index:]
        self.size -= other.size - EMPTY_SIZE
        return other


def _may_merge(fill: int, first: Node, second: Node) -> bool:
    if first.is_plain or second.is_plain:
        return False
    count = len(first.elements) + len(second.elements)
    return not exceeds(fill, first.size + second.size - EMPTY_SIZE, count)


def _merge(nodes: deque[Node], at: int, fill: int) -> bool:
    """Merge the node at this index and the next one if both are there and Redis allows it."""
    if at < 0 or at + 1 >= len(nodes) or not _may_merge(fill, nodes[at], nodes[at + 1]):
        return False
    first, second = nodes[at], nodes[at + 1]
    first.elements += second.elements
    first.size += second.size - EMPTY_SIZE
    del nodes[at + 1]
    return True


def merge_around(nodes: deque[Node], center: int, fill: int) -> None:
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


def push_left(nodes: deque[Node], fill: int, element: bytes) -> None:
    """Add an element before the first one."""
    if nodes and nodes[0].allows(fill, element):
        nodes[0].insert(0, element)
    else:
        nodes.appendleft(new_node(fill, element))


def push_right(nodes: deque[Node], fill: int, element: bytes) -> None:
    """Add an element after the last one."""
    if nodes and nodes[-1].allows(fill, element):
        node = nodes[-1]
        node.elements.append(element)
        node.size += entry_size(element)
    else:
        nodes.append(new_node(fill, element))


def insert(nodes: deque[Node], fill: int, at: int, index: int, element: bytes, after: bool) -> None:
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


def replace(nodes: deque[Node], fill: int, at: int, index: int, element: bytes) -> None:
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
        node.remove(index)
        merge_around(nodes, at + 1, fill)
