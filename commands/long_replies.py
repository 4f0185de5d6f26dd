"""Arrays of many elements that are described and encoded while they are sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from ..protocol.encoder import ENCODERS
from ..protocol.replies import Reply

AT_ONCE_MAX: Final = 1_000
"""Arrays of no more elements are made at once."""
PER_PIECE: Final = 100
"""Elements encoded at once."""

State = TypeVar("State")


def array_of(states: list[State], describe: Callable[[State], Reply], protocol: int) -> Reply:
    """The array of what `describe` makes of each state. States must not change any more."""
    if len(states) <= AT_ONCE_MAX:
        return list(map(describe, states))
    encode = ENCODERS[protocol]

    def pieces() -> Iterator[bytes]:
        yield b"*%d\r\n" % len(states)
        for start in range(0, len(states), PER_PIECE):
            out: list[bytes] = []
            for state in states[start : start + PER_PIECE]:
                encode(describe(state), out)
            yield b"".join(out)

    return (pieces(),)
