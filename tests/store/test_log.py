"""The entry log compared with a sorted dict, through sealing, deletions and trims."""

from __future__ import annotations

import random
import tracemalloc
from array import array
from copy import deepcopy
from itertools import accumulate, pairwise, product

import pytest
from hiredis import pack_command

from headrace.store import chunk as chunk_module
from headrace.store import spans as spans_module
from headrace.store.ids import ID_MAX, ID_MIN, SEQ_BITS, SEQ_MASK, U64_MAX, format_id, id_after, make_id
from headrace.store.log import EntryLog
from headrace.store.spans import Piece


def entry_of(entry_id: int, size: int = 1) -> bytes:
    return b"*2\r\n" + pack_command((format_id(entry_id),))[4:] + pack_command((b"f", b"v" * size))


class Model:
    """What the log must look like."""

    def __init__(self) -> None:
        self.entries: dict[int, bytes] = {}
        # Every ID that ever was in the log.
        self.added: set[int] = set()

    def between(self, start: int, end: int) -> list[int]:
        return [entry_id for entry_id in sorted(self.entries) if start <= entry_id <= end]

    def bytes_of(self, ids: list[int]) -> bytes:
        return b"".join(self.entries[entry_id] for entry_id in ids)


def joined(pieces: list[Piece]) -> bytes:
    """All bytes, those that are produced later included."""
    return b"".join(piece if isinstance(piece, bytes) else b"".join(piece) for piece in pieces)


def assert_same(log: EntryLog, model: Model, rng: random.Random) -> None:
    log.check()
    assert log.ids(ID_MIN, ID_MAX) == model.between(ID_MIN, ID_MAX)
    assert [entry for entries in log.all_entries() for entry in entries] == sorted(model.entries.items())
    assert log.read_with_ids(ID_MIN, ID_MAX)[0] == model.between(ID_MIN, ID_MAX)
    assert log.read_back(ID_MIN, ID_MAX)[0] == len(model.entries)
    for entry_id in model.added:
        assert log.still_has(entry_id) == (entry_id in log) == (entry_id in model.entries)
    for _ in range(5):
        if log.still_has_all(*(pair := sorted(rng.choices(sorted(model.added) or [1], k=2)))):
            assert all(entry_id in model.entries for entry_id in model.added if pair[0] <= entry_id <= pair[1])
        chosen = sorted(model.entries)
        rng.shuffle(chosen)
        assert joined(log.get_many(chosen)) == model.bytes_of(chosen)
        start, end = make_id(rng.randrange(60), rng.randrange(3)), make_id(rng.randrange(60), rng.randrange(3))
        count = rng.choice([-1, 0, 1, 3, 100])
        ids = model.between(start, end)
        chosen = ids if count < 0 else ids[:count]
        taken, pieces = log.read(start, end, count)
        assert (taken, joined(pieces)) == (len(chosen), model.bytes_of(chosen))
        found, pieces = log.read_with_ids(start, end, count)
        assert (found, b"".join(pieces)) == (chosen, model.bytes_of(chosen))
        back = ids[::-1] if count < 0 else ids[::-1][:count]
        taken, pieces = log.read_back(start, end, count)
        assert (taken, joined(pieces)) == (len(back), model.bytes_of(back))
        assert list(log.entries(start, end)) == [(entry_id, model.entries[entry_id]) for entry_id in ids]
        assert log.count_between(start, end) == len(ids)
        assert log.count_after(start) == len([entry_id for entry_id in model.entries if entry_id > start])
        runs = list(log.runs(start, end))
        assert all(ms for ms, _, _ in runs)
        assert [make_id(*halves) for ms, seq, _ in runs for halves in zip(ms, seq, strict=True)] == ids
        assert b"".join(data for _, _, data in runs) == model.bytes_of(ids)
        assert log.has_all(ids)
        shuffled = rng.sample(ids, len(ids))
        assert log.has_all(shuffled)
        gone = rng.choice([start, id_after(start), ID_MAX, *list(model.added)[:20]])
        shuffled.insert(rng.randrange(len(ids) + 1), gone)
        assert log.has_all(shuffled) == (gone in model.entries)
        assert (start in log, log.get(start)) == (start in model.entries, model.entries.get(start))


