"""What was found, in lines for people or for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TextIO

from .arrays import SlotsPiece
from .keys import KeyPiece
from .members import ElementsPiece, FieldsPiece, MembersPiece, PlacesPiece, RanksPiece
from .pieces import (
    ConsumersPiece,
    Databases,
    EntriesPiece,
    Facts,
    HeadPiece,
    Label,
    PagePiece,
    PendingPiece,
    Piece,
    TextPiece,
)
from .second_look import Finding
from .survey import Counts

EQUAL: Final = 0
DIFFERENT: Final = 1
CANNOT_COMPARE: Final = 2
RESULTS: Final = {EQUAL: "equal", DIFFERENT: "different", CANNOT_COMPARE: "not compared"}
NOTHING: Final = "nothing"
THERE: Final = "it is there"
# Bytes of a member or of the name of a field in a line.
NAME_SIZE_MAX: Final = 80


def shown(data: bytes) -> str:
    """Bytes as text; what is no printable text as escapes."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _named(data: bytes) -> str:
    """A member or the name of a field as text, cut if it is long."""
    return f"'{shown(data[:NAME_SIZE_MAX])}'{'...' if len(data) > NAME_SIZE_MAX else ''}"


@dataclass(frozen=True, slots=True)
class Difference:
    """One line of the report. `a` and `b` say what each server has, without the contents of values."""

    databases: tuple[int, int]
    key: str
    what: str
    a: str
    b: str
    is_moving: bool

    def line(self) -> str:
        """The difference as a line."""
        moving = " (changes all the time)" if self.is_moving else ""
        return f"db {_database(self.databases)} '{self.key}' {self.what}: {self.a} on A, {self.b} on B{moving}"

    def fields(self) -> dict[str, Any]:
        """The difference as an object of JSON."""
        return {
            "database": self.databases[0],
            "database_b": self.databases[1],
            "key": self.key,
            "what": self.what,
            "a": self.a,
            "b": self.b,
            "moving": self.is_moving,
        }


def _a(noun: str) -> str:
    """A noun with its article."""
    return f"an {noun}" if noun[:1] in "aeiou" else f"a {noun}"


def _database(databases: tuple[int, int]) -> str:
    a, b = databases
    return str(a) if a == b else f"{a}/{b}"


def differences(finding: Finding) -> Iterator[Difference]:
    """The differences of a piece. All facts of a key or a group that only one server has are one difference, and so is
    a run of entries or pending entries.
    """
    piece, a, b = finding.piece, finding.a, finding.b
    for labels in _runs(finding):
        subject, values = _subject(piece, labels), (NOTHING, NOTHING)
        if len(labels) == 1:
            values = _words(piece, labels[0], a, b), _words(piece, labels[0], b, a)
        else:
            values = str(_present(labels, a)), str(_present(labels, b))
        yield Difference(piece.databases, shown(piece.key), subject, *values, finding.is_moving)


def _runs(finding: Finding) -> Iterator[list[Label]]:
    """The labels of a finding in runs: those of one difference together."""
    piece, a, b = finding.piece, finding.a, finding.b
    if isinstance(piece, KeyPiece) and not (a and b):
        yield [KeyPiece.TYPE]
        return
    if isinstance(piece, PlacesPiece | MembersPiece):
        # Where one element is missing, all that follow have other places.
        yield [finding.labels[0]]
        return
    if not isinstance(piece, PagePiece | HeadPiece):
        yield from ([label] for label in finding.labels)
        return
    run: list[Label] = []
    kind: object = None
    for each in finding.labels:
        label = each
        new_kind: object = label  # alone
        if isinstance(piece, PagePiece) and (label in a) is not (label in b):
            new_kind = label in a
        elif len(label) == 3 and (label in a) is not (label in b):
            label = new_kind = label[:2]  # the group itself
        if run and new_kind != kind:
            yield run
            run = []
        if label not in run[-1:]:
            run.append(label)
        kind = new_kind
    if run:
        yield run


def _present(labels: Sequence[Label], facts: Facts) -> int | str:
    """How many of the items one server has."""
    return sum(label in facts for label in labels) or NOTHING


def _subject(piece: Piece, labels: Sequence[Label]) -> str:
    """What a run of labels is about."""
    if isinstance(piece, MembersPiece):
        noun, name = labels[0]
        return f"field {_named(name)} expires" if noun == FieldsPiece.EXPIRES else f"{noun.decode()} {_named(name)}"
    words = [shown(word) for word in labels[0]]
    if isinstance(piece, PlacesPiece):
        return " ".join(words)
    end = "" if len(labels) == 1 else f" to {shown(labels[-1][0])}"
    if isinstance(piece, EntriesPiece):
        return f"entr{'ies' if end else 'y'} {words[0]}{end}"
    if isinstance(piece, SlotsPiece):
        return f"element{'s' if end else ''} {words[0]}{end}"
    if isinstance(piece, PendingPiece):
        return f"group '{shown(piece.group)}' pending entr{'ies' if end else 'y'} {words[0]}{end}"
    if isinstance(piece, ConsumersPiece):
        return f"group '{shown(piece.group)}' consumer '{words[0]}'"
    if isinstance(piece, HeadPiece) and len(words) == 3:
        return f"group '{words[1]}' {words[2]}"
    return f"group '{words[1]}'" if isinstance(piece, HeadPiece) and len(words) == 2 else words[0]


