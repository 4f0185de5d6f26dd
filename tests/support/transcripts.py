"""Executable transcripts: `command -> reply` lines, and `command  =>  what it appended` lines.

Notation of a reply: `"x"` bulk string, `:5` integer, `+OK`, `-ERR ..`, `[a, b]` array, `{k: v}` RESP3 map, `$-1` and
`*-1` the RESP2 nulls, `_` the RESP3 one, `<ms>` any number. A line runs on a RESP2 connection, or on a RESP3 one after
`3> `. `~ a ; b` is set-up whose replies do not matter. A `#` line starts a new case on an empty database.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from support.lines import split
from support.replies import Node

DATA = Path(__file__).parent.parent / "compat" / "data"
ANY_NUMBER = "<ms>"


@dataclass(frozen=True)
class Step:
    """One command. `expected` is None for set-up."""

    line: int
    command: str
    expected: str | None = None
    protocol: int = 2
    appended: tuple[str, ...] = ()

    @property
    def argv(self) -> list[bytes]:
        """The command as arguments."""
        return split(self.command)


@dataclass
class Case:
    """Steps on one initially empty database."""

    title: str
    steps: list[Step] = field(default_factory=list)


def read_cases(name: str) -> list[Case]:
    """The cases of a `command -> reply` transcript in the data folder."""
    cases: list[Case] = []
    for number, text in enumerate((DATA / name).read_text("utf-8").splitlines(), 1):
        if text.startswith("#"):
            cases.append(Case(text[1:].strip()))
        elif text.startswith("~ "):
            cases[-1].steps += [Step(number, command) for command in text[2:].split(" ; ")]
        elif text:
            protocol, text = (3, text[3:]) if text.startswith("3> ") else (2, text)
            command, arrow, expected = text.partition(" -> ")
            assert arrow, f"{name}:{number}: no ` -> ` in {text!r}"
            cases[-1].steps.append(Step(number, command, expected, protocol))
    return cases


def read_log_steps(name: str) -> list[Step]:
    """The steps of a `command  =>  records` transcript. Records are on the line or, indented, on those after it."""
    steps: list[Step] = []
    for number, text in enumerate((DATA / name).read_text("utf-8").splitlines(), 1):
        if text.startswith("~ "):
            steps += [Step(number, command) for command in text[2:].split(" ; ")]
        elif text.startswith("    "):
            last = steps[-1]
            steps[-1] = Step(last.line, last.command, "", appended=(*last.appended, text.strip()))
        else:
            command, _, records = text.partition("  =>")
            records = records.strip()
            appended = {"": (), "(nothing)": (), "(same)": (command,)}.get(records, (records,))
            steps.append(Step(number, command, "", appended=appended))
    return steps


def parse_expected(text: str) -> Node:
    """The notation of a reply as a tree."""
    if text.startswith(("+", "-")):
        return Node(text[0].encode(), text[1:].encode())
    node, rest = _parse_value(text)
    assert not rest.strip(), f"left over in a reply: {rest!r}"
    return node


def _parse_value(text: str) -> tuple[Node, str]:
    text = text.lstrip()
    for null, node in (("$-1", Node(b"$", None)), ("*-1", Node(b"*", None)), ("_", Node(b"_", None))):
        if text.startswith(null):
            return node, text[len(null) :]
    if text[0] == '"':
        value, _, rest = text[1:].partition('"')
        return Node(b"$", value.encode()), rest
    if text[0] in ":+":
        match = re.match(r"[^,\]}]+", text[1:])
        assert match, text
        return Node(text[0].encode(), match[0].encode()), text[1 + match.end() :]
    closing, kind = {"[": ("]", b"*"), "{": ("}", b"%")}[text[0]]
    children: list[Node] = []
    rest = text[1:].lstrip()
    while not rest.startswith(closing):
        child, rest = _parse_value(rest)
        children.append(child)
        rest = rest.lstrip().removeprefix(",").removeprefix(":" if kind == b"%" and len(children) % 2 else "").lstrip()
    return Node(kind, children), rest[1:]


def matches(expected: Node, actual: Node) -> bool:
    """Whether a reply is what the notation says: the same tree, any number in place of `<ms>`."""
    if expected.kind != actual.kind:
        return False
    if isinstance(expected.value, list) and isinstance(actual.value, list):
        return len(expected.value) == len(actual.value) and all(map(matches, expected.value, actual.value))
    if isinstance(expected.value, bytes) and isinstance(actual.value, bytes):
        return text_matches(expected.value.decode(), actual.value)
    return bool(expected.value == actual.value)


def text_matches(pattern: str, actual: bytes) -> bool:
    """Whether bytes are a text in which `<ms>` stands for any number."""
    parts = (re.escape(part.encode()) for part in pattern.split(ANY_NUMBER))
    return re.fullmatch(rb"\d+".join(parts), actual) is not None


def as_resp3(expected: Node, argv: list[bytes]) -> Node:
    """A RESP2 expectation as it is on a RESP3 connection: one null, and maps for reads and XINFO."""
    words = [word.upper() for word in argv[:2]]
    node = _one_null(expected)
    if node.kind != b"*":
        return node
    if words[0] in (b"XREAD", b"XREADGROUP"):
        return Node(b"%", [part for pair in node.value for part in pair.value])
    if words[0] == b"XINFO" and words[1] in (b"GROUPS", b"CONSUMERS"):
        return Node(b"*", [Node(b"%", item.value) for item in node.value])
    return node


def _one_null(node: Node) -> Node:
    if node.value is None:
        return Node(b"_", None)
    if isinstance(node.value, list):
        return Node(node.kind, [_one_null(child) for child in node.value])
    return node
