"""What is combined of several sorted sets and sets: their members, with weighted scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...store.companions.set_value import SetValue
from ...store.companions.sorted_set_value import SortedSetValue

Scores = dict[bytes, float]
Pairs = list[tuple[bytes, float]]


class Operand:
    """A sorted set, or a set, whose members have the score 1. Each score is multiplied by the weight, or is the weight
    if members are counted.
    """

    __slots__ = ("_is_counted", "_is_plain", "_weight", "value")

    def __init__(self, value: SortedSetValue | SetValue, weight: float, *, is_counted: bool) -> None:
        self.value: Final = value
        self._weight = weight
        self._is_counted = is_counted
        self._is_plain = weight == 1.0 and not is_counted

    def __len__(self) -> int:
        return len(self.value)

    def pairs(self) -> Pairs:
        """The members with their weighted scores."""
        value = self.value
        if isinstance(value, SetValue):
            weighted = self._weighted(1.0)
            return [(member, weighted) for member in value.members()]
        return self._weighted_pairs(value.scored(0, len(value)))

    def scores(self, members: list[bytes]) -> list[float | None]:
        """The weighted scores of members; None for each that is not there."""
        value = self.value
        if isinstance(value, SetValue):
            weighted = self._weighted(1.0)
            return [weighted if is_there else None for is_there in value.has_each(members)]
        scores = value.scores(members)
        if self._is_plain:
            return scores
        return [None if score is None else self._weighted(score) for score in scores]

    def parts(self, count: int) -> Iterator[Pairs]:
        """Yield the members with their weighted scores, about `count` at a time. They must not change meanwhile."""
        value = self.value
        if isinstance(value, SetValue):
            score = self._weighted(1.0)
            for members in value.parts(count):
                yield [(member, score) for member in members]
        else:
            for start in range(0, len(value), count):
                yield self._weighted_pairs(value.scored(start, min(start + count, len(value))))

    def _weighted(self, score: float) -> float:
        if self._is_plain:
            return score
        return self._weight if self._is_counted else self._weight * score

    def _weighted_pairs(self, pairs: Pairs) -> Pairs:
        if self._is_plain:
            return pairs
        weight = self._weight
        if self._is_counted:
            return [(member, weight) for member, _ in pairs]
        return [(member, weight * score) for member, score in pairs]


def as_number(score: float) -> float:
    """The score; 0 for what is no number, as infinity times 0."""
    return score if score == score else 0.0


def as_numbers(pairs: Pairs) -> Pairs:
    """The members with their scores `as_number`."""
    for _, score in pairs:
        if score != score:
            return [(member, as_number(each)) for member, each in pairs]
    return pairs


def common_pairs(pairs: Pairs, operand: Operand, aggregate: bytes) -> Pairs:
    """The members that an operand has too, with both scores as one."""
    scores = operand.scores([member for member, _ in pairs])
    common: Pairs = []
    for index in range(len(pairs)):
        score = scores[index]
        if score is not None:
            member, before = pairs[index]
            common.append((member, merged(aggregate, before, score)))
    return common


def merged(aggregate: bytes, first: float, second: float) -> float:
    """Two scores as one."""
    if aggregate == b"MIN":
        return min(first, second)
    if aggregate == b"MAX":
        return max(first, second)
    return as_number(first + second)
