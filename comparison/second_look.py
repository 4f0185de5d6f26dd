"""Looking again at what differed: a piece that a client has changed in between is no difference.

If the servers have one replication stream, B is read when it has the offset that A had, and A again when it has the
offset that B had. If A shows the same twice, it most likely did so at the offset at which B was read, but values can
also go and come back. So a difference is certain in one of two ways:

- Both servers have shown the same in each of some rounds.
- For a piece that changes: it is read many times on both servers, each time with the offset, until one offset was seen
  on both.

Without a common stream, only the first way is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from .pair import Pair
from .pieces import Facts, Label, Piece

# Pauses before each round but the first.
PAUSES_S: Final = (0.0, 0.3, 1.2, 2.0, 3.0)
# Rounds, or samples at one offset, after which a difference is certain.
CERTAIN_AFTER: Final = 3
# Pieces that are read on one server before the other one is read.
CHUNK_COUNT: Final = 32
# Transactions of one sample, and samples of a piece that changes all the time.
SAMPLE_COUNT: Final = 25
SAMPLES_MAX: Final = 100
SAMPLE_PAUSE_S: Final = 0.5
# Between two looks at a server without a common stream.
UNRELATED_PAUSE_S: Final = 0.1
# Facts that are kept of all samples of a piece: a replica shows an offset some time after its primary.
KEPT_FACTS_MAX: Final = 200_000


@dataclass(frozen=True, slots=True)
class Finding:
    """A piece that differs still. `is_moving`: it changed when it was looked at, so this may be no difference."""

    piece: Piece
    a: Facts
    b: Facts
    labels: Sequence[Label]
    # Rounds in a row in which both servers have shown the same.
    stable_count: int = 0
    is_moving: bool = False


class SecondLook:
    """Looks again at pieces, in rounds."""

    def __init__(self, pair: Pair, rounds_count: int, progressed: Callable[[], None]) -> None:
        self._pair = pair
        self._pauses_s = [PAUSES_S[min(index, len(PAUSES_S) - 1)] for index in range(max(1, rounds_count))]
        self._progressed = progressed
        # Pieces that are still to be decided.
        self.waiting_count = 0

    def run(self, pieces: Sequence[Piece]) -> Iterator[Finding]:
        """Look at these pieces again. Yields those that differ. Raises CannotCompare."""
        is_related = self._pair.are_related()
        certain_after = min(CERTAIN_AFTER, len(self._pauses_s))
        waiting = [Finding(piece, {}, {}, ()) for piece in pieces]
        for pause_s in self._pauses_s:
            self.waiting_count = len(waiting)
            self._progressed()
            if not waiting:
                return
            self._pair.pause(pause_s)
            waiting = [each for some in self._chunks(waiting) for each in self._judge(some, is_related)]
            if all(each.stable_count >= certain_after for each in waiting):
                break
        for each in waiting:
            is_moving = each.stable_count < certain_after
            finding = replace(each, is_moving=is_moving)
            found = self._sampled(finding) if is_moving and is_related else finding
            self.waiting_count -= 1
            self._progressed()
            if found is not None:
                yield found

    @staticmethod
    def _chunks(findings: list[Finding]) -> Iterator[list[Finding]]:
        for start in range(0, len(findings), CHUNK_COUNT):
            yield findings[start : start + CHUNK_COUNT]

    def _judge(self, findings: Sequence[Finding], is_related: bool) -> Iterator[Finding]:
        """Those of the findings that differ still, by reading A, B and A again."""
        pair = self._pair
        pieces = [each.piece for each in findings]
        before = [pair.facts_of(pair.a, piece) for piece in pieces]
        if is_related:
            pair.await_offset(pair.b, pair.a.place().offset)
        else:
            pair.pause(UNRELATED_PAUSE_S)
        other = [pair.facts_of(pair.b, piece) for piece in pieces]
        if is_related:
            pair.await_offset(pair.a, pair.b.place().offset)
        after = [pair.facts_of(pair.a, piece) for piece in pieces]
        for finding, first, b, a in zip(findings, before, other, after, strict=True):
            piece = finding.piece
            labels = piece.differing(a, b)
            if labels:
                changed = set(piece.differing(first, a))
                if finding.labels:
                    changed.update(piece.differing(finding.a, a), piece.differing(finding.b, b))
                stable_count = 0 if changed.intersection(labels) else finding.stable_count + 1
                yield Finding(piece.narrowed(labels), a, b, labels, stable_count)

    def _sampled(self, finding: Finding) -> Finding | None:
        """Whether a piece that moves differs at an offset that both servers have shown; None if it is equal."""
        piece = finding.piece
        seen: tuple[dict[int, Facts], dict[int, Facts]] = ({}, {})
        differed_count = 0
        for _ in range(SAMPLES_MAX):
            for kept, new in zip(seen, self._pair.samples(piece, SAMPLE_COUNT), strict=True):
                kept.update(new)
                self._forget(kept)
            common = seen[0].keys() & seen[1].keys()
            if not common:
                continue
            a, b = (kept[max(common)] for kept in seen)
            labels = piece.differing(a, b)
            if not labels:
                return None
            differed_count += 1
            if differed_count == CERTAIN_AFTER:
                return Finding(piece, a, b, labels, differed_count)
            self._pair.pause(SAMPLE_PAUSE_S)
            seen = ({}, {})
        return finding

    @staticmethod
    def _forget(kept: dict[int, Facts]) -> None:
        """Drop the oldest samples if there are too many."""
        size = sum(len(facts) + 1 for facts in kept.values())
        for offset in sorted(kept):
            if size <= KEPT_FACTS_MAX:
                return
            size -= len(kept.pop(offset)) + 1
