"""Requests drawn from the command table's own argument grammar: the one that COMMAND DOCS prints.

`requests()` is a hypothesis strategy of `Request`. Most are well formed, some have a boundary or a wrong value in a
right place, and some are bent: a word lost, repeated, replaced or added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from differential.left_out import is_left_out
from differential.values import BY_NAME, BY_TYPE, DURATIONS, ONE_IN_ODD, STRAY_TOKENS, Token
from headrace.commands import registry
from headrace.commands.table import TABLE, Argument, Row

assert registry.FAMILIES

Request = tuple[Token, ...]
Draw = Callable[[SearchStrategy[Any]], Any]

WEIGHTS = {"stream": 8, "string": 2, "generic": 2, "transactions": 4}
"""How often a command of a group is drawn, beside 1 for the others."""
MULTIPLE_MAX = 3
"""How often an argument that may be repeated comes at most."""
ONE_IN_BENT = 10
"""One request of so many is bent."""

_ODD = st.integers(0, ONE_IN_ODD - 1)
_BENT = st.integers(0, ONE_IN_BENT - 1)
_REPEATS = st.integers(1, MULTIPLE_MAX)
_FEW = st.integers(0, 3)
_PLACE = st.integers(1, 8)
_STRAY = st.sampled_from(STRAY_TOKENS)
_POOLS: dict[tuple[str, str], tuple[SearchStrategy[Token], SearchStrategy[Token]]] = {}
_CHOICES: dict[int, SearchStrategy[int]] = {}


def rows() -> list[Row]:
    """Every row that is sent: containers only by their subcommands."""
    found: list[Row] = []
    for row in TABLE.values():
        found += [sub for sub in row.subcommands.values() if not is_left_out(sub)]
        if row.handler is not None and not is_left_out(row):
            found.append(row)
    return found


ROWS = rows()
_ROW = st.sampled_from([row for row in ROWS for _ in range(WEIGHTS.get(row.group, 1))])


@st.composite
def requests(draw: Draw) -> Request:
    """One request to any command of the table."""
    row = draw(_ROW)
    words: list[Token] = [word.encode() for word in row.name.split("|")]
    for argument in row.arguments:
        words += _argument(draw, argument)
    if draw(_BENT) == ONE_IN_BENT - 1:
        words = _bend(draw, words)
        if _has_duration(row.arguments):
            words = _without_short_times(words)
    return tuple(words)


def _argument(draw: Draw, argument: Argument, *, repeats: int | None = None) -> list[Token]:
    """The words of one argument, none if it is optional and left out."""
    if argument.optional and draw(_FEW) < 2:
        return []
    count = (draw(_REPEATS) if repeats is None else repeats) if argument.multiple else 1
    words: list[Token] = []
    for index in range(count):
        if argument.token is not None and (index == 0 or argument.multiple_token):
            words.append(argument.token.encode())
        words += _value(draw, argument)
    return words


def _value(draw: Draw, argument: Argument) -> list[Token]:
    if argument.type == "pure-token":
        return []
    if argument.type == "oneof":
        return _argument(draw, argument.arguments[draw(_choice(len(argument.arguments)))])
    if argument.type == "block":
        return _block(draw, argument)
    usual, odd = _pool(argument)
    return [draw(odd if draw(_ODD) == ONE_IN_ODD - 1 else usual)]


def _block(draw: Draw, block: Argument) -> list[Token]:
    """The parts in order. Repeated parts come equally often (keys and IDs), and a number of IDs counts them."""
    repeats = draw(_REPEATS) if any(part.multiple for part in block.arguments) else None
    words: list[Token] = []
    for part in block.arguments:
        if part.name == "numids" and repeats is not None and draw(_ODD) < ONE_IN_ODD - 1:
            words.append(b"%d" % repeats)
        else:
            words += _argument(draw, part, repeats=repeats)
    return words


def _choice(count: int) -> SearchStrategy[int]:
    if count not in _CHOICES:
        _CHOICES[count] = st.integers(0, count - 1)
    return _CHOICES[count]


def _pool(argument: Argument) -> tuple[SearchStrategy[Token], SearchStrategy[Token]]:
    where = (argument.type, argument.name)
    if where not in _POOLS:
        usual, odd = BY_TYPE.get(argument.type, BY_TYPE["string"])
        if argument.type != "key":
            usual, odd = BY_NAME.get(argument.name, (usual, odd))
        _POOLS[where] = st.sampled_from(usual), st.sampled_from(odd)
    return _POOLS[where]


def _bend(draw: Draw, words: list[Token]) -> list[Token]:
    """A word lost, repeated, replaced or added, behind the name of the command."""
    place = min(draw(_PLACE), len(words))
    kind = draw(_FEW)
    if kind == 0 and place < len(words):
        return words[:place] + words[place + 1 :]
    if kind == 1 and place < len(words):
        return [*words[:place], words[place], *words[place:]]
    rest = words[place + 1 :] if kind == 2 else words[place:]
    return [*words[:place], draw(_STRAY), *rest]


def _has_duration(arguments: tuple[Argument, ...]) -> bool:
    return any(each.name in DURATIONS or _has_duration(each.arguments) for each in arguments)


def _without_short_times(words: list[Token]) -> list[Token]:
    """A small number that slid into the place of a duration would make the outcome depend on the machine."""
    return [
        b"50000000" if isinstance(word, bytes) and word.isdigit() and 0 < int(word) < 40_000 else word for word in words
    ]