def _words(piece: Piece, label: Label, facts: Facts, others: Facts) -> str:
    """A fact of one server in words. Of values it has only where they begin to differ."""
    if isinstance(piece, HeadPiece) and len(label) == 2:
        return THERE if (*label, HeadPiece.GROUP_FIELDS[0]) in facts else NOTHING
    if label not in facts:
        return NOTHING
    value, other = facts[label], others.get(label)
    if isinstance(piece, EntriesPiece):
        words = f"{len(value)} words"
        return words if other is None else f"{words}, other from word {_parting(value, other) + 1}"
    is_field_value = isinstance(piece, FieldsPiece) and label[0] == FieldsPiece.NOUN
    if is_field_value or isinstance(piece, ElementsPiece | SlotsPiece):
        words = f"{len(value)} bytes"
        return words if other is None else f"{words}, other from byte {_parting(value, other)}"
    if isinstance(piece, RanksPiece):
        return f"member {_named(value[0])} with score {repr(value[1]).removesuffix('.0')}"
    if isinstance(piece, MembersPiece) and value is True:
        return THERE
    if isinstance(piece, PendingPiece):
        owner, time_ms, count = value
        if time_ms is None:
            return f"released with count {count}"
        return f"owner '{shown(owner)}' at {time_ms} with count {count}"
    if isinstance(piece, ConsumersPiece):
        return f"{value} pending"
    if isinstance(piece, TextPiece) and label != TextPiece.LENGTH:
        place = _parting(value, other or b"")
        return f"{value[place : place + 1].hex() or NOTHING} at byte {int(label[1]) + place}"
    if value is None:
        return "none"
    return shown(value) if isinstance(value, bytes) else str(value)


def _parting(a: Sequence[Any], b: Sequence[Any]) -> int:
    """The index of the first item that differs."""
    return next((index for index, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


class Report:
    """Writes differences as they are found, `limit` at most (0: all), and the result."""

    def __init__(self, output: TextIO, *, is_json: bool, limit: int) -> None:
        self._output = output
        self._is_json = is_json
        self._limit = limit
        self.certain_count = 0
        self.moving_count = 0
        # The lists, sets, sorted sets and hashes that have a line, by whether it says that they change all the time.
        self._told: set[tuple[Databases, bytes, bool]] = set()

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return bool(self._limit) and self.certain_count + self.moving_count >= self._limit

    def add(self, finding: Finding) -> None:
        """Write the differences of a finding; of a list, set, sorted set or hash, only the first of the key."""
        piece = finding.piece
        if isinstance(piece, PlacesPiece | MembersPiece):
            told = piece.databases, piece.key, finding.is_moving
            if told in self._told:
                return
            self._told.add(told)
        for each in differences(finding):
            if self.is_full:
                return
            self.moving_count += each.is_moving
            self.certain_count += not each.is_moving
            self._write(each.fields() if self._is_json else each.line())

    def add_foreign(self, pieces: Sequence[Any], count: int) -> None:
        """Write the keys that both servers have and that are not compared, `pieces` of `count`."""
        for each in pieces:
            words = {"database": each.databases[0], "key": shown(each.key), "not_compared": each.kind.decode()}
            line = f"db {_database(each.databases)} '{words['key']}' is not compared: it is {_a(words['not_compared'])}"
            self._write(words if self._is_json else line)
        if count > len(pieces) and not self._is_json:
            self._write(f"{count - len(pieces):,} more keys are of types that are not compared")

    def end(self, counts: Counts, foreign_count: int, seconds: float, note: str) -> int:
        """Write the result. Returns the exit code."""
        code = DIFFERENT if self.certain_count else CANNOT_COMPARE if self.moving_count or foreign_count else EQUAL
        if self._is_json:
            self._write(
                {
                    "result": RESULTS[code],
                    "keys": counts.keys,
                    "entries": counts.entries,
                    "pending": counts.pending,
                    "elements": counts.elements,
                    "differences": self.certain_count,
                    "moving": self.moving_count,
                    "not_compared": foreign_count,
                    "is_limited": self.is_full,
                    "note": note,
                    "seconds": round(seconds, 3),
                }
            )
            return code
        result = RESULTS[code]
        if self.certain_count:
            result += f": {self.certain_count:,} differences"
        if self.moving_count:
            result += f", {self.moving_count:,} facts that change all the time: pause the writers"
        if foreign_count:
            result += f", {foreign_count:,} keys of other types"
        if self.is_full:
            result += ", ended by --limit"
        seen = f"{counts.keys:,} keys, {counts.entries:,} entries, {counts.pending:,} pending entries"
        seen += f", {counts.elements:,} elements" if counts.elements else ""
        self._write(f"{result} ({seen}, {seconds:.1f} s{note and '; '}{note})")
        return code

    def _write(self, line: str | dict[str, Any]) -> None:
        print(line if isinstance(line, str) else json.dumps(line), file=self._output, flush=True)