@pytest.mark.parametrize("seed", range(12))
def test_log_agrees_with_a_sorted_dict_under_random_changes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    print("seed", seed)
    rng = random.Random(seed)
    monkeypatch.setattr(chunk_module, "CHUNK_ENTRIES_MAX", rng.choice([2, 5, 1024]))
    monkeypatch.setattr(chunk_module, "UNPACKED_CHUNKS_MAX", 1)
    monkeypatch.setattr(spans_module, "PIECES_AT_ONCE_MAX", rng.choice([1, 2, 16]))
    monkeypatch.setattr(chunk_module, "_packs_sealed", True)
    packs = random.Random(seed)
    log, model, last = EntryLog(), Model(), 0
    left_behind: list[tuple[EntryLog, Model]] = []
    for _ in range(150):
        if packs.random() < 0.1:
            pair = [(log, deepcopy(model)), (log.copy(), deepcopy(model))]
            packs.shuffle(pair)
            (log, model), old = pair
            left_behind.append(old)
        chunk_module.pack_sealed(packs.random() < 0.7)
        action = rng.random()
        if action < 0.6:
            last += rng.choice([1, 2, 1 << SEQ_BITS])
            model.entries[last] = entry_of(last, rng.randrange(50))
            model.added.add(last)
            log.append(last, model.entries[last])
        elif action < 0.63 and log.last_id < last:
            chosen = rng.randrange(log.last_id, last)
            last = chosen if chosen & SEQ_MASK <= U64_MAX else max(make_id(chosen >> SEQ_BITS, 0), log.last_id)
            log.allow_after(last)
        elif action < 0.85:
            entry_id = rng.choice([*model.entries, make_id(1, 1)])
            assert log.delete(entry_id) == (model.entries.pop(entry_id, None) is not None)
        else:
            count = rng.randrange(4)
            for entry_id in model.between(ID_MIN, ID_MAX)[:count]:
                del model.entries[entry_id]
            log.trim_head(count)
        assert_same(log, model, rng)
    left_behind.append((log.copy(), model))
    log.trim_head(len(model.entries))
    for each in left_behind:
        assert_same(*each, rng)


def test_a_copy_counts_its_own_bytes_however_many_entries_were_deleted() -> None:
    log = EntryLog()
    for seq in range(1, 2_001):
        log.append(make_id(1, seq), entry_of(make_id(1, seq)))
    for seq in range(1, 200, 2):
        log.delete(make_id(1, seq))
        log.copy().check()


def test_an_empty_log_has_no_entry_not_even_of_the_smallest_id() -> None:
    """Goal: the entry 0-0, which only a forged payload of RESTORE can contain, is never shown."""
    emptied = EntryLog()
    emptied.append(make_id(1, 0), entry_of(make_id(1, 0)))
    emptied.trim_head(1)
    for log in (EntryLog(), emptied):
        assert (ID_MIN in log, log.get(ID_MIN), log.delete(ID_MIN)) == (False, None, False)
        assert (log.still_has(ID_MIN), log.still_has_all(ID_MIN, ID_MIN)) == (False, False)
        assert (log.read(ID_MIN, ID_MAX), log.read_back(ID_MIN, ID_MAX)) == ((0, []), (0, []))
        assert (log.ids(ID_MIN, ID_MAX), log.count_between(ID_MIN, ID_MAX)) == ([], 0)
        log.check()


