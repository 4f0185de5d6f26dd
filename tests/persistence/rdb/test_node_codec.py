"""Entries as nodes and back: both forms make the same bytes and the same entries, and refuse the same damage."""

from __future__ import annotations

from array import array
from itertools import accumulate, pairwise
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from headrace.persistence.errors import RdbError
from headrace.persistence.rdb import listpack, node_codec_plain
from headrace.persistence.rdb.ids import encode_id
from headrace.persistence.rdb.lengths import read_string
from headrace.persistence.rdb.listpack import encode_integer, encode_texts
from headrace.persistence.rdb.source import Source
from headrace.protocol.packing import pack_command
from headrace.store.ids import SEQ_BITS, SEQ_MASK, StreamID, format_id, make_id
from headrace.store.nodes import Node

try:
    from headrace.persistence.rdb import node_codec
except ImportError:
    node_codec = None  # type: ignore[assignment]

FORMS = [node_codec_plain, *([node_codec] if node_codec is not None else [])]

# An entry: its ID, and names and values in turn.
Entry = tuple[StreamID, list[bytes]]

POWERS = [sign * 2**bits for bits in (7, 12, 15, 23, 31, 62, 63, 64) for sign in (1, -1)]
TEXTS = [
    *(b"%d" % (power + step) for power in POWERS for step in (-1, 0, 1)),
    b"-", b"--1", b"-01", b"00", b"1-", b"1 ", b" 1", b"12a", b"a12", b"9" * 19, b"9" * 20, b"9" * 21, b"-" + b"9" * 19,
    b"", b"0", b"-0", b"+1", b"\xb9", b"\x00", b"1\x00",
    *(b"x" * size for size in (1, 20, 62, 63, 64, 125, 126, 4094, 4095, 4096, 16378, 16379, 70_000, 2_100_000)),
]  # fmt: skip


def reply_form(entry: Entry) -> bytes:
    text = format_id(entry[0])
    return b"*2\r\n$%d\r\n%b\r\n%b" % (len(text), text, pack_command(tuple(entry[1])))


def columns(entries: list[Entry]) -> tuple[array[int], array[int], bytes]:
    ms = array("Q", [entry_id >> SEQ_BITS for entry_id, _ in entries])
    return ms, array("Q", [entry_id & SEQ_MASK for entry_id, _ in entries]), b"".join(map(reply_form, entries))


def node_of(entries: list[Entry], names: list[bytes], first_id: StreamID | None = None) -> Node:
    """The node of these entries, whose names are those of a first entry that may be deleted."""
    start = entries[0][0] if first_id is None else first_id
    return Node(start, entries[-1][0], len(entries), len(entries), 0, names)


def encoded(form: ModuleType, nodes: list[Node], runs: list[list[Entry]], *, compress: bool = False) -> bytes:
    encoder = form.NodeEncoder(nodes, compress)
    pieces = [encoder.add(*columns(run)) for run in runs]
    encoder.finish()
    return b"".join(pieces)


def encoded_values(
    form: ModuleType, nodes: list[Node], entries: list[Entry], cut: int, *, compress: bool = False
) -> bytes:
    """Nodes of entries that have the same fields, given as columns in two parts."""
    ms, seq, _ = columns(entries)
    values = [text for _, texts in entries for text in texts[1::2]]
    ends = array("Q", accumulate(map(len, values)))
    encoder = form.NodeEncoder(nodes, compress)
    pieces = [
        encoder.add_values(ms, seq, entries[0][1][::2], b"".join(values), ends, low, high)
        for low, high in ((0, cut), (cut, len(entries)))
    ]
    encoder.finish()
    return b"".join(pieces)


def strings(data: bytes) -> list[tuple[bytes, bytes]]:
    """The keys and listpacks of encoded nodes."""
    source = Source((data,))
    pairs = []
    while source.offset < len(data):
        pairs.append((read_string(source), read_string(source)))
    return pairs


def decoded(form: ModuleType, nodes: list[tuple[bytes, bytes]]) -> tuple[list[Node], list[tuple[StreamID, bytes]]]:
    """The nodes, and the entries in the reply form, however they are handed on."""
    entries: list[tuple[StreamID, bytes]] = []

    def append(data: bytes, ms: array[int], seq: array[int], ends: array[int]) -> None:
        assert len(ms) == len(seq) == len(ends) > 0
        assert ends[-1] == len(data)
        starts = [0, *ends][:-1]
        pieces = [data[start:end] for start, end in zip(starts, ends, strict=True)]
        entries.extend((make_id(*halves), piece) for *halves, piece in zip(ms, seq, pieces, strict=True))

    def append_values(ms: array[int], seq: array[int], names: list[bytes], texts: bytes, ends: array[int]) -> None:
        assert len(ends) == len(ms) * len(names) > 0
        assert ends[-1] == len(texts)
        values = [texts[start:end] for start, end in pairwise((0, *ends))]
        for row, halves in enumerate(zip(ms, seq, strict=True)):
            shown = values[row * len(names) : (row + 1) * len(names)]
            pairs = [text for pair in zip(names, shown, strict=True) for text in pair]
            entries.append((make_id(*halves), reply_form((make_id(*halves), pairs))))

    results = []
    for takes_values in (append_values, None):
        entries.clear()
        decoder = form.NodeDecoder(append, takes_values)
        read = [decoder.add(key, packed) for key, packed in nodes]
        decoder.flush()
        results.append((read, entries.copy()))
    assert results[0] == results[1]
    return results[0]


