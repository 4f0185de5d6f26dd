"""The places of members in a sorted set.

A place is one byte string: eight bytes that are ordered as the score is, then the member. So a comparison is one of
byte strings. Both zeros are one score.

The specification of `places`, and its replacement where there is no C compiler.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

SCORE_SIZE: Final = 8

_NATIVE: Final = Struct("=d")
_DOUBLE: Final = Struct(">d")
_BITS: Final = Struct(">Q")
_SIGN: Final = 1 << 63
_MASK: Final = (1 << 64) - 1


def score_bytes(score: float) -> bytes:
    """Eight bytes that are ordered as the score is."""
    (bits,) = _BITS.unpack(_DOUBLE.pack(score + 0.0))
    return _BITS.pack(bits ^ _MASK if bits & _SIGN else bits | _SIGN)


def bytes_after(score: float) -> bytes:
    """Eight bytes that come after all places of a score."""
    return (int.from_bytes(score_bytes(score), "big") + 1).to_bytes(SCORE_SIZE, "big")


def place_of(score: float, member: bytes) -> bytes:
    """The place of a member."""
    return score_bytes(score) + member


def score_of(place: bytes) -> float:
    """The score of a place. Raises ValueError."""
    if len(place) < SCORE_SIZE:
        raise ValueError(place)
    (bits,) = _BITS.unpack(place[:SCORE_SIZE])
    return float(_DOUBLE.unpack(_BITS.pack(bits ^ _SIGN if bits & _SIGN else bits ^ _MASK))[0])


def pack_score(score: float) -> bytes:
    """The bytes of a score, with the sign of a zero."""
    return _NATIVE.pack(score)


def unpack_score(packed: bytes) -> float:
    """The score of which `pack_score` has made the bytes. Raises ValueError."""
    if len(packed) < SCORE_SIZE:
        raise ValueError(packed)
    return float(_NATIVE.unpack(packed)[0])


def unpack_scores(packed: list[bytes | None]) -> list[float | None]:
    """Like `unpack_score`, of each; None for None."""
    return [None if each is None else unpack_score(each) for each in packed]


def words_of(places: list[bytes]) -> list[bytes | float]:
    """Like `scored_of`, with the scores after the members."""
    return [word for pair in scored_of(places) for word in pair]


def scored_of(places: list[bytes]) -> list[tuple[bytes, float]]:
    """The members of places, with their scores. Raises ValueError."""
    return [(place[SCORE_SIZE:], score_of(place)) for place in places]