@pytest.mark.parametrize("chunk_entries_max", [2, 3, 1024])
def test_a_copy_and_its_original_grow_apart(chunk_entries_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_module, "CHUNK_ENTRIES_MAX", chunk_entries_max)
    log = EntryLog()
    for ms in range(1, 6):
        log.append(make_id(ms, 0), entry_of(make_id(ms, 0)))
    twin = log.copy()
    log.append(make_id(6, 0), entry_of(make_id(6, 0)))
    twin.append(make_id(7, 0), entry_of(make_id(7, 0)))
    twin.delete(make_id(2, 0))
    for each, ms in ((log, (1, 2, 3, 4, 5, 6)), (twin, (1, 3, 4, 5, 7))):
        each.check()
        ids = [make_id(number, 0) for number in ms]
        assert list(each.entries(ID_MIN, ID_MAX)) == [(entry_id, entry_of(entry_id)) for entry_id in ids]


@pytest.mark.parametrize("deleted", [(), (1, 4, 5, 8)])
def test_every_range_has_its_ends_wherever_chunks_begin_and_end(
    deleted: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_module, "CHUNK_ENTRIES_MAX", 3)
    log, model = EntryLog(), Model()
    for ms in range(1, 12):
        entry_id = make_id(ms, 5)
        log.append(entry_id, entry_of(entry_id))
        if ms not in deleted:
            model.entries[entry_id] = entry_of(entry_id)
    for ms in deleted:
        log.delete(make_id(ms, 5))
    edges = [make_id(ms, seq) for ms in range(1, 12) for seq in (4, 5, 6)]
    for start, end in product(edges, edges):
        ids = model.between(start, end)
        assert log.ids(start, end) == log.read_with_ids(start, end)[0] == ids
        assert (log.count_between(start, end), joined(log.read_back(start, end)[1])) == (
            len(ids),
            model.bytes_of(ids[::-1]),
        )


def test_it_is_plain_that_nothing_is_missing_until_something_goes_that_is_not_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunk_module, "CHUNK_ENTRIES_MAX", 2)
    log = EntryLog()
    for ms in range(1, 12):
        log.append(make_id(ms, 0), entry_of(make_id(ms, 0)))
    plain = []
    for deleted in (1, 2, 6, 5, 3):
        assert log.delete(make_id(deleted, 0))
        plain.append([log.still_has_all(make_id(first, 0), make_id(11, 0)) for first in (4, 6, 7)])
    # The first two went from the head, chunk and all; the sixth has left a hole, and the fifth a chunk between others.
    assert plain == [[True] * 3, [True] * 3, [False, False, True], [False] * 3, [False] * 3]


def test_neighbours_are_had_in_one_piece_and_others_in_as_many_as_there_are() -> None:
    log = EntryLog()
    ids = [make_id(ms, 0) for ms in range(1, 101)]
    for entry_id in ids:
        log.append(entry_id, entry_of(entry_id))
    assert [len(log.get_many(some)) for some in ([], ids[:1], ids, ids[::2], ids[::-1])] == [0, 1, 1, 50, 100]


