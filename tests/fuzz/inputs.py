"""Random inputs of the fuzzers: seeds with some bytes changed, and requests from the grammar of the command table."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from compat.differences import is_unfair
from differential.grammar import draw_request
from differential.openings import POPULATED
from differential.values import ClientId, Dump, Duration, Token
from fuzz.lua_scripts import draw_script
from fuzz.seeds import seeds_of
from headrace.commands.core.table import Flag, all_rows
from support.wire import encode

# Share of the inputs that come from a grammar, for targets that have one. The others are changed seeds.
DRAWN_SHARE: Final = 0.5
REQUESTS_COUNT_MAX: Final = 30
# One input from a grammar in so many has some bytes changed.
ONE_IN_CHANGED: Final = 4
# One request in so many is to any command, including those to which two servers may reply differently.
ONE_IN_ANY: Final = 5
# The rows that `targets.commands` executes.
ROWS: Final = [row for row in all_rows() if row.handler is not None and not row.flags & Flag.ADMIN]


def new_input(target: str, seeds: list[bytes], rnd: random.Random) -> bytes:
    """One input of a target; `seeds` are the inputs to change."""
    draw = DRAWN.get(target)
    if draw is None or rnd.random() >= DRAWN_SHARE:
        return mutate(seeds, rnd)
    data = draw(rnd)
    return data if rnd.randrange(ONE_IN_CHANGED) else mutate([data], rnd)


def draw_pipeline(rnd: random.Random) -> bytes:
    """Requests as the differential machine sends them, mostly after requests that fill the dataset."""
    requests = [request for _, request in POPULATED] if rnd.random() < 0.75 else []
    for _ in range(rnd.randint(1, REQUESTS_COUNT_MAX)):
        request = draw_request(rnd, None if rnd.randrange(ONE_IN_ANY) else rnd.choice(ROWS))
        if not is_unfair(request):
            requests.append(request)
    return b"".join(encode([_plain(word, rnd) for word in request]) for request in requests)


def _plain(word: Token, rnd: random.Random) -> bytes:
    """The word as it is sent. A value that only a server knows is replaced by one of its kind."""
    if isinstance(word, ClientId):
        return b"%d" % rnd.randint(1, 3)
    if isinstance(word, Duration):
        return word.take(rnd.randrange(1000))
    if isinstance(word, bytes):
        return word
    payloads = seeds_of("restore")
    return rnd.choice(payloads) if isinstance(word, Dump) else payloads[word.number % len(payloads)]


# Grammar by target.
DRAWN: Final[dict[str, Callable[[random.Random], bytes]]] = {"commands": draw_pipeline, "scripts": draw_script}


def mutate(seeds: list[bytes], rnd: random.Random) -> bytes:
    """A random seed with some bytes changed."""
    data = bytearray(rnd.choice(seeds))
    for _ in range(rnd.choice((1, 1, 2, 4, 8))):
        place = rnd.randrange(len(data) + 1)
        kind = rnd.randrange(7)
        if kind == 0 and data:
            data[place % len(data)] = rnd.randrange(256)
        elif kind == 1 and data:
            data[place % len(data)] ^= 1 << rnd.randrange(8)
        elif kind == 2:
            del data[place : place + rnd.choice((1, 1, 2, 8, 64))]
        elif kind == 3:
            data[place:place] = rnd.choice((b"\r\n", b"0", b"-1", b"$", b"*", b"\xff", b"9223372036854775808", b"\x00"))
        elif kind == 4:
            other = rnd.choice(seeds)
            start = rnd.randrange(len(other) + 1)
            data[place:place] = other[start : start + rnd.choice((4, 16, 64))]
        elif kind == 5:
            data[place:place] = data[place : place + rnd.choice((1, 8, 32))]
        else:
            del data[place:]
    return bytes(data)
