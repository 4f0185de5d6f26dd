"""Arrays of many elements that are encoded while they are sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from ...protocol.encoder import bulks
from ...protocol.maps import MapForm

# Arrays with no more elements than this are encoded at once. Tests change it.
AT_ONCE_MAX = 1_000
# Elements encoded at once.
PER_PIECE: Final = 100

State = TypeVar("State")


def array_of(states: Sequence[State], encode: Callable[[Sequence[State]], bytes]) -> tuple[Any, ...]:
    """The array of the elements that `encode` makes of states. States must not change any more."""
    header = b"*%d\r\n" % len(states)
    return (header, encode(states) if len(states) <= AT_ONCE_MAX else _pieces(states, encode))


def header_of(count: int, *, is_set: bool) -> bytes:
    """What is before the elements of an array, or of a set of RESP3."""
    return b"%b%d\r\n" % (b"~" if is_set else b"*", count)


def bulks_of(texts: list[bytes], *, is_set: bool = False) -> tuple[Any, ...]:
    """The array of texts, or a set of RESP3. The caller must not use the list afterwards: the texts of many
    are freed one piece after the other.
    """
    header = header_of(len(texts), is_set=is_set)
    return (header, bulks(texts) if len(texts) <= AT_ONCE_MAX else _bulks(texts))


def _bulks(texts: list[bytes]) -> Iterator[bytes]:
    for start in range(0, len(texts), PER_PIECE):
        part = texts[start : start + PER_PIECE]
        texts[start : start + PER_PIECE] = [b""] * len(part)
        yield bulks(part)


def encoded(count: int, pieces: list[bytes]) -> tuple[Any, ...]:
    """The array of so many elements, which are encoded already. The caller must not use the list
    afterwards."""
    return (b"*%d\r\n" % count, _taken(pieces))


def _taken(pieces: list[bytes]) -> Iterator[bytes]:
    pieces.reverse()
    while pieces:
        yield pieces.pop()


def maps_of(rows: list[tuple[Any, ...]], form: MapForm) -> tuple[Any, ...]:
    """The array of the maps with these values."""
    return (form.encode_array(rows),) if len(rows) <= AT_ONCE_MAX else array_of(rows, form.encode)


def _pieces(states: Sequence[State], encode: Callable[[Sequence[State]], bytes]) -> Iterator[bytes]:
    for start in range(0, len(states), PER_PIECE):
        yield encode(states[start : start + PER_PIECE])
