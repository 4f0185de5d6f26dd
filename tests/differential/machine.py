"""Random sequences of requests to compare two servers.

Each sequence has its own random generator, so it can be repeated alone. (hypothesis is not used: it varies earlier
examples, so that of 26,000 requests only 2,800 were different.)
"""

from __future__ import annotations

from random import Random

from compat.differences import is_unfair
from differential.grammar import draw_request
from differential.openings import OPENINGS, Step
from differential.values import CLIENTS

# Number of random steps after the opening.
STEPS_COUNT = 60
# The first client sends most requests: a request often affects the next one of its own client.
SPEAKERS = ("a", "a", *CLIENTS)
# One request in so many repeats an earlier one of the sequence.
ONE_IN_REPEATED = 12
# One step in so many is a whole transaction of one client.
ONE_IN_TRANSACTION = 30
# The largest number of requests in a transaction.
TRANSACTION_MAX = 3
# Clients that may block. The first client serves them.
WAITING = CLIENTS[1:]


def draw_sequence(seed: int, number: int) -> list[Step]:
    """The steps of one sequence."""
    rnd = Random(f"{seed}/{number}")
    ((_, openings),) = rnd.choices(OPENINGS, [share for share, _ in OPENINGS])
    steps = list(rnd.choice(openings))
    end = len(steps) + STEPS_COUNT
    while len(steps) < end:
        if rnd.randrange(ONE_IN_TRANSACTION) == 0:
            steps += _draw_transaction(rnd)
            continue
        is_repeated = steps and rnd.randrange(ONE_IN_REPEATED) == 0
        request = rnd.choice(steps)[1] if is_repeated else draw_request(rnd)
        if not is_unfair(request):
            steps.append((rnd.choice(WAITING if b"BLOCK" in request else SPEAKERS), request))
    return steps


def _draw_transaction(rnd: Random) -> list[Step]:
    """MULTI, some requests that are not bent, EXEC."""
    speaker = rnd.choice(SPEAKERS)
    requests = [draw_request(rnd, may_bend=False) for _ in range(rnd.randint(1, TRANSACTION_MAX))]
    fair = [request for request in requests if not is_unfair(request)]
    return [(speaker, request) for request in ((b"MULTI",), *fair, (b"EXEC",))]
