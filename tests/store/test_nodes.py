"""Redis' node boundaries: sizes of the listpack model and what `~` sees of them."""

from __future__ import annotations

import random
import struct
from array import array
from itertools import groupby, islice, takewhile
from operator import itemgetter

import pytest
from hiredis import pack_command

import headrace.store.stream as stream_module
from headrace.store import node_counts_plain, nodes
from headrace.store.chunk import CHUNK_ENTRIES_MAX
from headrace.store.group import Group
from headrace.store.ids import ID_MAX, SEQ_BITS, SEQ_MASK, U64_MAX, format_id, make_id, parse_id
from headrace.store.limits import Limits
from headrace.store.node_sizes import integer_size, signed_difference, string_size
from headrace.store.nodes import NODE_SIZE_UNLIMITED, IDList, NodeLedger
from headrace.store.stream import References, Stream
from headrace.store.trimming import Trim, default_limit, first_physical_id, trim


def add(stream: Stream, text: bytes, *pairs: bytes) -> None:
    entry_id = parse_id(text)
    stream.require_new_id(entry_id)
    stream.append(entry_id, b"*2\r\n" + pack_command((format_id(entry_id),))[4:] + pack_command(pairs or (b"f", b"v")))


def hundred(limits: Limits) -> Stream:
    stream = Stream(limits)
    for ms in range(1, 101):
        add(stream, b"%d-1" % ms)
    return stream


@pytest.mark.parametrize(
    ("text", "size"),
    [(b"0", 2), (b"127", 2), (b"128", 3), (b"-1", 3), (b"4096", 4), (b"-32769", 5), (b"8388608", 6),
     (b"2147483648", 10), (b"9223372036854775807", 10), (b"9223372036854775808", 21), (b"01", 4), (b"-0", 4),
     (b"4095", 3), (b"32767", 4), (b"32768", 5), (b"8388607", 5), (b"2147483647", 6), (b"-4096", 3), (b"-4097", 4),
     (b"-32768", 4), (b"-8388608", 5), (b"-8388609", 6), (b"-2147483648", 6), (b"-2147483649", 10),
     (b"-9223372036854775808", 10), (b"-9223372036854775809", 22), (b"-", 3), (b"--1", 5), (b"1" * 21, 23),
     (b"", 2), (b"x" * 63, 65), (b"x" * 64, 67), (b"x" * 125, 128), (b"x" * 126, 130), (b"x" * 4095, 4099),
     (b"x" * 4096, 4103), (b"x" * 16377, 16384), (b"x" * 16378, 16386)],
)  # fmt: skip
def test_strings_take_the_listpack_size_of_their_smallest_form(text: bytes, size: int) -> None:
    assert string_size(text) == size


def test_differences_of_ids_wrap_as_signed_numbers() -> None:
    assert signed_difference(0, 1) == -1
    assert signed_difference(2**64 - 1, 0) == -1
    assert [signed_difference(number, 0) for number in (2**63 - 1, 2**63)] == [2**63 - 1, -(2**63)]
    assert integer_size(signed_difference(2**63, 0)) == 10


@pytest.mark.parametrize(
    ("request_", "removed"),
    [
        (Trim(length_max=55, approximate=True), 40),
        (Trim(length_max=91, approximate=True), 0),
        (Trim(length_max=90, approximate=True), 10),
        (Trim(length_max=55, approximate=True, limit=25), 20),
        (Trim(length_max=55, approximate=True, limit=20), 20),
        (Trim(length_max=55, approximate=True, limit=9), 0),
        (Trim(length_max=55), 45),
        (Trim(id_min=make_id(35, 0), approximate=True), 30),
        (Trim(id_min=make_id(30, 1), approximate=True), 20),
        (Trim(id_min=make_id(30, 2), approximate=True), 30),
        (Trim(id_min=make_id(30, 1)), 29),
        (Trim(id_min=make_id(35, 0)), 34),
        (Trim(id_min=make_id(35, 1)), 34),
        (Trim(id_min=make_id(35, 2)), 35),
        (Trim(id_min=0), 0),
        (Trim(id_min=make_id(35, 1), references=References.DELETE), 34),
        (Trim(id_min=make_id(35, 0), approximate=True, references=References.ACKED), 34),
        (Trim(length_max=55, approximate=True, references=References.DELETE), 45),
        (Trim(length_max=55, approximate=True, references=References.DELETE, limit=45), 40),
        (Trim(length_max=55, approximate=True, references=References.DELETE, limit=40), 40),
    ],
)
def test_trims_of_a_hundred_entries_in_nodes_of_ten_remove_what_redis_removes(request_: Trim, removed: int) -> None:
    stream = hundred(Limits(node_entries_max=10))
    assert trim(stream, request_)[0] == removed
    assert len(stream) == 100 - removed
    assert stream.max_deleted_id == 0
    stream.check()