def outcome(form: ModuleType, nodes: list[tuple[bytes, bytes]]) -> object:
    """What `decoded` returns; None for damage."""
    try:
        return decoded(form, nodes)
    except RdbError:
        return None


IDS = some.builds(make_id, some.integers(0, 2**64 - 1), some.integers(0, 2**64 - 1)).filter(bool)
PAIRS = some.lists(some.tuples(some.sampled_from(TEXTS[:60]), some.sampled_from(TEXTS)), min_size=1, max_size=4)
FIELDS = PAIRS.map(lambda pairs: [text for pair in pairs for text in pair])


@settings(max_examples=200, deadline=None)
@given(some.data(), some.lists(IDS, min_size=1, max_size=12, unique=True), some.booleans())
def test_entries_in_nodes_come_back(data: some.DataObject, ids: list[StreamID], compress: bool) -> None:
    shapes = data.draw(some.lists(FIELDS, min_size=1, max_size=2))
    entries = [(entry_id, data.draw(some.sampled_from(shapes))) for entry_id in sorted(ids)]
    cut, node_cut = data.draw(some.integers(0, len(ids))), data.draw(some.integers(0, len(ids)))
    parts = [part for part in (entries[:node_cut], entries[node_cut:]) if part]
    nodes = [node_of(part, data.draw(some.sampled_from(shapes))[::2]) for part in parts]
    expected = [(entry_id, reply_form((entry_id, texts))) for entry_id, texts in entries]
    made = [encoded(form, nodes, [entries[:cut], entries[cut:]], compress=compress) for form in FORMS]
    assert len(set(made)) == 1
    for form in FORMS:
        read, found = decoded(form, strings(made[0]))
        assert found == expected
        assert [(node.first_id, node.last_id, node.live, node.total, node.field_names) for node in read] == [
            (node.first_id, node.last_id, node.live, node.total, node.field_names) for node in nodes
        ]
        assert [node.size for node in read] == [len(packed) for _, packed in strings(made[0])]


@pytest.mark.parametrize("form", FORMS)
def test_every_text_is_stored_as_redis_stores_it(form: ModuleType) -> None:
    texts = [b"f", *TEXTS, b"end"]
    entry = (make_id(5, 0), texts)
    ((_, packed),) = strings(encoded(form, [node_of([entry], [b"other"])], [[entry]]))
    elements = listpack.unpack(packed)
    assert encode_texts(texts) in packed
    assert [each if isinstance(each, bytes) else b"%d" % each for each in elements[9:-1]] == texts


@pytest.mark.parametrize("form", FORMS)
def test_entries_are_handed_on_in_runs(form: ModuleType) -> None:
    """However many entries a node has, and however long its names are, memory is for one run."""
    names = [b"n" * 30_000]
    entries = [(make_id(number, 0), [*names, b"v"]) for number in range(1, 31)]
    sizes: list[int] = []
    decoder = form.NodeDecoder(lambda data, ms, seq, ends: sizes.append(len(data)), None)
    ((key, packed),) = strings(encoded(form, [node_of(entries, names)], [entries]))
    decoder.add(key, packed)
    assert len(sizes) == 10
    decoder.flush()
    decoder.flush()
    assert sum(sizes) == len(b"".join(map(reply_form, entries)))
    assert len(sizes) == 10


