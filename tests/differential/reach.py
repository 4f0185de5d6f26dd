"""What the machine has covered: commands and options that were accepted at least once, and states of the dataset.

A command whose every request is refused is not tested. A command that runs only on small and simple states is hardly
tested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from compat.differences import UNREACHED
from differential.grammar import ROWS
from headrace.commands.core.lookup import named_row
from headrace.commands.core.table import Argument
from support.replies import Node, parse

# (name of the row, token of the option); an empty token for the command itself.
Option = tuple[str, str]

EXEC_RAN: Option = ("EXEC", "that ran something")
EXEC_NIL: Option = ("EXEC", "nil by WATCH")
SERVED: dict[bytes, Option] = {
    b"XREAD": ("XREAD", "blocked, and served by another client"),
    b"XREADGROUP": ("XREADGROUP", "blocked, and served by another client"),
}
NODES: Option = ("XINFO|STREAM", "more than one node")
PENDING: Option = ("XPENDING", "more than ten pending entries")
# States that must also be reached. The openings (openings.py) prepare them.
STATES = {EXEC_RAN, EXEC_NIL, *SERVED.values(), NODES, PENDING}
PENDING_COUNT = 10
NODES_REPORTED = re.compile(rb"radix-tree-keys\r\n:(\d+)\r\n")
PENDING_REPORTED = re.compile(rb"\*4\r\n:(\d+)\r\n")


class Reach:
    """Options that were accepted, and states that were reached."""

    def __init__(self) -> None:
        self.taken: set[Option] = set()

    def answered(self, argv: list[bytes], ran: list[list[bytes]], frame: bytes) -> None:
        """Note a reply to `argv`, and to the requests that EXEC `ran`. Without `argv` the reply itself has the name."""
        node = parse(frame)
        if node.kind in (b"-", b"!") or not node.value:
            pass
        elif not argv:
            word = node.value[0].value if isinstance(node.value, list) else b""
            if isinstance(word, bytes):
                self.taken.add((word.decode("latin-1").upper(), ""))
        elif ran and isinstance(node.value, list):
            for each, child in zip(ran, node.value, strict=False):
                self._took(each, child)
        self._took(argv, node)
        if argv and argv[0].upper() == b"EXEC" and isinstance(node.value, list) and ran:
            self.taken.add(EXEC_RAN)
        elif argv and argv[0].upper() == b"EXEC" and node.value is None:
            self.taken.add(EXEC_NIL)

    def served(self, argv: list[bytes], frame: bytes) -> None:
        """Note a reply to a blocked client that another client has served."""
        word = argv[0].upper() if argv else b""
        if word in SERVED and b"BLOCK" in argv and frame[:1] in b"*%" and frame[1:2] not in b"-0":
            self.taken.add(SERVED[word])

    def left(self, argv: list[bytes], frame: bytes) -> None:
        """Note the state of a key at the end of a sequence."""
        if (nodes := NODES_REPORTED.search(frame)) and int(nodes[1]) > 1:
            self.taken.add(NODES)
        elif argv[0] == b"XPENDING" and (pending := PENDING_REPORTED.match(frame)) and int(pending[1]) > PENDING_COUNT:
            self.taken.add(PENDING)

    def _took(self, argv: list[bytes], node: Node) -> None:
        row = named_row(argv) if argv and argv[0] and node.kind not in (b"-", b"!") else None
        if row is not None:
            words = {word.upper() for word in argv[1:]}
            self.taken.add((row.name, ""))
            self.taken.update((row.name, token) for token in _tokens(row.arguments) if token.encode() in words)

    def missing(self) -> set[Option]:
        """States never reached, and options never accepted, without those of UNREACHED."""
        return (STATES | set(_options())) - self.taken - UNREACHED.keys()


def _options() -> Iterator[Option]:
    for row in ROWS:
        yield row.name, ""
        for token in _tokens(row.arguments):
            yield row.name, token


def _tokens(arguments: Iterable[Argument]) -> Iterator[str]:
    """The words that Redis has as well."""
    for argument in arguments:
        if argument.is_own:
            continue
        if argument.token is not None:
            yield argument.token.upper()
        yield from _tokens(argument.arguments)
