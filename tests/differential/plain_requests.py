"""Requests drawn from the grammar of the command table, as words that every server takes."""

from __future__ import annotations

from random import Random

from differential.grammar import draw_request
from differential.values import ClientId, Dump, Duration, Payload, Token
from headrace.commands.core.table import Flag, Row

Request = tuple[bytes, ...]

WAITING = {b"BLOCK"}


def word(token: Token) -> bytes:
    """A token as a word: another client's ID, a short duration, `x` for what only a play could know."""
    if isinstance(token, ClientId):
        return b"2"
    if isinstance(token, Duration):
        return token.take(1)
    return token if isinstance(token, bytes) else b"x"


def always_waits(row: Row) -> bool:
    """Whether the command waits for data without an option that asks for it, as BLPOP. In MULTI it does not wait."""
    return bool(row.flags & Flag.BLOCKING) and not any(each.token == "BLOCK" for each in row.arguments)


def requests_to(row: Row, count: int) -> list[Request]:
    """At most `count` different, well-formed requests to a command that need no payload and do not wait."""
    drawn = [draw_request(Random(seed), row, may_bend=False) for seed in range(2 * count)]
    complete = [each for each in drawn if not any(isinstance(token, (Dump, Payload)) for token in each)]
    found = dict.fromkeys(tuple(map(word, each)) for each in complete)
    return [each for each in found if not WAITING.intersection(map(bytes.upper, each))][:count]