@pytest.mark.parametrize("form", FORMS)
def test_runs_of_the_same_fields_are_handed_on_as_columns_that_fill_a_chunk(form: ModuleType) -> None:
    names, others = [b"f", b"g"], [b"f", b"h"]
    entries = [(make_id(number, 0), [b"f", b"v" * (number % 9), b"g", b"1"]) for number in range(1, 1500)]
    long = [(make_id(2_000 + number, 0), [b"f", b"v" * 3_000, b"g", b"1"]) for number in range(30)]
    mixed = [(make_id(3_000 + number, 0), [b"f", b"1", (b"g", b"h")[number % 2], b"1"]) for number in range(9)]
    parts = [(entries, names), (long, names), (mixed, others)]
    nodes = strings(
        encoded(form, [node_of(part, part_names) for part, part_names in parts], [part for part, _ in parts])
    )
    runs: list[tuple[str, int]] = []
    decoder = form.NodeDecoder(
        lambda data, ms, seq, ends: runs.append(("replies", len(ms))),
        lambda ms, seq, names, texts, ends: runs.append(("values", len(ms))),
    )
    for key, packed in nodes:
        decoder.add(key, packed)
    decoder.flush()
    filled = next(
        count for count in range(30) if sum(len(reply_form(each)) for each in [*entries[1024:], *long[:count]]) >= 65536
    )
    rest = 30 - filled
    assert runs[:2] == [("values", 1024), ("values", 1499 - 1024 + filled)]
    assert [kind for kind, _ in runs[2:]] == ["values"] * (len(runs) - 3) + ["replies"]
    assert sum(count for _, count in runs[2:]) == rest + 9


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("compress", [False, True])
def test_nodes_that_are_complete_in_a_block_are_read_ahead(form: ModuleType, compress: bool) -> None:
    names = [b"temp", b"hum"]
    parts = [
        [(make_id(number, 1), [b"temp", b"20", b"hum", b"7"]) for number in range(start, start + 9)]
        for start in (10, 20, 30)
    ]
    data = encoded(form, [node_of(part, names) for part in parts], parts, compress=compress)
    one_by_one, entries = decoded(form, strings(data))
    ends = list(accumulate(len(encoded(form, [node_of(part, names)], [part], compress=compress)) for part in parts))
    assert ends[-1] == len(data)
    found: list[StreamID] = []
    for size in range(len(data) + 1):
        decoder = form.NodeDecoder(None, lambda ms, seq, names, texts, ends: found.extend(map(make_id, ms, seq)))
        nodes, position = decoder.add_ahead(b"before" + data[:size], 6, 9)
        count = sum(end <= size for end in ends)
        assert (nodes, position) == (one_by_one[:count], 6 + (0, *ends)[count])
        found.clear()
        decoder.flush()
        assert found == [entry_id for entry_id, _ in entries[: 9 * count]]
    assert form.NodeDecoder(None, None).add_ahead(data, ends[0], 0) == ([], ends[0])
    again = [node_of(parts[0], names), node_of(parts[1], names, parts[0][0][0])]
    with pytest.raises(RdbError, match="re-added"):
        form.NodeDecoder(None, None).add_ahead(encoded(form, again, parts[:2]), 0, 2)


@settings(max_examples=100, deadline=None)
@given(some.data(), some.lists(IDS, min_size=1, max_size=12, unique=True), some.booleans())
def test_columns_make_the_nodes_of_their_reply_forms(
    data: some.DataObject, ids: list[StreamID], compress: bool
) -> None:
    names = data.draw(some.lists(some.sampled_from(TEXTS[:60]), min_size=1, max_size=4))
    entries = [
        (entry_id, [text for name in names for text in (name, data.draw(some.sampled_from(TEXTS)))])
        for entry_id in sorted(ids)
    ]
    cut, node_cut = data.draw(some.integers(0, len(ids))), data.draw(some.integers(0, len(ids)))
    parts = [part for part in (entries[:node_cut], entries[node_cut:]) if part]
    nodes = [node_of(part, data.draw(some.sampled_from([names, [b"other"]]))) for part in parts]
    made = [encoded_values(form, nodes, entries, cut, compress=compress) for form in FORMS]
    assert {*made} == {encoded(form, nodes, [entries], compress=compress) for form in FORMS}


@pytest.mark.parametrize("form", FORMS)
def test_columns_that_do_not_fit_together_are_refused(form: ModuleType) -> None:
    one, two = array("Q", [1]), array("Q", [1, 2])
    node = [node_of(ENTRIES[:1], [b"f"])]
    for ms, seq, names, texts, ends in (
        (one, two, [b"f"], b"v", one),
        (one, one, [b"f", b"g"], b"v", one),
        (one, one, [b"f"], b"vv", one),
        (one, one, [], b"", array("Q")),
        (two, two, [b"f"], b"vv", array("Q", [3, 2])),
    ):
        with pytest.raises(ValueError, match="columns"):
            form.NodeEncoder(node, False).add_values(ms, seq, names, texts, ends, 0, 1)
    for low, high in ((-1, 1), (0, 2), (1, 0)):
        with pytest.raises(IndexError):
            form.NodeEncoder(node, False).add_values(one, one, [b"f"], b"v", one, low, high)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "give",
    [
        lambda form: encoded(form, [], [ENTRIES]),
        lambda form: encoded(form, [node_of(ENTRIES, [b"f"])], [ENTRIES[:1]]),
        lambda form: encoded(form, [node_of(ENTRIES, [b"f"])] * 2, [ENTRIES]),
        lambda form: form.NodeEncoder([node_of(ENTRIES, [b"f"])], False).add(array("Q", [1]), array("Q", [0]), b""),
        lambda form: encoded(form, [Node(1, 1, 0, 0, 0, [b"f"])], [ENTRIES]),
    ],
)
def test_entries_that_are_not_those_of_the_nodes_are_refused(form: ModuleType, give: object) -> None:
    assert callable(give)
    with pytest.raises(ValueError, match="entr"):
        give(form)


