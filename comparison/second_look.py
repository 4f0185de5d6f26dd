"""Looking again at what differed: a piece that a client has changed in between is no difference.

If the servers have one replication stream, a difference is certain when both are known to show the same offset:

- A is read, then B when it has the offset that A had, then A again when it has the offset that B had. If A shows the
  same twice, it also did at the offset at which B was read.
- A piece that changes all the time is read many times on both servers, each time with the offset, until one offset was
  seen on both.

Without a common stream, both servers must show the same twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from .pair import Pair
from .pieces import Facts, Label, Piece

# Pauses before each round but the first. A certain difference was seen in two rounds: idempotent IDs are forgotten by
# the clock of each server, once a second.
PAUSES_S: Final = (0.0, 0.3, 1.2, 2.0, 3.0)
CERTAIN_AFTER: Final = 3
# Pieces that are read on one server before the other one is read.
CHUNK_COUNT: Final = 32
# Transactions of one sample, and samples of a piece that changes all the time.
SAMPLE_COUNT: Final = 25
SAMPLES_MAX: Final = 40
SAMPLE_PAUSE_S: Final = 0.5
# Between two looks at a server without a common stream.
UNRELATED_PAUSE_S: Final = 0.1
# Offsets of which facts are kept.
KEPT_OFFSETS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """A piece that differs still. `is_moving`: it changed whenever it was looked at, so this may be no difference."""

    piece: Piece
    a: Facts
    b: Facts
    labels: Sequence[Label]
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
        waiting = {piece: Finding(piece, {}, {}, (), is_moving=True) for piece in pieces}
        for index, pause_s in enumerate(self._pauses_s):
            self.waiting_count = len(waiting)
            self._progressed()
            if not waiting:
                return
            self._pair.pause(pause_s)
            seen = [each for some in self._chunks(list(waiting)) for each in self._judge(some, is_related)]
            waiting = {each.piece: each for each in seen}
            if index + 1 >= CERTAIN_AFTER and not any(each.is_moving for each in waiting.values()):
                break
        for each in waiting.values():
            found = self._sampled(each) if each.is_moving and is_related else each
            self.waiting_count -= 1
            self._progressed()
            if found is not None:
                yield found

    @staticmethod
    def _chunks(pieces: list[Piece]) -> Iterator[list[Piece]]:
        for start in range(0, len(pieces), CHUNK_COUNT):
            yield pieces[start : start + CHUNK_COUNT]

    def _judge(self, pieces: Sequence[Piece], is_related: bool) -> Iterator[Finding]:
        """Those of the pieces that differ, by reading A, B and A again."""
        pair = self._pair
        before = [pair.facts_of(pair.a, piece) for piece in pieces]
        if is_related:
            pair.await_offset(pair.b, pair.a.place().offset)
        else:
            pair.pause(UNRELATED_PAUSE_S)
        other = [pair.facts_of(pair.b, piece) for piece in pieces]
        if is_related:
            pair.await_offset(pair.a, pair.b.place().offset)
        after = [pair.facts_of(pair.a, piece) for piece in pieces]
        for piece, first, b, a in zip(pieces, before, other, after, strict=True):
            labels = piece.differing(a, b)
            if labels:
                is_moving = bool(piece.differing(first, a))
                if not is_related and not is_moving:
                    is_moving = bool(piece.differing(b, pair.facts_of(pair.b, piece)))
                yield Finding(piece.narrowed(labels), a, b, labels, is_moving)

    def _sampled(self, finding: Finding) -> Finding | None:
        """Whether a piece that moves differs at an offset that both servers have shown; None if it is equal."""
        piece = finding.piece
        seen: tuple[dict[int, Facts], dict[int, Facts]] = ({}, {})
        differed_count = 0
        for _ in range(SAMPLES_MAX):
            for kept, new in zip(seen, self._pair.samples(piece, SAMPLE_COUNT), strict=True):
                kept.update(new)
                for offset in sorted(kept)[:-KEPT_OFFSETS_MAX]:
                    del kept[offset]
            common = seen[0].keys() & seen[1].keys()
            if not common:
                continue
            a, b = (kept[max(common)] for kept in seen)
            labels = piece.differing(a, b)
            if not labels:
                return None
            differed_count += 1
            if differed_count == CERTAIN_AFTER:
                return Finding(piece, a, b, labels)
            self._pair.pause(SAMPLE_PAUSE_S)
            seen = ({}, {})
        return finding