def test_a_trim_by_entry_returns_the_largest_removed_id() -> None:
    stream = hundred(Limits(node_entries_max=10))
    assert trim(stream, Trim(length_max=93, references=References.DELETE)) == (7, make_id(7, 1))
    assert trim(stream, Trim(id_min=make_id(8, 1), references=References.DELETE)) == (0, 0)
    assert trim(stream, Trim(length_max=90)) == (3, 0)
    assert trim(stream, Trim(length_max=80, references=References.DELETE)) == (10, make_id(20, 1))
    assert [node.live for node in stream.nodes.nodes] == [10] * 8


def test_acked_trimming_ends_with_the_first_node_that_is_not_to_go_whole() -> None:
    stream = hundred(Limits(node_entries_max=10))
    group = stream.groups[b"g"] = Group(b"g", make_id(100, 1))
    consumer = group.add_consumer(b"c", 1)
    group.pending.deliver([make_id(ms, 1) for ms in range(1, 6)], consumer, time_ms=1, count=1)
    assert trim(stream, Trim(length_max=91, references=References.ACKED)) == (5, make_id(10, 1))
    assert len(stream) == 95


def test_a_node_that_goes_whole_takes_none_of_those_before_it_that_stay() -> None:
    stream = hundred(Limits(node_entries_max=10))
    group = stream.groups[b"g"] = Group(b"g", make_id(100, 1))
    consumer = group.add_consumer(b"c", 1)
    group.pending.deliver([make_id(1, 1)], consumer, time_ms=1, count=1)
    assert trim(stream, Trim(length_max=70, references=References.ACKED)) == (30, make_id(31, 1))
    assert [(node.first_id, node.live) for node in stream.nodes.nodes[:2]] == [(make_id(1, 1), 1), (make_id(31, 1), 9)]
    stream.check()


def test_each_node_has_the_entries_that_are_left_of_its_own() -> None:
    stream = hundred(Limits(node_entries_max=10))
    add(stream, b"101-1")
    for ms in (*range(11, 21), *range(22, 30)):
        stream.delete(make_id(ms, 1))
    assert [node.live for node in stream.nodes.nodes] == [10, 2, *[10] * 7, 1]
    for references in (References.KEEP, References.DELETE):  # nothing after the first node above the limit is removed
        assert trim(stream, Trim(length_max=0, approximate=True, limit=9, references=references)) == (0, 0)
    assert trim(stream, Trim(length_max=79)) == (4, 0)
    assert [node.live for node in stream.nodes.nodes] == [6, 2, *[10] * 7, 1]
    assert trim(stream, Trim(length_max=73, approximate=True)) == (6, 0)
    assert trim(stream, Trim(length_max=71, approximate=True)) == (2, 0)
    assert trim(stream, Trim(length_max=62, approximate=True)) == (0, 0)
    assert [node.live for node in stream.nodes.nodes] == [*[10] * 7, 1]
    stream.check()


@pytest.mark.parametrize("references", [References.KEEP, References.DELETE])
def test_an_empty_node_stays_once_enough_was_removed(references: References) -> None:
    """Asked of Redis 8.10.2: an entry that was deleted holds back the node, and what is trimmed leaves it empty."""
    stream = Stream(Limits(node_entries_max=3))
    for ms in range(1, 10):
        add(stream, b"%d-1" % ms)
    group = stream.groups[b"g"] = Group(b"g", make_id(9, 1))
    consumer = group.add_consumer(b"c", 1)
    group.pending.deliver([make_id(1, 1)], consumer, time_ms=1, count=1)
    stream.delete(make_id(6, 1))
    assert trim(stream, Trim(id_min=make_id(6, 0), references=References.ACKED)) == (4, make_id(5, 1))
    assert trim(stream, Trim(length_max=3, references=references))[0] == 1
    assert [(node.first_id, node.live) for node in stream.nodes.nodes] == [(make_id(4, 1), 0), (make_id(7, 1), 3)]
    assert trim(stream, Trim(length_max=2, references=references))[0] == 1
    assert [(node.first_id, node.live) for node in stream.nodes.nodes] == [(make_id(7, 1), 2)]
    stream.check()


