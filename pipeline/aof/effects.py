"""Events from records: what each command of a log did to entries.

All records of one command name are converted together, column by column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ...persistence.grammar import forms
from ...persistence.grammar.forms import Form
from ..columns.text import to_text
from ..errors import BadLog
from .records import Records, Rows, nullable

# The event columns that are numbers; all others are text.
NUMBERS: Final = ("time_ms", "deliveries")


class Events:
    """Collects the events of records: one row for each entry that a record names."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self._parts: list[tuple[str, Any, dict[str, Any]]] = []

    def add(self, kind: str, rows: Rows, **columns: Any) -> None:
        """Adds events of one kind. `rows` has the index of each event's record; `columns` are bytes, or NUMBERS."""
        if len(rows):
            self._parts.append((kind, rows, columns))

    def __len__(self) -> int:
        return sum(len(rows) for _, rows, _ in self._parts)

    def rows(self) -> Any:
        """Returns the index of each event's record."""
        return np.concatenate([rows for _, rows, _ in self._parts])

    def kinds(self) -> Any:
        """Returns the column `kind` of all events."""
        return pa.concat_arrays([pa.repeat(pa.scalar(kind, pa.string()), len(rows)) for kind, rows, _ in self._parts])

    def column(self, name: str) -> Any:
        """Returns a column of all events; it is null for kinds of events without that column."""
        kind = pa.int64() if name in NUMBERS else pa.string()
        parts = []
        for _, rows, columns in self._parts:
            found = columns.get(name)
            if found is None:
                parts.append(pa.nulls(len(rows), kind))
            else:
                parts.append(found if found.type == kind else to_text(found, kind))
        return pa.concat_arrays(parts)


def events_of(records: Records) -> Events:
    """Returns the events of records. Raises BadLog for a record with too few words for its command."""
    events = Events(records)
    for name, rows in records.by_name().items():
        if name not in MAKERS:
            continue
        words_min, make = MAKERS[name]
        if (records.counts[rows] < words_min).any():
            raise BadLog(f"a record {name.decode('ascii', 'replace')} has too few words")
        make(events, records, rows)
    return events


Maker = Callable[[Events, Records, Rows], None]


def _numbers(column: Any) -> Any:
    try:
        return column.cast(pa.string()).cast(pa.int64())
    except pa.ArrowInvalid:
        raise BadLog("a record has a word where a number should be") from None


# -- frequent commands, by columns --------------------------------------------------------------------


def _xadd(events: Events, records: Records, rows: Rows) -> None:
    firsts = records.firsts[rows]
    places = np.full(len(rows), forms.XADD_OPTIONS_AT)
    while True:
        # An ID begins with a digit, or is `*` for a duplicate that was refused. Option names begin with letters.
        first = records.first_octets(firsts + places)
        options = np.flatnonzero(((first < ord("0")) | (first > ord("9"))) & (first != ord("*")))
        if not len(options):
            break
        places[options] += _words_of_options(records, firsts[options] + places[options])
        if (places >= records.counts[rows]).any():
            raise BadLog("a record XADD has no ID")
    stream, entry_id = records.words(firsts + forms.XADD.key_at), records.words(firsts + places)
    events.add("add", rows, stream=stream, id=entry_id)


def _words_of_options(records: Records, indices: Any) -> Any:
    """Returns how many words each of these options of XADD takes, its name included."""
    names = records.words(indices).dictionary_encode()
    known = [name.upper() for name in names.dictionary.to_pylist()]
    which = names.indices.to_numpy(zero_copy_only=False)
    following = records.first_octets(np.minimum(indices + 1, len(records.word_starts) - 1))
    is_trimming = np.array([name in forms.TRIM_STRATEGIES for name in known])[which]
    has_operator = is_trimming & np.isin(following, [ord(operator) for operator in forms.TRIM_OPERATORS])
    return np.array([forms.XADD_OPTION_WORDS.get(name, 1) for name in known])[which] + has_operator


def _xclaim(events: Events, records: Records, rows: Rows) -> None:
    form, firsts, counts = forms.XCLAIM, records.firsts[rows], records.counts[rows]
    ends = _ids_ends(records, rows)

    def number_after(word: bytes, place: Any) -> Any:
        """Returns the number after an option, null where the option is missing, as in an XCLAIM sent by a client."""
        has_room = place + 1 < counts
        indices = np.where(has_room, firsts + place, 0)
        is_there = records.are(word, indices) & has_room
        return nullable(_numbers(records.words(indices[is_there] + 1)), is_there)

    columns = {
        "stream": records.words(firsts + form.key_at),
        "grp": records.words(firsts + form.group_at),
        "consumer": records.words(firsts + form.consumer_at),
        "time_ms": number_after(b"TIME", ends + forms.CLAIM_TIME_AFTER),
        "deliveries": number_after(b"RETRYCOUNT", ends + forms.CLAIM_COUNT_AFTER),
    }
    owners, indices = records.spread(rows, form.ids_at, ends)
    if len(owners) != len(rows):
        columns = {name: column.take(pa.array(owners)) for name, column in columns.items()}
    events.add("deliver", rows[owners], id=records.words(indices), **columns)


