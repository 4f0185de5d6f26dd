"""Lists: elements one by one, a ziplist, or nodes.

`nodes: <count>`, then for each node its kind, 1 for one large element or 2 for a listpack, and a string.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...store.companions.list_value import ListValue
from ...store.image import Packed
from ...store.limits import Limits
from ..errors import EmptyValue, RdbError
from .lengths import encode_length, read_length, read_string
from .source import Source
from .texts import encode_strings, pack_texts, read_strings, unpack_texts
from .ziplist import unpack_ziplist

LIST: Final = 1
LIST_ZIPLIST: Final = 10
QUICKLIST: Final = 14
QUICKLIST_2: Final = 18
LIST_TYPES: Final = (LIST, LIST_ZIPLIST, QUICKLIST, QUICKLIST_2)

_PLAIN: Final = 1
_PACKED: Final = 2
# What is before the only node of a list: the type, the number of nodes, and its kind.
_PLAIN_HEAD: Final = bytes((QUICKLIST_2, 1, _PLAIN))
_PACKED_HEAD: Final = bytes((QUICKLIST_2, 1, _PACKED))


def packed_list(value: ListValue) -> Packed | None:
    """A list of a single node; None for another one."""
    elements = value.elements
    if elements.nodes_count != 1:
        return None
    if elements.is_plain(0):
        return _PLAIN_HEAD, elements.node(0)[0]
    return _PACKED_HEAD, elements.listpack(0) or pack_texts(elements.node(0))


def encode_list(value: ListValue, *, compress: bool) -> Iterator[bytes]:
    """Yield a list without its type."""
    yield encode_length(value.elements.nodes_count)
    for index in range(value.elements.nodes_count):
        yield _node(value, index, compress)


def _node(value: ListValue, index: int, compress: bool) -> bytes:
    elements = value.elements
    if elements.is_plain(index):
        return encode_length(_PLAIN) + encode_strings([elements.node(index)[0]], compress)
    data = elements.listpack(index) or pack_texts(elements.node(index))
    return encode_length(_PACKED) + encode_strings([data], compress)


def read_list(source: Source, kind: int, limits: Limits) -> ListValue:
    """The list of type `kind`. Raises RdbError."""
    value = ListValue(limits)
    if kind == LIST_ZIPLIST:
        value.elements.append_node(unpack_ziplist(read_string(source)), False)
    else:
        left = read_length(source)
        while left:
            left -= _read_part(value, source, kind, left)
    return _settled(value)


def list_of_listpack(listpack: bytes, limits: Limits) -> ListValue:
    """The list of a single node, which is a listpack. Raises RdbError, EmptyValue."""
    value = ListValue(limits)
    _add_listpack(value, listpack)
    return _settled(value)


def _settled(value: ListValue) -> ListValue:
    if not len(value):
        raise EmptyValue
    value.settle_encoding()
    return value


def _read_part(value: ListValue, source: Source, kind: int, count: int) -> int:
    """Reads at most so many elements or nodes. Returns how many."""
    if kind == LIST:
        elements = read_strings(source, count)
        value.elements.append(elements)
        return len(elements)
    if kind == QUICKLIST:
        value.elements.append_node(unpack_ziplist(read_string(source)), False)
    else:
        container = read_length(source)
        if container not in (_PLAIN, _PACKED):
            raise RdbError("Quicklist integrity check failed.")
        data = read_string(source)
        if container == _PLAIN:
            value.elements.append_node([data], True)
        else:
            _add_listpack(value, data)
    return 1


def _add_listpack(value: ListValue, listpack: bytes) -> None:
    """Add a node. Raises RdbError."""
    if not value.elements.append_listpack(listpack):
        value.elements.append_node(unpack_texts(listpack), False)