def test_a_trim_that_leaves_the_first_node_counts_no_entries_for_it() -> None:
    stream = hundred(Limits(node_entries_max=10))
    stream.settle_nodes()
    add(stream, b"101-1")
    assert trim(stream, Trim(length_max=92, approximate=True)) == (0, 0)
    assert trim(stream, Trim(length_max=101)) == (0, 0)
    assert stream.has_unsettled
    assert trim(stream, Trim(length_max=91, approximate=True)) == (10, 0)
    assert not stream.has_unsettled
    assert trim(stream, Trim(length_max=90, approximate=True, references=References.DELETE)) == (1, make_id(11, 1))


def test_nodes_with_few_entries_left_go_when_their_turn_comes() -> None:
    stream = hundred(Limits(node_entries_max=10))
    for ms in (*range(1, 9), *range(21, 29)):
        stream.delete(make_id(ms, 1))
    assert [node.live for node in stream.nodes.nodes[:4]] == [2, 10, 2, 10]
    assert trim(stream, Trim(length_max=83, approximate=True)) == (0, 0)
    assert trim(stream, Trim(length_max=75, approximate=True)) == (2, 0)
    assert trim(stream, Trim(length_max=70, approximate=True)) == (12, 0)


def test_the_limit_that_tilde_implies_is_a_hundred_nodes() -> None:
    assert [default_limit(n) for n in (100, 0, 10**9)] == [10_000, 10_000, 1_000_000]
    stream = Stream(Limits(node_entries_max=1))
    for ms in range(1, 251):
        add(stream, b"%d-1" % ms)
    assert trim(stream, Trim(length_max=0, approximate=True, limit=default_limit(1)))[0] == 100


def test_a_byte_limit_opens_nodes_as_well() -> None:
    stream = hundred(Limits(node_size_max=60))
    stream.settle_nodes()
    assert [node.live for node in stream.nodes.nodes[:3]] == [4, 4, 4]


@pytest.mark.parametrize("size_max", [0, NODE_SIZE_UNLIMITED, NODE_SIZE_UNLIMITED + 1, 2**63 - 1])
def test_a_byte_limit_beyond_what_a_listpack_takes_is_none(size_max: int) -> None:
    stream = hundred(Limits(node_size_max=size_max, node_entries_max=40))
    stream.settle_nodes()
    assert [node.live for node in stream.nodes.nodes] == [40, 40, 20]


def test_neighbouring_nodes_keep_the_names_of_their_fields_once() -> None:
    stream = hundred(Limits(node_entries_max=10))
    add(stream, b"101-1", b"other", b"v")
    stream.settle_nodes()
    first, *others, last = stream.nodes.nodes
    assert len(others) == 9
    assert all(node.field_names is first.field_names for node in others)
    assert (first.field_names, last.field_names) == ([b"f"], [b"other"])


def test_a_node_has_the_field_names_of_its_first_entry_though_values_read_like_those_of_the_node_before() -> None:
    stream = hundred(Limits(node_entries_max=1))
    add(stream, b"101-1", b"one", b"v", b"two", b"v")
    add(stream, b"102-1", b"one", b"v", b"other", b"two")
    stream.settle_nodes()
    assert stream.nodes.nodes[-1].field_names == [b"one", b"other"]


def test_the_first_physical_id_is_that_of_a_deleted_entry_while_its_node_lives() -> None:
    stream = hundred(Limits(node_entries_max=10))
    stream.delete(make_id(1, 1))
    assert first_physical_id(stream) == make_id(1, 1)
    trim(stream, Trim(length_max=90))
    assert first_physical_id(stream) == make_id(11, 1)
    trim(stream, Trim(length_max=0))
    assert first_physical_id(stream) == ID_MAX


def id_list(ids: list[int]) -> IDList:
    made = IDList()
    for entry_id in ids:
        made.append(entry_id)
    return made