def _ids_ends(records: Records, rows: Rows) -> Any:
    """Returns where the IDs of each XCLAIM end: at the first word after an ID that does not begin with a digit."""
    ends = np.full(len(rows), forms.XCLAIM.ids_at + 1)
    more = np.flatnonzero(records.counts[rows] > ends)
    while len(more):
        first = records.first_octets(records.firsts[rows[more]] + ends[more])
        more = more[(first >= ord("0")) & (first <= ord("9"))]
        ends[more] += 1
        more = more[ends[more] < records.counts[rows[more]]]
    return ends


def _ids_to_the_end(form: Form, kind: str) -> Maker:
    """Makes the converter for a form that ends with IDs."""

    def make(events: Events, records: Records, rows: Rows) -> None:
        owners, indices = records.spread(rows, form.ids_at, records.counts[rows])
        columns = {"stream": records.words(records.firsts[rows] + form.key_at)}
        if form.group_at:
            columns["grp"] = records.words(records.firsts[rows] + form.group_at)
        if len(owners) != len(rows):
            columns = {name: column.take(pa.array(owners)) for name, column in columns.items()}
        events.add(kind, rows[owners], id=records.words(indices), **columns)

    return make


# -- other commands, record by record -----------------------------------------------------------------


class Effect(NamedTuple):
    """One event, of a record that is converted on its own."""

    kind: str
    stream: bytes
    id: bytes | None = None
    grp: bytes | None = None
    consumer: bytes | None = None
    deliveries: int | None = None


def _each(make: Callable[[list[bytes]], Iterable[Effect]]) -> Maker:
    """Makes a converter of columns from `make`, which converts one record."""

    def make_all(events: Events, records: Records, rows: Rows) -> None:
        found: dict[str, tuple[list[int], list[Effect]]] = {}
        for row, record in zip(rows.tolist(), records.lists(rows), strict=True):
            try:
                effects = [*make(record)]
            except (IndexError, ValueError):
                raise BadLog(f"a record {record[0].decode('ascii', 'replace')} makes no sense") from None
            for effect in effects:
                of_kind = found.setdefault(effect.kind, ([], []))
                of_kind[0].append(row)
                of_kind[1].append(effect)
        for kind, (own_rows, effects) in found.items():
            columns = {
                name: pa.array([getattr(effect, name) for effect in effects], pa.binary())
                for name in ("stream", "grp", "consumer", "id")
            }
            deliveries = pa.array([effect.deliveries for effect in effects], pa.int64())
            events.add(kind, np.array(own_rows), deliveries=deliveries, **columns)

    return make_all


def _xackdel(record: list[bytes]) -> Iterator[Effect]:
    form = forms.XACKDEL
    for entry_id in forms.numbered_ids(record):
        yield Effect("ack", record[form.key_at], entry_id, record[form.group_at])
        yield Effect("delete", record[form.key_at], entry_id)


def _xnack(record: list[bytes]) -> Iterator[Effect]:
    form = forms.XNACK
    kind = f"release-{record[forms.XNACK_MODE_AT].decode('ascii', 'replace').lower()}"
    count = forms.released_count(record)
    for entry_id in forms.numbered_ids(record):
        yield Effect(kind, record[form.key_at], entry_id, record[form.group_at], deliveries=count)


def _xdelex(record: list[bytes]) -> Iterator[Effect]:
    for entry_id in forms.numbered_ids(record):
        yield Effect("delete", record[forms.XDELEX.key_at], entry_id)


def _xtrim(record: list[bytes]) -> Iterator[Effect]:
    """Yields the trim. It has an ID if the threshold is MINID: the entries with smaller IDs were removed."""
    strategy, threshold = forms.trim_threshold(record)
    yield Effect("trim", record[forms.XTRIM.key_at], threshold if strategy == b"MINID" else None)


def _xgroup(record: list[bytes]) -> Iterator[Effect]:
    form = forms.XGROUP
    action, entry_id, consumer = forms.group_action(record)
    yield Effect(f"group-{action}", record[form.key_at], entry_id, record[form.group_at], consumer)


def _delete_keys(record: list[bytes]) -> Iterator[Effect]:
    for key in record[1:]:
        yield Effect("drop", key)


# The minimum number of words of a command, and its converter. Other commands make no events.
MAKERS: Final[dict[bytes, tuple[int, Maker]]] = {
    b"XADD": (forms.XADD.words_min, _xadd),
    b"XCLAIM": (forms.XCLAIM.words_min, _xclaim),
    b"XACK": (forms.XACK.words_min, _ids_to_the_end(forms.XACK, "ack")),
    b"XDEL": (forms.XDEL.words_min, _ids_to_the_end(forms.XDEL, "delete")),
    b"XACKDEL": (forms.XACKDEL.words_min, _each(_xackdel)),
    b"XNACK": (forms.XNACK.words_min, _each(_xnack)),
    b"XDELEX": (forms.XDELEX.words_min, _each(_xdelex)),
    b"XTRIM": (forms.XTRIM.words_min, _each(_xtrim)),
    b"XGROUP": (forms.XGROUP.words_min, _each(_xgroup)),
    b"DEL": (2, _each(_delete_keys)),
    b"UNLINK": (2, _each(_delete_keys)),
}