def test_sealed_entries_come_back_byte_for_byte() -> None:
    log = EntryLog()
    entries = {make_id(1_700_000_000_000 + i // 3, i % 3): b"" for i in range(5000)}
    for index, entry_id in enumerate(entries):
        entries[entry_id] = entry_of(entry_id, index % 97)
        log.append(entry_id, entries[entry_id])
    taken, pieces = log.read(ID_MIN, ID_MAX)
    assert taken == 5000
    assert joined(pieces) == b"".join(entries.values())
    assert log.memory_size < sum(map(len, entries.values())) / 2


def test_chunks_that_are_sealed_unpacked_stay_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_module, "_packs_sealed", True)
    logs = EntryLog(), EntryLog()
    for log, is_packed in zip(logs, (True, False), strict=True):
        chunk_module.pack_sealed(is_packed)
        for number in range(5000):
            log.append(make_id(1, number), entry_of(make_id(1, number), number % 97))
    chunk_module.pack_sealed(True)
    packed, plain = logs
    chunk_module.drop_unpacked()
    assert joined(plain.read(ID_MIN, ID_MAX)[1]) == joined(packed.read(ID_MIN, ID_MAX)[1])
    plain_size = plain.memory_size
    assert plain_size > 5 * packed.memory_size
    chunk_module.drop_unpacked()
    plain.read(ID_MIN, ID_MAX)
    assert chunk_module.unpacked_size() == 0
    for number in range(5000, 15_000):
        plain.append(make_id(1, number), entry_of(make_id(1, number), number % 97))
    assert plain.memory_size < 2 * plain_size
    plain.check()


def test_the_chunks_read_last_stay_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_module, "CHUNK_ENTRIES_MAX", 10)
    monkeypatch.setattr(chunk_module, "UNPACKED_CHUNKS_MAX", 3)
    log = EntryLog()
    for seq in range(100):
        log.append(make_id(1, seq), entry_of(make_id(1, seq) + make_id(100, 100)))  # all of one size
    chunk_module.drop_unpacked()
    assert sum(map(len, log.all_entries())) == sum(len(ms) for ms, _, _ in log.runs(ID_MIN, ID_MAX)) == 100
    assert chunk_module.unpacked_size() == 0  # reading everything leaves nothing in the cache
    sizes = []
    for seq in range(5, 100, 10):
        log.read(make_id(1, seq - 5), make_id(1, seq + 4))
        sizes.append(chunk_module.unpacked_size())
    assert [size // sizes[0] for size in sizes] == [1, 2, *[3] * 8]
    twin = log.copy()
    assert twin.delete(make_id(1, 99))
    assert chunk_module.unpacked_size() == sizes[-1]  # the copy that an entry has left has what was unpacked
    assert twin.delete(make_id(1, 98))
    assert len(joined(twin.read(make_id(1, 90), make_id(1, 97))[1])) == 8 * len(entry_of(make_id(101, 100)))
    assert chunk_module.unpacked_size() == sizes[-1]
    chunk_module.drop_unpacked()
    assert chunk_module.unpacked_size() == 0


def test_memory_counts_open_and_sealed_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_module, "CHUNK_ENTRIES_MAX", 2)
    log, sizes = EntryLog(), [0]
    assert log.memory_size == 0
    for ms in range(1, 4):
        log.append(make_id(ms, 0), entry_of(make_id(ms, 0), 1000))
        sizes.append(log.memory_size)
    first, second, third = (after - before for before, after in pairwise(sizes))
    assert first > 1000
    assert third > 1000
    assert second < first  # sealed, and packed
    log.delete(make_id(3, 0))
    assert log.memory_size == sizes[2]


