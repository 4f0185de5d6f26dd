"""RESP replies as trees that remember their wire form.

A `Node` is the type byte and its payload: bytes for scalars, a list of nodes for containers, None for the two RESP2
nulls and the RESP3 one. `parse` and `render` are each other's inverse, so a reply can be changed in one place
(see normalise.py) and still be compared byte for byte.
"""

from __future__ import annotations

from typing import Any, NamedTuple

LINE_KINDS = b"+-:_,#("
BLOB_KINDS = b"$!="
LIST_KINDS = b"*~>"
PAIR_KINDS = b"%|"


class Incomplete(Exception):
    """The buffer ends inside the reply."""


class Node(NamedTuple):
    """One reply value. `kind` is its RESP type byte."""

    kind: bytes
    value: Any


def frame_end(buffer: bytes | bytearray, start: int = 0) -> int:
    """Where the reply that begins at `start` ends. Raises Incomplete, ValueError on bytes that are not RESP."""
    position = start
    values_left = 1
    while values_left:
        line_end = buffer.find(b"\r\n", position)
        if line_end < 0:
            raise Incomplete
        kind = buffer[position]
        header = bytes(buffer[position + 1 : line_end])
        position = line_end + 2
        values_left -= 1
        if kind in BLOB_KINDS:
            size = int(header)
            position += size + 2 if size >= 0 else 0
            if position > len(buffer):
                raise Incomplete
        elif kind in LIST_KINDS:
            values_left += max(int(header), 0)
        elif kind in PAIR_KINDS:
            # An attribute is a prefix: its pairs, and then the reply it belongs to.
            values_left += 2 * int(header) + (kind == ord("|"))
        elif kind not in LINE_KINDS:
            raise ValueError(f"not a RESP reply: {bytes(buffer[start : start + 80])!r}")
    return position


def parse(raw: bytes) -> Node:
    """The tree of one whole reply."""
    node, end = _parse_at(raw, 0)
    if end != len(raw):
        raise ValueError(f"{len(raw) - end} bytes after the reply {raw[:end]!r}")
    return node


def _parse_at(raw: bytes, position: int) -> tuple[Node, int]:
    line_end = raw.index(b"\r\n", position)
    kind = raw[position : position + 1]
    header = raw[position + 1 : line_end]
    position = line_end + 2
    if kind in BLOB_KINDS:
        size = int(header)
        if size < 0:
            return Node(kind, None), position
        return Node(kind, raw[position : position + size]), position + size + 2
    if kind in LIST_KINDS or kind in PAIR_KINDS:
        count = int(header)
        if count < 0:
            return Node(kind, None), position
        children = []
        for _ in range(2 * count if kind in PAIR_KINDS else count):
            child, position = _parse_at(raw, position)
            children.append(child)
        return Node(kind, children), position
    return Node(kind, None if kind == b"_" else header), position


def render(node: Node) -> bytes:
    """The bytes `parse` would make this tree of."""
    kind, value = node
    if kind in BLOB_KINDS:
        return b"%b-1\r\n" % kind if value is None else b"%b%d\r\n%b\r\n" % (kind, len(value), value)
    if kind in LIST_KINDS or kind in PAIR_KINDS:
        if value is None:
            return b"%b-1\r\n" % kind
        count = len(value) // 2 if kind in PAIR_KINDS else len(value)
        return b"%b%d\r\n" % (kind, count) + b"".join(map(render, value))
    return kind + (value or b"") + b"\r\n"


def plain(node: Node) -> Any:
    """The reply as Python values: int, bytes, None, list, dict (keys must be scalars). Errors stay nodes."""
    kind, value = node
    if value is None:
        return None
    if kind == b":":
        return int(value)
    if kind == b"%":
        return {plain(key): plain(item) for key, item in zip(value[::2], value[1::2], strict=True)}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return node if kind in b"-!" else value


def pairs(node: Node) -> list[tuple[bytes, Node]]:
    """A map in either protocol as (key, value) pairs: `%` or a flat array."""
    return [(key.value, value) for key, value in zip(node.value[::2], node.value[1::2], strict=True)]
