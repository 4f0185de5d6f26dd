"""Finds a small part of a sequence on which two servers still differ.

It leaves out steps, and then words. This takes a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from differential.duel import IMPATIENCE_S, Duel, Mismatch
from differential.openings import Step
from differential.values import ClientId

# While shrinking, a server that does not answer for this time hangs. Short, as each failed attempt takes this long.
HANG_S = 3.0


def shrink(duel: Duel, steps: list[Step]) -> Mismatch | None:
    """The mismatch of the smallest sequence found; None if the whole sequence no longer fails."""
    duel.patience_s = IMPATIENCE_S
    duel.headrace.limit_s = duel.redis.limit_s = HANG_S
    found = failure_of(duel, steps)
    if found is None:
        return None

    def attempt(fewer: list[Step]) -> bool:
        nonlocal found, steps
        failure = failure_of(duel, fewer)
        if failure is not None:
            found, steps = failure, fewer
        return failure is not None

    _leave_out(lambda: steps, attempt)
    index = 0
    while index < len(steps):
        for shorter in _shorter(steps[index]):
            if attempt([*steps[:index], shorter, *steps[index + 1 :]]):
                break
        else:
            index += 1
    _leave_out(lambda: steps, attempt)
    return found


def failure_of(duel: Duel, steps: list[Step]) -> Mismatch | None:
    """Run a sequence, and return its mismatch."""
    try:
        duel.play(steps)
    except Mismatch as mismatch:
        return mismatch
    return None


def _leave_out(current: Callable[[], list[Step]], attempt: Callable[[list[Step]], bool]) -> None:
    """Try to leave out runs of steps, from the end; long runs first."""
    size = max(len(current()) // 2, 1)
    while size:
        end = len(current())
        while end > 0:
            start = max(end - size, 0)
            attempt(current()[:start] + current()[end:])
            end = start
        size //= 2


def _shorter(step: Step) -> Iterator[Step]:
    client, request = step
    if client != "a":
        yield "a", request
    if any(isinstance(word, ClientId) for word in request):
        return  # in another place, errors repeat the ID, and it differs between the servers
    for place in range(1, len(request)):
        yield client, request[:place] + request[place + 1 :]