def test_the_overhead_of_chunks_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the fixed costs. Method: chunks of entries without content, whose IDs pack to almost nothing."""
    monkeypatch.setattr(chunk_module, "CHUNK_ENTRIES_MAX", 300)
    for is_packed in (True, False):
        chunk_module.pack_sealed(is_packed)
        tracemalloc.start()
        try:
            log = EntryLog()
            for ms in range(1, 300 * 100 + 1):
                log.append(make_id(ms, 0), b"")
            chunk_module.drop_unpacked()
            counted, held = log.memory_size, tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
            chunk_module.pack_sealed(True)
        assert held * 0.9 <= counted <= held * 1.25  # tracemalloc does not see what the allocator rounds up


def test_a_long_range_is_of_the_moment_it_was_asked_for() -> None:
    log = EntryLog()
    entries = {make_id(number, 0): entry_of(make_id(number, 0), number % 97) for number in range(1, 40_001)}
    for entry_id, entry in entries.items():
        log.append(entry_id, entry)
    expected = b"".join(entries.values())
    backwards = b"".join(reversed(entries.values()))
    taken, pieces = log.read(ID_MIN, ID_MAX)
    taken_back, pieces_back = log.read_back(ID_MIN, ID_MAX)
    assert taken == taken_back == len(entries)
    assert not isinstance(pieces[-1], bytes)
    assert not isinstance(pieces_back[-1], bytes)
    for number in range(2, 30_000):  # all but every third, so that chunks are compacted
        if number % 3:
            log.delete(make_id(number, 0))
    log.append(make_id(50_000, 0), entry_of(make_id(50_000, 0), 1))
    log.trim_head(20_000)
    assert joined(pieces) == expected
    assert joined(pieces_back) == backwards


@pytest.mark.parametrize("packs", [True, False])
def test_a_run_goes_in_as_its_entries_would_one_by_one(packs: bool) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    one_by_one, by_runs = EntryLog(), EntryLog()
    chunk_module.pack_sealed(packs)
    try:
        last_id = 0
        for _ in range(60):
            body, filled = chunk_module.Body(2**30, 2**30), False
            for _ in range(rng.choice((1, 2, 30, 2_500))):
                last_id += make_id(0, 1) if rng.random() < 0.5 else make_id(rng.randrange(1, 9), 0)
                entry = entry_of(last_id, rng.choice((1, 1, 9, 300, 70_000 if rng.random() < 0.01 else 5)))
                filled |= one_by_one.append(last_id, entry)
                body.append(last_id, entry)
            assert by_runs.append_run(body) == filled, f"seed {seed}"
    finally:
        chunk_module.pack_sealed(True)
    for log in (one_by_one, by_runs):
        log.check()
    assert list(by_runs._first_ids) == list(one_by_one._first_ids), f"seed {seed}"
    assert by_runs.length == one_by_one.length
    assert (by_runs.first_id, by_runs.last_id) == (one_by_one.first_id, one_by_one.last_id)
    assert list(by_runs.all_entries()) == list(one_by_one.all_entries())


@pytest.mark.parametrize("packs", [True, False])
@pytest.mark.parametrize("size", [1, 100, 700, 5_000])
def test_columns_go_in_as_their_entries_would_one_by_one(packs: bool, size: int) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    one_by_one, by_columns = EntryLog(), EntryLog()
    chunk_module.pack_sealed(packs)
    try:
        last_id = 0
        for number in range(30):
            ids, values, run_size = [], [], 0
            run_count = 1024 if number < 20 else rng.choice((1, 7, 1024))
            while len(ids) < run_count and run_size < chunk_module.CHUNK_SIZE_MAX:
                last_id += make_id(0, 1) if rng.random() < 0.5 else make_id(rng.randrange(1, 9), 0)
                pair = [b"%06d" % rng.randrange(10**6), rng.randbytes(rng.randrange(size))]
                text, fields = format_id(last_id), pack_command((b"n", pair[0], b"data", pair[1]))
                entry = b"*2\r\n$%d\r\n%b\r\n%b" % (len(text), text, fields)
                one_by_one.append(last_id, entry)
                ids.append(last_id)
                values += pair
                run_size += len(entry)
            ms, seq = array("Q", [each >> SEQ_BITS for each in ids]), array("Q", [each & SEQ_MASK for each in ids])
            ends = array("Q", accumulate(map(len, values)))
            by_columns.append_values((ms, seq, [b"n", b"data"], b"".join(values), ends))
            by_columns.check()
    finally:
        chunk_module.pack_sealed(True)
    assert list(by_columns._first_ids) == list(one_by_one._first_ids), f"seed {seed}"
    assert by_columns.length == one_by_one.length
    assert by_columns._sealed_size == one_by_one._sealed_size
    assert (by_columns.first_id, by_columns.last_id) == (one_by_one.first_id, one_by_one.last_id)
    assert list(by_columns.all_entries()) == list(one_by_one.all_entries())


@pytest.mark.parametrize("order", [1, -1])
def test_deleting_from_either_end_updates_the_edges(order: int) -> None:
    """Otherwise each deletion would look at all those before it."""
    log = EntryLog()
    ids = [make_id(1, seq) for seq in range(1, 501)]
    for entry_id in ids:
        log.append(entry_id, b"x")
    for count, entry_id in enumerate(ids[:-1][::order], 1):
        assert log.delete(entry_id)
        if order > 0:
            (chunk,) = log._chunks
            assert chunk.head == chunk.removed
            assert not chunk.dead
            assert log.first_id == ids[count]
    assert log.first_id == log.last_id == log.id_at(0) == ids[-1]
    assert log.delete(ids[-1])
    assert not log.length


# Values of entries: short ones become rows, long ones are compressed.
VALUES = {"rows": lambda number: b"%06d" % number, "zstd": lambda number: b"%06d" % number * 200}


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("kind", VALUES)
def test_deleting_at_random_gives_memory_back_as_it_goes(kind: str, is_packed: bool) -> None:
    rng = random.Random(7)
    chunk_module.pack_sealed(is_packed)
    try:
        log, entries = EntryLog(), {}
        for number in range(1, 5_001):
            entry_id = make_id(number, 0)
            entries[entry_id] = b"*2\r\n" + pack_command((format_id(entry_id),))[4:]
            entries[entry_id] += pack_command((b"f", VALUES[kind](number)))
            log.append(entry_id, entries[entry_id])
        full_size = log.memory_size
        for left in (4_000, 2_500, 1_200, 500, 50, 1):
            for entry_id in rng.sample(sorted(entries), len(entries) - left):
                del entries[entry_id]
                assert log.delete(entry_id)
            assert log.memory_size < full_size * max(4 * left / 5_000, 0.02) + 8_000
            log.check()
            assert joined(log.read(ID_MIN, ID_MAX)[1]) == b"".join(entries[each] for each in sorted(entries))
            assert joined(log.read_back(ID_MIN, ID_MAX)[1]) == b"".join(entries[each] for each in sorted(entries)[::-1])
        assert len(log._chunks) == 1
    finally:
        chunk_module.pack_sealed(True)


def test_a_queue_that_is_read_and_deleted_at_its_end_stays_small() -> None:
    log = EntryLog()
    for number in range(1, 5_000):
        log.append(make_id(number, 0), entry_of(make_id(number, 0), 50))
        if number % 100:
            assert log.delete(make_id(number, 0))
        assert log.memory_size < 40_000
    assert log.length == 49
    log.check()


def test_trimming_one_by_one_gives_memory_back() -> None:
    log = EntryLog()
    for number in range(1, 5_000):
        log.append(make_id(number, 0), entry_of(make_id(number, 0), 50))
        log.trim_head(max(log.length - 10, 0))
        assert log.memory_size < 16_000
    log.check()
    assert log.still_has_all(log.first_id, log.last_id)  # only the head was trimmed


def test_one_entry_of_short_ones_is_read_without_unpacking_the_others() -> None:
    log = EntryLog()
    ids = [make_id(number, 0) for number in range(1, 3_000)]
    for entry_id in ids:
        log.append(entry_id, entry_of(entry_id))
    chunk_module.drop_unpacked()
    for entry_id in ids[::100]:
        assert log.get(entry_id) == entry_of(entry_id)
        assert log.read(entry_id, entry_id) == (1, [entry_of(entry_id)])
        assert log.read_back(ID_MIN, entry_id, 1) == (1, [entry_of(entry_id)])
        assert entry_id in log
    assert log.delete(ids[50])
    assert chunk_module.unpacked_size() == 0
    for entry_id in ids[:50] * 20:  # but when many are, it is worth it
        log.get(entry_id)
    assert chunk_module.unpacked_size() > 0
    chunk_module.drop_unpacked()


def test_an_entry_is_found_by_how_many_are_below_it() -> None:
    rnd = random.Random(4)
    log = EntryLog()
    live = [make_id(1, seq) for seq in range(1, 4001)]
    for entry_id in live:
        log.append(entry_id, b"x")
    for entry_id in rnd.sample(live, 3000):
        log.delete(entry_id)
        live.remove(entry_id)
    assert [log.id_at(index) for index in range(len(live))] == live
    with pytest.raises(IndexError):
        log.id_at(len(live))
