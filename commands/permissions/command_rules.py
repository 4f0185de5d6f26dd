"""Commands that a selector allows: `+get -config|set +@stream -@dangerous` as a set of rows.

The rules are kept as well, each once and in the order of their effect, because Redis shows them so.
"""

from __future__ import annotations

from functools import cache
from sys import getsizeof
from typing import Final

from ...store.memory import texts_size
from ...store.object_sizes import text_size
from ..core.categories import CATEGORIES, rows_in
from ..core.table import DECLARED, Flag, Row
from .known import REDIS_COMMANDS, REDIS_CONTAINERS
from .rules import FIRST_ARGUMENT, SYNTAX, UNKNOWN_COMMAND, BadRule

ALL: Final = b"@all"


class CommandRules:
    """Commands allowed so far. A new object allows none."""

    __slots__ = ("_allowed", "_first_arguments", "_is_open", "_parts", "_rules")

    def __init__(self) -> None:
        # Whether the last of `+@all` and `-@all` was `+@all`.
        self._is_open = False
        # Later rules, such as `+get`, by the name without the sign.
        self._rules: dict[bytes, bytes] = {}
        # By container or command: the names of rules for a part of it, such as `config|get`.
        self._parts: dict[bytes, set[bytes]] = {}
        # The rows, each a bit: a set of their names would weigh 32 KB for each user.
        self._allowed = 0
        # By row's name: first arguments (in lower case) with which a command is allowed that is refused otherwise.
        self._first_arguments: dict[str, set[bytes]] = {}

    def copy(self) -> CommandRules:
        """An independent copy."""
        twin = CommandRules()
        twin._is_open, twin._rules, twin._allowed = self._is_open, self._rules.copy(), self._allowed
        twin._parts = {name: parts.copy() for name, parts in self._parts.items()}
        twin._first_arguments = {name: words.copy() for name, words in self._first_arguments.items()}
        return twin

    @property
    def memory_size(self) -> int:
        """Size of the tables of rules and commands."""
        words = self._first_arguments
        return (
            texts_size(self._rules)
            + sum(map(text_size, self._rules.values()))
            + texts_size(self._parts)
            + sum(map(getsizeof, self._parts.values()))  # the names in it are shared with the rules
            + getsizeof(self._allowed)
            + getsizeof(words)
            + sum(map(texts_size, words.values()))
        )

    @property
    def allows_everything(self) -> bool:
        """Whether no command is refused."""
        return self._is_open and self._allowed == _all_bits()

    def allows(self, row: Row, argv: list[bytes]) -> bool:
        """Whether this request's command may be run."""
        if self._allowed & _bits().get(row.name, 0) or Flag.NO_AUTH in row.flags:
            return True
        words = self._first_arguments.get(row.name)
        index = 2 if "|" in row.name else 1
        return words is not None and len(argv) > index and argv[index].lower() in words

    def describe(self) -> bytes:
        """The rules as ACL GETUSER and ACL LIST show them."""
        return b" ".join([b"+@all" if self._is_open else b"-@all", *self._rules.values()])

    def apply(self, rule: bytes) -> None:
        """`+...` or `-...`. Raises BadRule; nothing is changed then."""
        is_allowing, name = rule.startswith(b"+"), rule[1:].lower()
        if name == ALL:
            self._set_all(is_open=is_allowing)
            return
        if name.startswith(b"@"):
            self._set_category(name, is_allowing=is_allowing)
        elif b"|" in name and is_allowing:
            self._allow_part(name)
        else:
            if name not in REDIS_COMMANDS and _find(name) is None:
                raise BadRule(UNKNOWN_COMMAND)
            self._set_row(_find(name), is_allowing=is_allowing)
        self._note(b"+" if is_allowing else b"-", name)

    def _set_all(self, *, is_open: bool) -> None:
        self._is_open = is_open
        self._rules.clear()
        self._parts.clear()
        self._first_arguments.clear()
        self._allowed = _all_bits() if is_open else 0

    def _set_category(self, name: bytes, *, is_allowing: bool) -> None:
        """Apply a rule of a category. A container in the category includes all its subcommands: most are in `slow`."""
        category = name[1:].decode("utf-8", "replace")
        if category not in CATEGORIES:
            raise BadRule(UNKNOWN_COMMAND)
        bits = _bits_in(category)
        self._allowed = self._allowed | bits if is_allowing else self._allowed & ~bits
        for row_name in [name for name in self._first_arguments if bits & _bits()[name]]:
            del self._first_arguments[row_name]

    def _allow_part(self, name: bytes) -> None:
        """Apply `+config|get`, or the older `+select|0` that allows one first argument."""
        container, _, part = name.partition(b"|")
        row = _find(container)
        if row is None and container not in REDIS_COMMANDS:
            raise BadRule(UNKNOWN_COMMAND)
        if b"|" in part:
            raise BadRule(FIRST_ARGUMENT)
        if not part:
            raise BadRule(SYNTAX)
        if (row is not None and row.subcommands) or container in REDIS_CONTAINERS:
            if name not in REDIS_COMMANDS and _find(name) is None:
                raise BadRule(UNKNOWN_COMMAND)
            self._set_row(_find(name), is_allowing=True)
        elif row is not None:
            self._first_arguments.setdefault(row.name, set()).add(part)

    def _set_row(self, row: Row | None, *, is_allowing: bool) -> None:
        for each in () if row is None else (row, *row.subcommands.values()):
            bit = _bits()[each.name]
            self._allowed = self._allowed | bit if is_allowing else self._allowed & ~bit
            self._first_arguments.pop(each.name, None)

    def _note(self, sign: bytes, name: bytes) -> None:
        """Keep only the latest rule of a command or category, and of its subcommands."""
        container, bar, _ = name.partition(b"|")
        if bar:
            self._parts.setdefault(container, set()).add(name)
        for known in (name, *(() if bar else self._parts.pop(name, ()))):
            self._rules.pop(known, None)
        self._rules[name] = sign + name


# Rows are declared when the server is imported, and never removed.


@cache
def _bits() -> dict[str, int]:
    """The bit of each row, by its name."""
    names = [each.name for row in DECLARED.values() for each in (row, *row.subcommands.values())]
    return {name: 1 << index for index, name in enumerate(names)}


@cache
def _all_bits() -> int:
    return sum(_bits().values())


@cache
def _bits_in(category: str) -> int:
    """The rows of a category, with all subcommands of a container."""
    names = {each.name for row in rows_in(category) for each in (row, *row.subcommands.values())}
    return sum(_bits()[name] for name in names)


def _find(name: bytes) -> Row | None:
    """The row of `xinfo` or `xinfo|stream`; None if Headrace does not have it."""
    container, bar, part = name.upper().partition(b"|")
    row = DECLARED.get(container)
    return row.subcommands.get(part) if row is not None and bar else row
