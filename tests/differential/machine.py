"""Sequences for a duel of two servers.

Each is drawn by a generator of its own, so one can be played alone. (hypothesis, which drew them before, varies what it
has drawn: of 26,000 requests 2,800 were different.)
"""

from __future__ import annotations

from random import Random

from compat.differences import is_unfair
from differential.duel import Step
from differential.grammar import Request, draw_request
from differential.values import CLIENTS

STEPS_COUNT = 60
SPEAKERS = ("a", "a", *CLIENTS)
"""The first client speaks most: what one does is felt by the next of its requests."""
ONE_IN_REPEATED = 12
"""One request of so many is one that the sequence has had before."""

POPULATED: list[Request] = [
    *((b"XADD", b"s", b"%d-1" % number, b"f", b"v") for number in (1, 2, 3, 5)),
    (b"XADD", b"t", b"2-1", b"f", b"v"),
    (b"SET", b"str", b"x"),
    (b"SET", b"num", b"7"),
    (b"XGROUP", b"CREATE", b"s", b"g", b"0"),
    (b"XGROUP", b"CREATE", b"s", b"h", b"2"),
    (b"XGROUP", b"CREATE", b"t", b"g", b"0"),
    (b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"3", b"STREAMS", b"s", b">"),
]
"""What most sequences begin with: something to hit."""
LONG_IDLE: list[Request] = [
    *POPULATED,
    (b"XCLAIM", b"s", b"g", b"c", b"0", b"1-1", b"2-1", b"IDLE", b"50000000", b"JUSTID"),
]
"""The same, where it shows whether a request begins the idle time anew."""
OPENINGS: list[list[Step]] = [
    [],
    [(CLIENTS[0], request) for request in LONG_IDLE],
    [("c", (b"PSUBSCRIBE", b"__key*")), *((CLIENTS[0], request) for request in LONG_IDLE)],
    [(CLIENTS[0], request) for request in POPULATED],
    [(CLIENTS[0], request) for request in POPULATED],
    *(
        [*((CLIENTS[0], request) for request in POPULATED), ("b", (b"CLIENT", b"TRACKING", b"ON", option))]
        for option in (b"OPTIN", b"OPTOUT")
    ),
]
"""How a sequence may begin. CLIENT CACHING is for clients that track by opting in or out. Events are always on, and
heard by whoever subscribes."""


def draw_sequence(seed: int, number: int) -> list[Step]:
    """The steps of one sequence."""
    rnd = Random(f"{seed}/{number}")
    steps = list(rnd.choice(OPENINGS))
    for _ in range(STEPS_COUNT):
        is_repeated = steps and rnd.randrange(ONE_IN_REPEATED) == 0
        request = rnd.choice(steps)[1] if is_repeated else draw_request(rnd)
        if not is_unfair(request):
            steps.append((rnd.choice(SPEAKERS), request))
    return steps
