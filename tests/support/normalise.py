"""The one list of reply parts that may differ between two servers doing the same thing: times, and what is internal.

Each rule names the commands it holds for and rewrites the reply tree. What a rule hides is replaced by a mark, so
that "there is a number here" is still compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from support.replies import LIST_KINDS, PAIR_KINDS, Node, pairs, parse, render

MARK = b"<ms>"
NEAR_NOW_MS = 86_400_000
"""A number this close to the clock is a reading of the clock: no script uses such a number on purpose."""

Rewrite = Callable[[Node, list[bytes]], Node]


@dataclass(frozen=True)
class Rule:
    """`applies` sees the upper-case argument vector."""

    why: str
    applies: Callable[[list[bytes]], bool]
    rewrite: Rewrite


def normalise(raw: bytes, argv: list[bytes]) -> bytes:
    """The reply to `argv` with everything that depends on the clock marked. Errors and states are left as they are."""
    node = parse(raw)
    if node.kind in b"-+":
        return raw
    words = [word.upper() for word in argv]
    for rule in RULES:
        if rule.applies(words):
            node = rule.rewrite(node, words)
    return render(node)


def _is(*names: bytes) -> Callable[[list[bytes]], bool]:
    return lambda words: words[: len(names)] == list(names)


def _mark_unless(node: Node, *fixed: bytes) -> Node:
    """Hide a number, but not the values that carry a meaning of their own (-1 = never, 0 = unowned)."""
    return node if node.value in fixed else Node(node.kind, MARK)


def _replace(node: Node, index: int, *fixed: bytes) -> Node:
    children = list(node.value)
    children[index] = _mark_unless(children[index], *fixed)
    return Node(node.kind, children)


def _map_values(node: Node, change: dict[bytes, Callable[[Node], Node]]) -> Node:
    """Apply `change[key]` to the values of a map in either protocol."""
    children: list[Node] = []
    for (key, value), key_node in zip(pairs(node), node.value[::2], strict=True):
        children += [key_node, change[key](value) if key in change else value]
    return Node(node.kind, children)


def _each(change: Callable[[Node], Node]) -> Callable[[Node], Node]:
    return lambda node: Node(node.kind, [change(child) for child in node.value]) if node.value else node


def _tracking(node: Node, _: list[bytes]) -> Node:
    return _map_values(node, {b"redirect": lambda value: _mark_unless(value, b"-1", b"0")})


def _pending_rows(node: Node, _: list[bytes]) -> Node:
    return _each(lambda row: _replace(row, 2, b"-1"))(node)


def _consumers(node: Node, _: list[bytes]) -> Node:
    times = {b"idle": _mark_unless, b"inactive": lambda value: _mark_unless(value, b"-1")}
    return _each(lambda consumer: _map_values(consumer, times))(node)


def _stream(node: Node, _: list[bytes]) -> Node:
    consumer = {
        b"seen-time": _mark_unless,
        b"active-time": lambda value: _mark_unless(value, b"-1"),
        b"pending": _each(lambda row: _replace(row, 1)),
    }
    group: dict[bytes, Callable[[Node], Node]] = {
        b"pending": _each(lambda row: _replace(row, 2, b"0")),
        b"consumers": _each(lambda value: _map_values(value, consumer)),
    }
    stream: dict[bytes, Callable[[Node], Node]] = {
        # Without FULL this is a number.
        b"groups": lambda value: _each(lambda item: _map_values(item, group))(value) if value.kind == b"*" else value,
    }
    return _map_values(node, stream)


def _claimed_entries(node: Node, _: list[bytes]) -> Node:
    if node.value is None or node.kind not in (b"*", b"%"):
        return node

    def entry(value: Node) -> Node:
        if value.value is None or len(value.value) != 4:
            return value
        is_new = value.value[2].value == b"0" and value.value[3].value == b"0"
        return value if is_new else _replace(value, 2)

    entries = _each(entry)
    if node.kind == b"%":
        return Node(node.kind, [entries(child) if child.kind == b"*" else child for child in node.value])
    return _each(lambda pair: Node(pair.kind, [pair.value[0], entries(pair.value[1])]))(node)


def _near_now(node: Node, _: list[bytes]) -> Node:
    now_ms = int(time.time() * 1000)

    def hide(value: Node) -> Node:
        if isinstance(value.value, list):
            return Node(value.kind, [hide(child) for child in value.value])
        if value.value is None or value.kind not in (b":", b"$"):
            return value
        number, dash, rest = value.value.partition(b"-")
        is_clock = number.isdigit() and len(number) == 13 and abs(int(number) - now_ms) < NEAR_NOW_MS
        if not is_clock:
            return value
        # How many entries share a millisecond depends on the clock as well.
        return Node(value.kind, MARK + dash + (MARK if rest.isdigit() else rest))

    return hide(node)


def _remaining(node: Node, _: list[bytes]) -> Node:
    return _mark_unless(node, b"-1", b"-2")


def _near_now_seconds(node: Node, _: list[bytes]) -> Node:
    is_near = node.value.isdigit() and abs(int(node.value) - time.time()) < NEAR_NOW_MS / 1000
    return Node(node.kind, MARK) if is_near else node


def _is_later_of_durations(words: list[bytes]) -> bool:
    return words[0] in (b"EXPIRE", b"PEXPIRE") and (b"GT" in words[3:] or b"LT" in words[3:])


def _mark_result(node: Node, _: list[bytes]) -> Node:
    return _mark_unless(node)


def _hello(node: Node, _: list[bytes]) -> Node:
    return _map_values(node, {b"id": _mark_unless, b"modules": lambda value: Node(value.kind, [])})


def _any_order(node: Node, _: list[bytes]) -> Node:
    if node.kind not in LIST_KINDS or node.kind in PAIR_KINDS or not node.value:
        return node
    return Node(node.kind, sorted(node.value, key=_sort_key))


def _pairs_in_any_order(node: Node, _: list[bytes]) -> Node:
    children = sorted(zip(node.value[::2], node.value[1::2], strict=True), key=lambda pair: render(pair[0]))
    return Node(node.kind, [part for pair in children for part in pair])


def _commands(node: Node, words: list[bytes]) -> Node:
    """COMMAND INFO: flags, categories, tips and subcommands are sets."""
    if node.kind == b"_" or node.value is None:
        return node
    return _each(lambda row: _command(row, words))(node)


def _command(row: Node, words: list[bytes]) -> Node:
    if row.value is None:
        return row
    children = [_any_order(child, words) if index in (2, 6, 7) else child for index, child in enumerate(row.value)]
    # Key specifications: only their flags are a set.
    children[8] = _each(lambda spec: _map_values(spec, {b"flags": lambda value: _any_order(value, words)}))(children[8])
    children[9] = _any_order(_commands(children[9], words), words)
    return Node(row.kind, children)


def _scan(node: Node, words: list[bytes]) -> Node:
    return Node(node.kind, [node.value[0], _any_order(node.value[1], words)])


def _sort_key(node: Node) -> Any:
    return render(node)


RULES = [
    Rule("idle time of a pending entry", lambda w: w[0] == b"XPENDING" and len(w) > 3, _pending_rows),
    Rule("idle times of a consumer", _is(b"XINFO", b"CONSUMERS"), _consumers),
    Rule("times of consumers and deliveries", _is(b"XINFO", b"STREAM"), _stream),
    Rule("idle time of a claimed entry", lambda w: w[0] == b"XREADGROUP" and b"CLAIM" in w, _claimed_entries),
    Rule("a generated entry ID, an absolute time", lambda _: True, _near_now),
    Rule("milliseconds left", _is(b"PTTL"), _remaining),
    Rule("seconds left, cut to whole ones", _is(b"TTL"), _remaining),
    Rule("Unix seconds of what was set in seconds from now", _is(b"EXPIRETIME"), _near_now_seconds),
    Rule("whether a millisecond has passed since the same duration was set", _is_later_of_durations, _mark_result),
    Rule("the connection's number, and the modules a build ships", _is(b"HELLO"), _hello),
    Rule("the connection's number", _is(b"CLIENT", b"ID"), lambda node, _: _mark_unless(node)),
    Rule("another's number", _is(b"CLIENT", b"GETREDIR"), lambda node, _: _mark_unless(node, b"-1", b"0")),
    Rule("another's number", _is(b"CLIENT", b"TRACKINGINFO"), _tracking),
    Rule("keys come in no order", _is(b"KEYS"), _any_order),
    Rule("channels come in no order", _is(b"PUBSUB", b"CHANNELS"), _any_order),
    Rule("channels come in no order", _is(b"PUBSUB", b"SHARDCHANNELS"), _any_order),
    Rule("keys come in no order", _is(b"SCAN"), _scan),
    Rule("directives come in no order", _is(b"CONFIG", b"GET"), _pairs_in_any_order),
    Rule("commands come in no order", _is(b"COMMAND", b"LIST"), _any_order),
    Rule("flags and subcommands come in no order", _is(b"COMMAND", b"INFO"), _commands),
    Rule("users, channels and the like come in no order", _is(b"ACL", b"CAT"), _any_order),
]