@pytest.mark.parametrize(
    ("first_ids", "count"),
    [
        ([], 1),
        ([make_id(1, 1)], 1),
        ([1, 2], 2),
        ([1, 2, 3], 2),
        ([0x100000, 0x200000], 4),
        ([make_id(1, 0), make_id(2**56, 0)], 3),
        ([make_id(1, 1), make_id(1, 2**56), make_id(2, 0)], 6),
        ([0x1, 0x100001, make_id(4, 0x100001), make_id(5, 0x100001), make_id(5, 0x100003)], 9),
    ],
)
def test_radix_tree_nodes_are_counted_as_redis_has_them(first_ids: list[int], count: int) -> None:
    ledger = NodeLedger()
    ledger.first_ids = id_list(first_ids)
    assert ledger.radix_nodes_count == count


@pytest.mark.parametrize("is_trim", [False, True])
def test_the_counters_of_a_node_grow_and_shrink_with_what_they_count(is_trim: bool) -> None:
    stream = Stream(Limits(node_entries_max=200, node_size_max=0))
    for ms in range(1, 201):
        add(stream, b"%d-1" % ms)
    stream.settle_nodes()
    (node,) = stream.nodes.nodes
    full_size, sizes = node.size, []
    for removed in range(1, 130):
        if is_trim:
            trim(stream, Trim(length_max=200 - removed))
        else:
            stream.delete(make_id(removed, 1))
        sizes.append(stream.nodes.nodes[0].size - full_size)
    # From 128 on a counter takes three bytes; live and deleted ones pass it after 73 and 128 removals.
    assert sizes == [0] * 72 + [-1] * 55 + [0] * 2


def tree_size(keys: list[bytes]) -> int:
    """Nodes of a radix tree of sorted keys, leaves included: one for what all have, one where they part."""
    if keys == [b""]:
        return 1
    if run := sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(keys[0], keys[-1], strict=True))):
        return 1 + tree_size([key[run:] for key in keys])
    return 1 + sum(tree_size([key[1:] for key in same]) for _, same in groupby(keys, key=itemgetter(0)))


@pytest.mark.parametrize("seed", range(5))
def test_radix_tree_nodes_are_those_of_the_tree_itself(seed: int) -> None:
    print("seed", seed)
    source = random.Random(seed)
    for _ in range(100):
        halves = {tuple(source.getrandbits(source.choice([1, 9, 44, 57, 64])) for _ in range(2))
                  for _ in range(source.randrange(1, 12))}  # fmt: skip
        ledger = NodeLedger()
        ledger.first_ids = id_list(sorted(make_id(*each) for each in halves))
        keys, leaves = [struct.pack(">QQ", *each) for each in sorted(halves)], len(halves)
        assert ledger.radix_nodes_count == tree_size(keys) - leaves, halves


@pytest.mark.parametrize("seed", range(20))
def test_radix_tree_keeps_its_count_as_nodes_come_and_go(seed: int) -> None:
    print("seed", seed)
    source = random.Random(seed)
    ledger, fresh = NodeLedger(), NodeLedger()
    ledger.nodes = [None] * 10_000  # type: ignore[list-item]
    last_ms = last_seq = 0
    for _ in range(400):
        if source.random() < 0.6 or not ledger.first_ids:
            for _ in range(source.choice([1, 1, 40])):
                last_ms += source.getrandbits(source.choice([0, 1, 9, 17, 33]))
                last_seq += 1 + source.getrandbits(source.choice([1, 9, 44]))
                ledger.first_ids.append(make_id(last_ms, last_seq))
        else:
            index = source.choice([0, 0, source.randrange(len(ledger.first_ids)), len(ledger.first_ids) - 1])
            ledger.drop(index, min(source.choice([1, 1, 2, 5, 40]), len(ledger.first_ids) - index))
        fresh.first_ids = ledger.first_ids
        fresh._tree = None
        if source.random() < 0.8:
            assert ledger.radix_nodes_count == fresh.radix_nodes_count, list(ledger.first_ids)


def test_the_smallest_id_is_in_a_node() -> None:
    stream = Stream(Limits())
    add(stream, b"0-1")
    stream.check()
    assert first_physical_id(stream) == 1


