"""The list of parts of replies that may differ between two servers with the same requests: times and internals.

Each rule names the commands it holds for and rewrites the reply tree. What a rule hides is replaced by a mark, so
that "there is a number here" is still compared. A time becomes `<N ms>`: two of them agree if they are close.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from headrace.commands import registry
from headrace.commands.core.table import all_rows
from support.replies import LIST_KINDS, PAIR_KINDS, Node, pairs, parse, render

assert registry.FAMILIES

MARK = b"<ms>"
TIME = re.compile(rb"<(-?\d+) ms>")
# The longest time between the same step on two servers.
CLOSE_MS = 60_000
# A number this close to the clock is a reading of the clock: no script uses such a number on purpose.
NEAR_NOW_MS = 200_000_000
# What may be an entry ID that was generated, within a reply.
ID_NEAR_NOW = re.compile(rb"\r\n(\d{13})-\d+\r\n")

Rewrite = Callable[[Node, list[bytes]], Node]


@dataclass(frozen=True)
class Rule:
    """`applies` sees the upper-case argument vector."""

    why: str
    applies: Callable[[list[bytes]], bool]
    rewrite: Rewrite


def normalise(raw: bytes, argv: list[bytes], more: Sequence[Rule] = ()) -> bytes:
    """The reply to `argv` with everything that depends on the clock marked, and what `more` rules say.

    Errors and states are left as they are.
    """
    node = parse(raw)
    if node.kind in b"-+":
        return raw
    words = [word.upper() for word in argv]
    for rule in (*RULES, *more):
        if rule.applies(words):
            node = rule.rewrite(node, words)
    return render(node)


def agree(ours: bytes, theirs: bytes) -> bool:
    """Whether two normalised replies agree; times only have to be close."""
    if ours == theirs:
        return True
    our_times, their_times = ([int(time_ms) for time_ms in TIME.findall(each)] for each in (ours, theirs))
    return (
        len(our_times) == len(their_times)
        and TIME.sub(MARK, ours) == TIME.sub(MARK, theirs)
        and all(abs(one - other) < CLOSE_MS for one, other in zip(our_times, their_times, strict=True))
    )


def words_are(*names: bytes) -> Callable[[list[bytes]], bool]:
    """Whether a request begins with these words."""
    return lambda words: words[: len(names)] == list(names)


def mark_unless(node: Node, *fixed: bytes | None) -> Node:
    """Hide a number, but not the values that carry a meaning of their own (-1 = never, 0 = unowned)."""
    return node if node.value in fixed else Node(node.kind, MARK)


def _duration(node: Node, *fixed: bytes | None, unit_ms: int = 1) -> Node:
    """What the clock adds to or takes from: as written if it is one of `fixed`, or negative."""
    if node.value in fixed or int(node.value) < 0:
        return node
    return Node(node.kind, b"<%d ms>" % (int(node.value) * unit_ms))


def _moment(node: Node, *fixed: bytes | None, unit_ms: int = 1) -> Node:
    """A point in time: as written if it is one of `fixed`, or not near the clock, and was written so by a request."""
    if node.value in fixed or abs(int(node.value) * unit_ms - time.time() * 1000) >= NEAR_NOW_MS:
        return node
    return Node(node.kind, b"<%d ms>" % (int(node.value) * unit_ms))


def _replace(node: Node, index: int, change: Callable[..., Node], *fixed: bytes) -> Node:
    children = list(node.value)
    children[index] = change(children[index], *fixed)
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
    return _map_values(node, {b"redirect": lambda value: mark_unless(value, b"-1", b"0")})


def _pending_rows(node: Node, _: list[bytes]) -> Node:
    return _each(lambda row: _replace(row, 2, _duration, b"-1"))(node)


def _consumers(node: Node, _: list[bytes]) -> Node:
    times = {b"idle": _duration, b"inactive": lambda value: _duration(value, b"-1")}
    return _each(lambda consumer: _map_values(consumer, times))(node)


def _stream(node: Node, _: list[bytes]) -> Node:
    consumer = {
        b"seen-time": _moment,
        b"active-time": lambda value: _moment(value, b"-1"),
        b"pending": _each(lambda row: _replace(row, 1, _moment)),
    }
    group: dict[bytes, Callable[[Node], Node]] = {
        b"pending": _each(lambda row: _replace(row, 2, _moment, b"0")),
        b"consumers": _each(lambda value: _map_values(value, consumer)),
    }
    stream: dict[bytes, Callable[[Node], Node]] = {
        # Without FULL this is a number.
        b"groups": lambda value: _each(lambda item: _map_values(item, group))(value) if value.kind == b"*" else value,
    }
    now_ms = time.time() * 1000
    if any(abs(int(id_ms) - now_ms) < NEAR_NOW_MS for id_ms in ID_NEAR_NOW.findall(render(node))):
        # Where IDs part from each other depends on which of them share a millisecond.
        stream[b"radix-tree-nodes"] = mark_unless
    return _map_values(node, stream)


def _claimed_entries(node: Node, _: list[bytes]) -> Node:
    if node.value is None or node.kind not in (b"*", b"%"):
        return node

    def entry(value: Node) -> Node:
        if value.value is None or len(value.value) != 4:
            return value
        is_new = value.value[2].value == b"0" and value.value[3].value == b"0"
        return value if is_new else _replace(value, 2, _duration)

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
        return Node(value.kind, b"<%b ms>" % number + dash + (MARK if rest.isdigit() else rest))

    return hide(node)


def _time_in(change: Callable[..., Node], unit_ms: int = 1) -> Rewrite:
    return lambda node, _: change(node, b"-1", b"-2", None, unit_ms=unit_ms)


def mark_result(node: Node, _: list[bytes]) -> Node:
    """Hide the whole reply, but not a null."""
    return mark_unless(node, None)


def _hello(node: Node, _: list[bytes]) -> Node:
    return _map_values(node, {b"id": mark_unless, b"modules": lambda value: Node(value.kind, [])})


def _any_order(node: Node, _: list[bytes]) -> Node:
    if node.kind not in LIST_KINDS or node.kind in PAIR_KINDS or not node.value:
        return node
    return Node(node.kind, sorted(node.value, key=_sort_key))


def _pairs_in_any_order(node: Node, _: list[bytes]) -> Node:
    children = sorted(zip(node.value[::2], node.value[1::2], strict=True), key=lambda pair: render(pair[0]))
    return Node(node.kind, [part for pair in children for part in pair])


def _hot_keys(node: Node, _: list[bytes]) -> Node:
    return _each(_hot_keys_session)(node)


def _hot_keys_session(session: Node) -> Node:
    fields = {
        b"all-commands-all-slots-us": mark_unless,
        b"collection-duration-ms": mark_unless,
        b"total-cpu-time-user-ms": mark_unless,
        b"total-cpu-time-sys-ms": mark_unless,
        b"by-net-bytes": _equal_sums_sorted,
    }
    found = dict(pairs(session))
    if b"by-cpu-time-us" in found:
        fields[b"by-cpu-time-us"] = partial(_without_times, others=found.get(b"by-net-bytes"))
    return _map_values(session, fields)


def _without_times(node: Node, others: Node | None) -> Node:
    """Keys by processor time: those whose calls took no whole microsecond are not there, so any of them may be missing.
    `others`: the keys by traffic, which are all.
    """
    keys = {_sort_key(key) for key in node.value[::2]}
    are_known = others is None or keys <= {_sort_key(key) for key in others.value[::2]}
    are_known = are_known and all(int(time_us.value) > 0 for time_us in node.value[1::2])
    return Node(node.kind, [Node(b":", MARK)]) if are_known else node


def _equal_sums_sorted(node: Node) -> Node:
    rows = zip(node.value[::2], node.value[1::2], strict=True)
    ordered = [
        row
        for _, equal in groupby(rows, key=lambda row: row[1].value)
        for row in sorted(equal, key=lambda row: render(row[0]))
    ]
    return Node(node.kind, [part for row in ordered for part in row])


def _listed_commands(node: Node, words: list[bytes]) -> Node:
    """COMMAND LIST without the commands that Redis does not have."""
    own = {row.name_lower for row in all_rows() if row.is_own}
    return _any_order(Node(node.kind, [name for name in node.value if name.value not in own]), words)


def _commands(node: Node, words: list[bytes]) -> Node:
    """COMMAND INFO: flags, categories, tips and subcommands are sets. Redis has no subcommands of our own."""
    if node.kind == b"_" or node.value is None:
        return node
    return _each(lambda row: _command(row, words))(node)


def _command(row: Node, words: list[bytes]) -> Node:
    if row.value is None:
        return row
    children = [_any_order(child, words) if index in (2, 6, 7) else child for index, child in enumerate(row.value)]
    # Key specifications: only their flags are a set.
    children[8] = _each(lambda spec: _map_values(spec, {b"flags": lambda value: _any_order(value, words)}))(children[8])
    subcommands = _commands(children[9], words)
    own = {own_row.name_lower for own_row in all_rows() if own_row.is_own}
    shared = [each for each in subcommands.value or [] if each.value[0].value not in own]
    children[9] = _any_order(Node(subcommands.kind, shared), words)
    return Node(row.kind, children)


def _scan(node: Node, words: list[bytes]) -> Node:
    return Node(node.kind, [node.value[0], _any_order(node.value[1], words)])


def _sort_key(node: Node) -> Any:
    return render(node)


RULES = [
    Rule("idle time of a pending entry", lambda w: w[0] == b"XPENDING" and len(w) > 3, _pending_rows),
    Rule("idle times of a consumer", words_are(b"XINFO", b"CONSUMERS"), _consumers),
    Rule("times of consumers and deliveries", words_are(b"XINFO", b"STREAM"), _stream),
    Rule("idle time of a claimed entry", lambda w: w[0] == b"XREADGROUP" and b"CLAIM" in w, _claimed_entries),
    Rule("milliseconds left", words_are(b"PTTL"), _time_in(_duration)),
    Rule("seconds left, cut to whole ones", words_are(b"TTL"), _time_in(_duration, 1000)),
    Rule("Unix seconds of what was set in seconds from now", words_are(b"EXPIRETIME"), _time_in(_moment, 1000)),
    Rule("Unix milliseconds likewise", words_are(b"PEXPIRETIME"), _time_in(_moment)),
    Rule("whole seconds since the last use", words_are(b"OBJECT", b"IDLETIME"), _time_in(_duration, 1000)),
    Rule("the connection's number, and the modules a build ships", words_are(b"HELLO"), _hello),
    Rule("the connection's number", words_are(b"CLIENT", b"ID"), lambda node, _: mark_unless(node)),
    Rule("another's number", words_are(b"CLIENT", b"GETREDIR"), lambda node, _: mark_unless(node, b"-1", b"0")),
    Rule("another's number", words_are(b"CLIENT", b"TRACKINGINFO"), _tracking),
    Rule("times, and the order of keys with equal sums", words_are(b"HOTKEYS", b"GET"), _hot_keys),
    Rule("keys come in no order", words_are(b"KEYS"), _any_order),
    Rule("channels come in no order", words_are(b"PUBSUB", b"CHANNELS"), _any_order),
    Rule("channels come in no order", words_are(b"PUBSUB", b"SHARDCHANNELS"), _any_order),
    Rule("keys come in no order", words_are(b"SCAN"), _scan),
    Rule("directives come in no order", words_are(b"CONFIG", b"GET"), _pairs_in_any_order),
    Rule("commands come in no order, and some are our own", words_are(b"COMMAND", b"LIST"), _listed_commands),
    Rule("flags and subcommands come in no order", words_are(b"COMMAND", b"INFO"), _commands),
    Rule("users, channels and the like come in no order", words_are(b"ACL", b"CAT"), _any_order),
    Rule("a generated entry ID, an absolute time: what no rule above has found", lambda _: True, _near_now),
]