ENTRIES: list[Entry] = [
    (make_id(1, 1), [b"temp", b"20", b"hum", b"-129"]),
    (make_id(1, 2), [b"temp", b"21", b"hum", b"70000"]),
    (make_id(5, 0), [b"other", b"xy" * 40]),
    (make_id(2**40, 7), [b"temp", b"", b"hum", b"%d" % 2**50]),
]


def test_every_changed_byte_has_the_same_outcome_in_both_forms() -> None:
    """A changed byte is refused, or read as the same other entries. Deleted entries are among those read."""
    ((key, packed),) = strings(encoded(node_codec_plain, [node_of(ENTRIES, [b"temp", b"hum"])], [ENTRIES]))
    # The second entry is marked as deleted, and counted as such.
    marked = bytearray(packed)
    marked[6], marked[8] = 3, 1
    marked[packed.index(encode_texts([b"-129"])) + 5] |= node_codec_plain.DELETED
    assert outcome(node_codec_plain, [(key, bytes(marked))]) is not None
    for data in (packed, bytes(marked)):
        for index in range(len(data)):
            for value in {0, 1, 2, 3, 0x7F, 0x80, 0xC0, 0xE0, 0xF0, 0xF4, 0xFF, data[index] ^ 1, data[index] ^ 0x80}:
                nodes = [(key, data[:index] + bytes((value,)) + data[index + 1 :])]
                assert len({repr(outcome(form, nodes)) for form in FORMS}) == 1, (index, value)


def test_every_truncation_has_the_same_outcome_in_both_forms() -> None:
    ((key, packed),) = strings(encoded(node_codec_plain, [node_of(ENTRIES, [b"temp", b"hum"])], [ENTRIES]))
    for size in range(len(packed)):
        for data in (packed[:size], size.to_bytes(4, "little") + packed[4 : size - 1] + b"\xff"):
            assert all(outcome(form, [(key, data)]) is None for form in FORMS), size
    assert all(outcome(form, [(key[:15], packed)]) is None for form in FORMS)


ELEMENTS = some.one_of(
    some.integers(-3, 9).map(encode_integer),
    some.sampled_from([0, 1, 2, 3, 127, -1, 2**31, 2**63 - 1, -(2**63)]).map(encode_integer),
    some.sampled_from([b"f", b"v", b"x" * 70]).map(lambda text: encode_texts([text])),
    some.binary(min_size=1, max_size=3),
)


@settings(max_examples=1000, deadline=None)
@given(some.lists(ELEMENTS, max_size=24), some.integers(0, 40))
def test_any_listpack_has_the_same_outcome_in_both_forms(pieces: list[bytes], count: int) -> None:
    head = [encode_integer(1), encode_integer(0), encode_integer(1), encode_texts([b"f"]), encode_integer(0)]
    key = encode_id(make_id(1, 1))
    for packed in (listpack.pack(pieces, count), listpack.pack([*head, *pieces], 5 + len(pieces))):
        assert len({repr(outcome(form, [(key, packed)])) for form in FORMS}) == 1


@pytest.mark.parametrize("form", FORMS)
def test_entries_out_of_order_are_refused(form: ModuleType) -> None:
    for numbers, first in (((2, 1), 1), ((1, 1), 1), ((1, 2), 2), ((0, 1), 0)):
        entries = [(make_id(0, number), [b"f", b"v"]) for number in numbers]
        data = encoded(form, [node_of(entries, [b"f"], make_id(0, first))], [entries])
        with pytest.raises(RdbError, match="out of order"):
            decoded(form, strings(data))


def test_many_elements_are_not_counted() -> None:
    """A listpack counts up to 65534 elements."""
    entries = [(make_id(number, 0), [b"f", b"%d" % number]) for number in range(1, 14_001)]
    made = [strings(encoded(form, [node_of(entries, [b"f"])], [entries])) for form in FORMS]
    assert all(nodes == made[0] for nodes in made)
    ((_, packed),) = made[0]
    assert packed[4:6] == b"\xff\xff"
    sizes = list(accumulate(len(reply_form(entry)) for entry in entries))
    for form in FORMS:
        _, found = decoded(form, made[0])
        assert len(found) == len(entries)
        assert sum(len(piece) for _, piece in found) == sizes[-1]