def node_size(ids: list[int], entries: list[list[bytes]], names: list[bytes]) -> int:
    """The listpack of a node, added up from its parts (Redis, t_stream.c)."""
    size = 7 + integer_size(len(entries)) + 2 + integer_size(len(names)) + sum(map(string_size, names))
    for entry_id, pairs in zip(ids, entries, strict=True):
        size += 2
        size += integer_size(signed_difference(entry_id >> SEQ_BITS, ids[0] >> SEQ_BITS))
        size += integer_size(signed_difference(entry_id & SEQ_MASK, ids[0] & SEQ_MASK))
        if pairs[::2] == names:
            size += sum(map(string_size, pairs[1::2])) + integer_size(len(names) + 3)
        else:
            size += integer_size(len(pairs) // 2) + sum(map(string_size, pairs)) + integer_size(len(pairs) + 4)
    return size + (2 if entries else 0)


def random_text(source: random.Random) -> bytes:
    """Empty, a number near a limit of its size or written otherwise, or a string near a limit of its."""
    edges = [0, 63, 64, 125, 126, 127, 128, 4095, 4096, 16377, 16378, *(2**bits for bits in (12, 15, 23, 31, 63, 64))]
    number = source.choice(edges) + source.randint(-2, 2)
    kind = source.random()
    if kind < 0.5:
        return b"%d" % (number * source.choice([1, -1]))
    if kind < 0.6:
        return source.choice([b"", b"-", b"-0", b"00", b"0", b"+1", b"1 ", b"9" * 19, b"9" * 20, b"-" + b"9" * 19])
    return source.choice([b"x", b"7", b"\r\n"]) * source.choice([1, 62, 63, 64, 125, 126, 4095, 4096, 16377, 16378])


@pytest.mark.skipif(not nodes.IS_COMPILED, reason="there is only the plain twin")
@pytest.mark.parametrize("seed", range(5))
def test_both_forms_count_alike(seed: int) -> None:
    print("seed", seed)
    source = random.Random(seed)
    halves = [0, 1, 126, 127, 128, 4095, 4096, 2**15, 2**23, 2**31, 2**63 - 1, 2**63, 2**64 - 1]
    for _ in range(20):
        names = [random_text(source)[:127] for _ in range(source.choice([1, 1, 2, 3, 130]))]
        ms, seq, data = array("Q"), array("Q"), b""
        for _ in range(source.choice([1, 5, 50 if len(names) < 5 else 3])):
            own = names if source.random() < 0.7 else [random_text(source)[:127] for _ in names[:3]]
            pairs = [text for name in own for text in (name, random_text(source))]
            ms.append(source.choice(halves))
            seq.append(source.choice(halves))
            entry_id = make_id(ms[-1], seq[-1])
            data += b"*2\r\n" + pack_command((format_id(entry_id),))[4:] + pack_command(tuple(pairs))
        size_max, entries_max = source.choice([1, 300, 4096, 2**30]), source.choice([0, 1, 10, 100])
        filled = (source.choice(halves), source.choice(halves), source.choice([0, 126, 127, 200]), 200, 1_000, names)
        for node in (None, filled):
            arguments = (data, ms, seq, size_max, entries_max, node)
            assert nodes.count_run(*arguments) == node_counts_plain.count_run(*arguments)


@pytest.mark.parametrize(("is_compiled", "chunks_count"), [(True, 2), (False, 0)])
def test_full_chunks_are_counted_when_they_are_if_that_is_quick_and_the_rest_when_asked_for(
    is_compiled: bool, chunks_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "IS_COMPILED", is_compiled)
    stream = Stream(Limits())
    for ms in range(1, 3_001):
        add(stream, b"%d-0" % ms)
    counted = sum(node.total for node in stream.nodes.nodes)
    assert counted == chunks_count * CHUNK_ENTRIES_MAX
    stream.settle_nodes()
    assert sum(node.total for node in stream.nodes.nodes) == 3_000
    assert all(node.total == 100 for node in stream.nodes.nodes)
    stream.check()


@pytest.mark.parametrize("seed", range(5))
def test_nodes_are_the_same_whether_counted_at_once_or_little_by_little(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    print("seed", seed)
    monkeypatch.setattr(stream_module, "IS_COMPILED", False)  # else full chunks are counted when they are
    source = random.Random(seed)
    texts = [b"", b"7", b"-12", b"0123", b"128", b"99999", b"x" * 63, b"y" * 64, b"z" * 4096, b"text", b"text9"]
    limits = Limits(node_entries_max=source.choice([0, 10, 300]), node_size_max=source.choice([200, 4096, 0]))
    streams = [Stream(limits) for _ in range(2)]
    ms, seq, entries = 5, 5, {}
    for _ in range(3_000):
        ms_step, seq_step = source.choice([(0, 1), (0, 200), (1, 0), (5000, 0), (1, -3)])
        ms, seq = ms + ms_step, max(seq + seq_step, 0)
        entry_id = make_id(ms, seq)
        names = source.choice([[b"f", b"g"], [b"f", b"g"], [b"other"]])
        pairs = [text for name in names for text in (name, source.choice(texts))]
        entries[entry_id] = pairs
        for stream in streams:
            stream.append(entry_id, b"*2\r\n" + pack_command((format_id(entry_id),))[4:] + pack_command(tuple(pairs)))
    streams[0].settle_nodes()
    steps = 0
    while streams[1].has_unsettled:
        streams[1].nodes.settle(streams[1].log, streams[1].limits, lambda: True)
        steps += 1
    assert steps > 1
    assert streams[0].nodes.nodes == streams[1].nodes.nodes
    for stream in streams:
        ids = iter(entries)
        for node in stream.nodes.nodes:
            own = list(islice(ids, node.live))
            assert (own[0], own[-1]) == (node.first_id, node.last_id)
            assert node.size == node_size(own, [entries[each] for each in own], node.field_names)
        stream.check()


STEPS = [0, 1, 126, 127, 128, 129, 4095, 4096, 2**15 - 1, 2**15, 2**23 - 1, 2**23, 2**31 - 1, 2**31, 2**62]


@pytest.mark.parametrize(
    "ids",
    [
        *([make_id(ms, 1) for ms in range(1, count + 1)] for count in (1, 126, 127, 128, 129, 4095, 4096, 4097)),
        *([make_id(5, 1), make_id(5 + step, 2)] for step in STEPS),
        *([make_id(5, 2**62), make_id(6, 2**62 + step)] for step in STEPS),
        *([make_id(5, 2**62), make_id(6, 2**62 - step)] for step in STEPS),
        [make_id(5, 0), make_id(6, U64_MAX)],
        [make_id(1, U64_MAX), make_id(U64_MAX, 0)],
    ],
)
def test_a_node_has_the_size_of_its_parts_whatever_the_ids(ids: list[int]) -> None:
    stream = Stream(Limits(node_size_max=0, node_entries_max=0))
    for entry_id in ids:
        add(stream, format_id(entry_id))
    stream.settle_nodes()
    (node,) = stream.nodes.nodes
    assert node.size == node_size(ids, [[b"f", b"v"]] * len(ids), [b"f"])


LENGTHS = [0, 1, 19, 20, 21, 62, 63, 64, 65, 125, 126, 4095, 4096]


@pytest.mark.parametrize(
    "value", [b"-7", b"a7", b"-0", *(char * length for char in (b"x", b"7") for length in LENGTHS)]
)
def test_a_node_has_the_size_of_its_parts_whatever_the_values(value: bytes) -> None:
    stream = Stream(Limits(node_size_max=0))
    add(stream, b"1-1", b"f", value)
    stream.settle_nodes()
    (node,) = stream.nodes.nodes
    assert node.size == node_size([make_id(1, 1)], [[b"f", value]], [b"f"])


def test_an_entry_opens_a_node_where_it_would_bring_the_last_one_to_its_limit() -> None:
    counts = []
    for room in (0, 1):
        limits = Limits(node_size_max=0)
        stream = Stream(limits)
        add(stream, b"1-1")
        stream.settle_nodes()
        limits.node_size_max = stream.nodes.nodes[0].size + len(b"other" + b"value") + room
        add(stream, b"2-1", b"other", b"value")
        stream.settle_nodes()
        counts.append(len(stream.nodes.nodes))
    assert counts == [2, 1]


@pytest.mark.parametrize("fields_count", [1, 60, 61, 62, 63, 122, 123, 124, 125, 127, 128])
def test_wide_entries_have_the_size_of_their_parts(fields_count: int) -> None:
    stream = Stream(Limits(node_size_max=0))
    names = [b"f%d" % number for number in range(fields_count)]
    entries = [[text for name in words for text in (name, b"v")] for words in (names, names, names[::-1])]
    for ms, pairs in enumerate(entries, 1):
        add(stream, b"%d-1" % ms, *pairs)
    stream.settle_nodes()
    (node,) = stream.nodes.nodes
    assert node.size == node_size([make_id(ms, 1) for ms in (1, 2, 3)], entries, names)
