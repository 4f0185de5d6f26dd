"""What of the command table the machine has reached: commands and options that were once taken, not refused.

A command whose every request is refused is sent, and still not tested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from compat.differences import UNREACHED
from differential.grammar import ROWS
from headrace.commands.lookup import named_row
from headrace.commands.table import Argument
from support.replies import Node, parse

Option = tuple[str, str]
"""(name of the row, its token); an empty token for the command itself."""


class Reach:
    """Options that were taken."""

    def __init__(self) -> None:
        self.taken: set[Option] = set()

    def answered(self, argv: list[bytes], ran: list[list[bytes]], frame: bytes) -> None:
        """Note a reply: to `argv`; of an EXEC, to what it ran; of (un)subscribing, to what the reply names itself."""
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

    def _took(self, argv: list[bytes], node: Node) -> None:
        row = named_row(argv) if argv and argv[0] and node.kind not in (b"-", b"!") else None
        if row is not None:
            words = {word.upper() for word in argv[1:]}
            self.taken.add((row.name, ""))
            self.taken.update((row.name, token) for token in _tokens(row.arguments) if token.encode() in words)

    def missing(self) -> set[Option]:
        """Options of what is sent that were never taken, and are not known to be refused always."""
        return set(_options()) - self.taken - UNREACHED.keys()


def _options() -> Iterator[Option]:
    for row in ROWS:
        yield row.name, ""
        for token in _tokens(row.arguments):
            yield row.name, token


def _tokens(arguments: Iterable[Argument]) -> Iterator[str]:
    for argument in arguments:
        if argument.token is not None:
            yield argument.token.upper()
        yield from _tokens(argument.arguments)
