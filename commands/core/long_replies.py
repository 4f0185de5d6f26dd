"""Arrays of many elements that are made and encoded while they are sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from ...protocol.encoder import ENCODERS
from ...protocol.replies import Reply

# Arrays with no more elements than this are made at once.
AT_ONCE_MAX: Final = 1_000
# Elements encoded at once.
PER_PIECE: Final = 100

EMPTY_ARRAY: Final = b"*0\r\n"

State = TypeVar("State")


def array_of(states: Sequence[State], describe: Callable[[State], Reply], protocol: int) -> Reply:
    """The array of the results of `describe` for each state. States must not change any more."""
    if len(states) <= AT_ONCE_MAX:
        return list(map(describe, states))
    return (_pieces(b"", states, describe, protocol),)


def map_with_array(
    fields: dict[bytes, Any], last: bytes, states: Sequence[State], describe: Callable[[State], Reply], protocol: int
) -> Reply:
    """A map of `fields` and, as the field `last`, the array of the results of `describe` for each state."""
    if len(states) <= AT_ONCE_MAX:
        return {**fields, last: list(map(describe, states))}
    out: list[bytes] = []
    ENCODERS[protocol]({**fields, last: []}, out)
    return (_pieces(b"".join(out).removesuffix(EMPTY_ARRAY), states, describe, protocol),)


def _pieces(head: bytes, states: Sequence[State], describe: Callable[[State], Reply], protocol: int) -> Iterator[bytes]:
    encode = ENCODERS[protocol]
    yield b"%b*%d\r\n" % (head, len(states))
    for start in range(0, len(states), PER_PIECE):
        out: list[bytes] = []
        for state in states[start : start + PER_PIECE]:
            encode(describe(state), out)
        yield b"".join(out)
