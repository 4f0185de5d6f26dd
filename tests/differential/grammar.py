"""Random requests from the argument grammar of the command table, which COMMAND DOCS also prints.

Most requests are well formed. Some have a boundary value or a wrong value. Some are bent: one word is removed,
repeated, replaced or added.
"""

from __future__ import annotations

from collections.abc import Set
from random import Random

from compat.differences import ADMIN_SENT, LEFT_OUT
from differential.openings import Request
from differential.values import (
    BY_COMMAND,
    BY_GROUP,
    BY_NAME,
    BY_TYPE,
    DURATIONS,
    INTEGERS_BY_NAME,
    ONE_IN_ODD,
    STRAY_TOKENS,
    ClientId,
    Pools,
    Token,
)
from headrace.commands import registry
from headrace.commands.core.table import Argument, Flag, Row, all_rows

assert registry.FAMILIES

# Relative frequency of the commands of a group; other groups have 1.
WEIGHTS = {
    "stream": 8,
    "hash": 2,
    "list": 4,
    "set": 2,
    "sorted-set": 4,
    "geo": 3,
    "string": 4,
    "bitmap": 3,
    "array": 2,
    "generic": 2,
    "transactions": 4,
    "scripting": 2,
}
# The largest number of repetitions of an argument.
MULTIPLE_MAX = 3
# One request in so many is bent.
ONE_IN_BENT = 10


# Commands whose arguments are a request.
ABOUT_REQUESTS = {"COMMAND|GETKEYS", "COMMAND|GETKEYSANDFLAGS"}


def is_left_out(row: Row) -> bool:
    """Whether the machine does not send this command."""
    is_new = row.flags & Flag.ADMIN and row.name not in ADMIN_SENT
    return bool(is_new) or row.is_own or row.name in LEFT_OUT


# Every row that is sent. Of a container only its subcommands are sent.
ROWS = [row for row in all_rows() if row.handler is not None and not is_left_out(row)]
_WEIGHTS = [WEIGHTS.get(row.group, 1) for row in ROWS]


def draw_request(rnd: Random, row: Row | None = None, *, may_bend: bool = True, with_own: bool = False) -> Request:
    """One request to this command, or to a random one of those that are sent. `with_own`: it may have arguments that
    Redis does not have."""
    if row is None:
        (row,) = rnd.choices(ROWS, _WEIGHTS)
    words: list[Token] = [word.encode() for word in row.name.split("|")]
    if row.name in ABOUT_REQUESTS:
        words += draw_request(rnd)
    else:
        for argument in row.arguments:
            if argument.is_own and not with_own:
                continue
            words += _argument(rnd, argument, BY_GROUP.get(row.group, {}) | BY_COMMAND.get(row.name, {}))
    if may_bend and rnd.randrange(ONE_IN_BENT) == 0:
        # An error that repeats the word of a client's ID cannot be the same on both.
        words = [b"0" if isinstance(word, ClientId) else word for word in bend(rnd, words, _own_tokens(row.arguments))]
        if _has_duration(row.arguments):
            words = _without_short_times(words)
    return tuple(words)


def _argument(rnd: Random, argument: Argument, own: Pools, *, repeats: int | None = None) -> list[Token]:
    """The words of one argument; none if it is optional and omitted. `own` are the values of its command."""
    if argument.optional and rnd.random() < 0.5:
        return []
    count = (_repeats(rnd) if repeats is None else repeats) if argument.multiple else 1
    words: list[Token] = []
    for index in range(count):
        if argument.token is not None and (index == 0 or argument.multiple_token):
            words.append(argument.token.encode())
        words += _value(rnd, argument, own)
    return words


def _value(rnd: Random, argument: Argument, own: Pools) -> list[Token]:
    if argument.type == "pure-token":
        return []
    if argument.type == "oneof":
        return _argument(rnd, rnd.choice(argument.arguments), own)
    if argument.type == "block":
        return _block(rnd, argument, own)
    usual, odd = own.get(argument.name) or _pools(argument)
    return [rnd.choice(odd if rnd.randrange(ONE_IN_ODD) == 0 else usual)]


def _block(rnd: Random, block: Argument, own: Pools) -> list[Token]:
    """The parts in order. Repeated parts (keys, IDs) have equally many values, and a number of IDs is their count."""
    repeats = _repeats(rnd) if any(part.multiple for part in block.arguments) else None
    words: list[Token] = []
    for part in block.arguments:
        if part.name in ("numids", "numfields") and repeats is not None and rnd.randrange(ONE_IN_ODD):
            words.append(b"%d" % repeats)
        else:
            words += _argument(rnd, part, own, repeats=repeats)
    return words


def _repeats(rnd: Random) -> int:
    return rnd.randint(1, MULTIPLE_MAX)


def _pools(argument: Argument) -> tuple[list[Token], list[Token]]:
    """Values that are mostly valid, and values that are mostly invalid."""
    if argument.type == "integer" and argument.name in INTEGERS_BY_NAME:
        return INTEGERS_BY_NAME[argument.name]
    of_type = BY_TYPE.get(argument.type, BY_TYPE["string"])
    return of_type if argument.type == "key" else BY_NAME.get(argument.name, of_type)


def _own_tokens(arguments: tuple[Argument, ...], *, are_own: bool = False) -> set[bytes]:
    """The words that begin arguments which Redis does not have."""
    found: set[bytes] = set()
    for each in arguments:
        is_own = are_own or each.is_own
        if is_own and each.token is not None:
            found.add(each.token.encode())
        found |= _own_tokens(each.arguments, are_own=is_own)
    return found


def bend(rnd: Random, words: list[Token], own: Set[bytes] = frozenset()) -> list[Token]:
    """The request with one word removed, repeated, replaced or added, after the name of the command. `own`: words that
    are not added, because the command takes them and Redis does not."""
    place = min(rnd.randint(1, 8), len(words))
    kind = rnd.randrange(4)
    if kind == 0 and place < len(words):
        return words[:place] + words[place + 1 :]
    if kind == 1 and place < len(words):
        return [*words[:place], words[place], *words[place:]]
    rest = words[place + 1 :] if kind == 2 else words[place:]
    return [*words[:place], rnd.choice([each for each in STRAY_TOKENS if each not in own]), *rest]


def _has_duration(arguments: tuple[Argument, ...]) -> bool:
    return any(each.name in DURATIONS or _has_duration(each.arguments) for each in arguments)


def _without_short_times(words: list[Token]) -> list[Token]:
    """The words with large numbers in place of small ones: the effect of a short duration depends on the machine."""
    return [
        b"50000000" if isinstance(word, bytes) and word.isdigit() and 0 < int(word) < 40_000 else word for word in words
    ]
