"""A stream's counters: IDs, entries-read and lag, idempotence."""

from __future__ import annotations

import pytest
from hiredis import pack_command

from headrace import is_compiled
from headrace.store import chunk as chunk_module
from headrace.store.chunk import Body, Chunk
from headrace.store.errors import GenericError
from headrace.store.group import Group
from headrace.store.idempotence import Idempotence
from headrace.store.ids import ID_MAX, U64_MAX, format_id, make_id, parse_id
from headrace.store.limits import Limits
from headrace.store.stream import ENTRIES_ADDED_MAX, References, Stream
from headrace.store.trimming import Trim, trim


def add(stream: Stream, *texts: str) -> None:
    for text in texts:
        entry_id = parse_id(text.encode())
        stream.require_new_id(entry_id)
        stream.append(entry_id, b"*2\r\n" + pack_command((format_id(entry_id),))[4:] + pack_command((b"f", b"v")))


def five(position: str = "0", entries_read: int = -1) -> tuple[Stream, Group]:
    stream = Stream(Limits())
    add(stream, "1-1", "2-1", "3-1", "4-1", "5-1")
    group = stream.groups[b"g"] = Group(b"g", parse_id(position.encode()), entries_read)
    return stream, group


def read(stream: Stream, group: Group, count: int = -1) -> None:
    ids, _ = stream.log.read_with_ids(group.last_id + 1, ID_MAX, count)
    stream.advance(group, ids)


def delete(stream: Stream, text: str) -> None:
    assert stream.delete(parse_id(text.encode()))


@pytest.mark.parametrize("added_before", [0, 1, ENTRIES_ADDED_MAX - 2])
def test_a_run_is_added_as_its_entries_are_one_by_one(added_before: int) -> None:
    """Goal: a log read in runs leaves the counters, the ends and the nodes that its records leave."""
    one, other = five()[0], five()[0]
    one.entries_added = other.entries_added = added_before
    texts = [f"{ms}-{seq}" for ms in range(6, 700) for seq in range(2)]
    add(one, *texts)
    run = Body(2**30, 2**30)
    for text in texts:
        entry_id = parse_id(text.encode())
        run.append(entry_id, b"*2\r\n" + pack_command((format_id(entry_id),))[4:] + pack_command((b"f", b"v")))
    other.append_run(run)
    for stream in (one, other):
        stream.check()
    assert (other.last_id, other.entries_added, len(other)) == (one.last_id, one.entries_added, len(one))
    assert (other.log.first_id, other.log.last_id) == (one.log.first_id, one.log.last_id)
    assert list(other.log.all_entries()) == list(one.log.all_entries())
    assert trim(other, Trim(length_max=300, approximate=True)) == trim(one, Trim(length_max=300, approximate=True))


def test_generated_ids_never_go_back_when_the_clock_does() -> None:
    stream = Stream(Limits())
    assert stream.next_id(5) == make_id(5, 0)
    add(stream, "7-3")
    assert stream.next_id(5) == make_id(7, 4)
    assert stream.next_id(8) == make_id(8, 0)
    assert (stream.next_id_in(7), stream.next_id_in(8)) == (make_id(7, 4), make_id(8, 0))
    add(stream, f"8-{U64_MAX}")
    assert stream.next_id(8) == make_id(9, 0)
    assert stream.next_id_in(9) == make_id(9, 0)
    with pytest.raises(GenericError, match="equal or smaller than the target stream top item"):
        stream.next_id_in(8)
    add(stream, f"{U64_MAX}-{U64_MAX}")
    with pytest.raises(GenericError, match="exhausted the last possible ID"):
        stream.next_id(8)


def test_only_an_entry_that_is_there_is_deleted_and_remembered() -> None:
    stream, _ = five()
    assert [stream.delete(make_id(ms, 1)) for ms in (6, 3, 3, 2, 0)] == [False, True, False, True, False]
    assert stream.max_deleted_id == make_id(3, 1)
    assert not stream.remove(make_id(9, 9), keep_node=False)
    assert stream.remove(make_id(4, 1), keep_node=False)
    assert (len(stream), stream.max_deleted_id) == (2, make_id(3, 1))
    stream.check()


def test_lag_of_a_new_group_is_the_length_and_reading_makes_it_exact() -> None:
    stream, group = five()
    assert (group.entries_read, stream.lag(group)) == (-1, 5)
    read(stream, group, 2)
    assert (group.entries_read, stream.lag(group)) == (2, 3)


def test_a_new_group_has_counted_nothing() -> None:
    _, group = five()
    pending = group.pending
    counts = (pending.delivered_total, pending.claimed_total, pending.acked_total)
    assert (*counts, pending.released_total, pending.fatal_released_total) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("deleted", "length_max", "position", "count"),
    [
        ("", 5, "0", 0),
        ("", 5, "0-5", 0),
        ("", 5, "1-1", 1),
        ("", 5, "3-1", None),  # nothing says how many lie between
        ("", 5, "5-1", 5),
        ("", 5, "5-2", None),
        ("", 2, "3-9", 3),
        ("", 2, "4-1", 4),
        ("", 0, "3-1", 5),
        ("", 0, "6-0", None),
        ("2-1", 5, "1-1", None),
        ("2-1", 5, "0", None),
        ("2-1", 2, "4-1", 4),
        ("1-1", 5, "0", 1),
        ("1-1 2-1", 5, "1-1", None),  # one of two that were removed
        ("5-1", 5, "5-1", 5),
    ],
)
def test_entries_up_to_an_id_are_counted_where_they_can_be(
    deleted: str, length_max: int, position: str, count: int | None
) -> None:
    stream, _ = five()
    for entry_id in deleted.split():
        delete(stream, entry_id)
    trim(stream, Trim(length_max=length_max))
    assert stream.entries_up_to(parse_id(position.encode())) == count


def test_a_stream_that_never_had_entries_has_none_up_to_any_id() -> None:
    assert Stream(Limits()).entries_up_to(ID_MAX) == 0


def test_a_group_does_not_go_back() -> None:
    stream, group = five()
    read(stream, group, 3)
    stream.advance(group, [make_id(1, 1), make_id(2, 1)])
    assert (group.last_id, group.entries_read) == (make_id(3, 1), 3)
    stream.advance(group, [make_id(2, 1), make_id(4, 1)])
    assert (group.last_id, group.entries_read) == (make_id(4, 1), 4)
    stream.advance(group, [make_id(4, 1), make_id(5, 1)])
    assert (group.last_id, group.entries_read) == (make_id(5, 1), 5)


def test_counts_that_were_set_are_taken_as_they_are() -> None:
    stream, group = five()
    stream.entries_added = 0  # XSETID s 5-1 ENTRIESADDED 0
    read(stream, group, 1)
    assert (group.last_id, group.entries_read) == (make_id(1, 1), -1)
    stream.entries_added = 2**63 - 2
    add(stream, "6-1")
    assert stream.entries_added == 2**63 - 1
    add(stream, "7-1")
    assert stream.entries_added == 2**63 - 1 == ENTRIES_ADDED_MAX


def test_a_new_consumer_has_never_been_active_and_leaves_with_what_it_owns() -> None:
    _, group = five()
    consumer = group.add_consumer(b"c", 10)
    assert (consumer.active_ms, group.remove_consumer(b"x")) == (-1, None)
    group.pending.deliver([make_id(1, 1), make_id(2, 1)], consumer, time_ms=10, count=1)
    assert (group.remove_consumer(b"c"), group.consumers, len(group.pending)) == (2, {}, 0)


def test_trimming_with_delref_takes_entries_from_every_pending_list() -> None:
    stream, group = five()
    other = stream.groups[b"h"] = Group(b"h", 0)
    for each in (group, other):
        consumer = each.add_consumer(b"c", 10)
        each.pending.deliver([make_id(1, 1), make_id(2, 1)], consumer, time_ms=10, count=1)
    trim(stream, Trim(length_max=4, references=References.DELETE))
    assert [each.pending.first_ids(0, 9) for each in (group, other)] == [[make_id(2, 1)]] * 2
    trim(stream, Trim(length_max=3))
    assert [each.pending.first_ids(0, 9) for each in (group, other)] == [[make_id(2, 1)]] * 2


def test_an_entry_is_referenced_until_every_group_has_got_and_acknowledged_it() -> None:
    stream, group = five("2-1")
    stream.groups[b"h"] = Group(b"h", make_id(4, 1))
    consumer = group.add_consumer(b"c", 10)
    group.pending.deliver([make_id(1, 1)], consumer, time_ms=10, count=1)
    assert [stream.is_referenced(make_id(ms, 1)) for ms in (1, 2, 3, 4, 5)] == [True, False, True, True, True]
    group.last_id = make_id(5, 1)
    assert [stream.is_referenced(make_id(ms, 1)) for ms in (1, 2, 3, 4, 5)] == [True, False, False, False, True]


def test_setting_the_last_id_to_what_it_is_changes_nothing() -> None:
    stream, _ = five()
    stream.set_last_id(make_id(5, 1))
    assert stream.log.still_has_all(make_id(1, 1), make_id(5, 1))
    stream.set_last_id(make_id(9, 1))
    add(stream, "9-2")
    assert stream.log.still_has_all(make_id(1, 1), make_id(9, 2))


def test_an_empty_stream_has_no_later_hole() -> None:
    stream, group = five()
    assert not stream.has_later_hole(group)
    stream, group = five("1-1", 1)
    for text in ("2-1", "3-1", "4-1", "5-1"):
        delete(stream, text)
    assert stream.has_later_hole(group)
    delete(stream, "1-1")
    assert not stream.has_later_hole(group)


def test_a_later_deleted_entry_makes_lag_unknown_until_the_group_reads_to_the_end() -> None:
    stream, group = five()
    read(stream, group, 2)
    delete(stream, "4-1")
    assert (group.entries_read, stream.lag(group)) == (2, None)
    read(stream, group, 1)
    assert (group.entries_read, stream.lag(group)) == (-1, None)
    read(stream, group, 1)
    assert (group.entries_read, stream.lag(group)) == (5, 0)


@pytest.mark.parametrize(
    ("position", "deleted", "lag"),
    [("2-1", "4-1", 2), ("3-1", "3-1", 2), ("0", "1-1", 4), ("1-0", "5-1", 4), ("5-1", "2-1", 0), ("9-9", "2-1", 0)],
)
def test_an_exact_lag_counts_the_live_entries_after_the_position(position: str, deleted: str, lag: int) -> None:
    stream, group = five(position)
    stream.limits.counts_lag = True
    delete(stream, deleted)
    assert stream.lag(group) == lag


@pytest.mark.skipif(is_compiled(), reason="methods of compiled classes call each other whatever is put in")
def test_an_exact_lag_looks_at_the_chunks_of_the_nearer_end_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: no entry is looked at one by one, and of a long stream only the shorter part."""
    monkeypatch.setattr(chunk_module, "CHUNK_ENTRIES_MAX", 10)
    stream = Stream(Limits())
    add(stream, *(f"{ms}-0" for ms in range(1, 1001)))
    assert stream.delete(make_id(500, 0))
    looked_at: list[Chunk] = []
    live = Chunk.live.fget
    assert live is not None

    def noted(chunk: Chunk) -> int:
        looked_at.append(chunk)
        return live(chunk)

    monkeypatch.setattr(Chunk, "live", property(noted))
    for ms, chunks_count in ((35, 4), (955, 4), (495, 50)):
        looked_at.clear()
        assert stream.log.count_after(make_id(ms, 0)) == 1000 - ms - (ms < 500)
        assert len(looked_at) == chunks_count


def test_a_group_created_in_the_middle_has_no_lag() -> None:
    stream, group = five("3-1")
    assert stream.lag(group) is None
    stream, group = five("1-1")
    assert stream.lag(group) == 4


@pytest.mark.parametrize(("deleted", "lag"), [("2-1", 2), ("3-1", None)])
def test_deleting_before_the_group_position_keeps_lag_and_deleting_at_it_does_not(
    deleted: str, lag: int | None
) -> None:
    stream, group = five()
    read(stream, group, 3)
    delete(stream, deleted)
    assert (group.entries_read, stream.lag(group)) == (3, lag)


def test_trimming_past_the_group_keeps_lag_and_the_next_read_catches_up() -> None:
    stream, group = five()
    read(stream, group, 1)
    trim(stream, Trim(length_max=2))
    assert (group.entries_read, stream.lag(group)) == (1, 2)
    read(stream, group, 1)
    assert (group.entries_read, stream.lag(group)) == (4, 1)


def test_max_deleted_id_at_the_first_entry_makes_lag_unknown() -> None:
    stream, group = five()
    stream.max_deleted_id = make_id(0, 9)  # XSETID s 5-1 MAXDELETEDID 0-9
    assert stream.lag(group) == 5
    stream.max_deleted_id = make_id(1, 1)
    assert stream.lag(group) is None


@pytest.mark.parametrize("read_count", [0, 2])
def test_lag_is_zero_without_entries(read_count: int) -> None:
    stream, group = five()
    if read_count:
        read(stream, group, read_count)
    trim(stream, Trim(length_max=0))
    assert stream.lag(group) == 0


def test_a_lowered_last_id_lets_lower_ids_in_again() -> None:
    stream, _ = five()
    trim(stream, Trim(length_max=0))
    stream.set_last_id(make_id(1, 0))
    add(stream, "1-5", "2-0")
    stream.check()
    assert stream.log.ids(0, ID_MAX) == [make_id(1, 5), make_id(2, 0)]


def test_a_copy_shares_nothing() -> None:
    stream, group = five()
    read(stream, group, 2)
    consumer = group.add_consumer(b"c", 10)
    group.pending.deliver([make_id(1, 1), make_id(2, 1)], consumer, time_ms=10, count=3)
    twin = stream.copy()
    delete(stream, "1-1")
    stream.groups[b"g"].pending.drop(make_id(1, 1))
    assert len(twin) == 5
    delivery = twin.groups[b"g"].pending.get(make_id(1, 1))
    assert delivery is not None
    assert delivery.count == 3
    twin.check()


def test_a_copy_of_a_short_stream_becomes_the_same_stream_which_may_grow() -> None:
    for is_settled in (False, True):
        stream = Stream(Limits())
        add(stream, "1-0", "2-0", "5-0")
        stream.set_last_id(make_id(9, 9))
        stream.max_deleted_id, stream.entries_added = make_id(8, 8), 70
        stream.idempotence.added, stream.idempotence.duplicates = 3, 4
        if is_settled:
            stream.settle_nodes()
        short = stream.short()
        assert short is not None
        twin = Stream.of_short(short, stream.limits)
        assert twin.memory_size <= stream.memory_size
        for each in (stream, twin):
            each.check()
            add(each, "10-0")
            each.check()
        assert twin.short() == stream.short()
        assert twin.log.read(0, ID_MAX) == stream.log.read(0, ID_MAX)


def test_idempotent_pairs_make_room_expire_and_are_forgotten_on_a_new_setting() -> None:
    pairs = Idempotence(duration_s=10, entries_max=2)
    for seq in range(3):
        pairs.record(b"p", b"i%d" % seq, make_id(1000 + seq, 0))
    assert [pairs.find(b"p", b"i%d" % seq) for seq in range(3)] == [None, make_id(1001, 0), make_id(1002, 0)]
    pairs.expire(11_001)
    assert (pairs.find(b"p", b"i1"), pairs.pairs_count) == (None, 1)
    assert not pairs.configure(10, 0)
    assert pairs.configure(11, 0)
    assert (pairs.pairs_count, pairs.added, pairs.duplicates, pairs.producers) == (0, 3, 0, {})


def test_a_producer_is_forgotten_with_its_last_pair() -> None:
    pairs = Idempotence(duration_s=10, entries_max=2)
    pairs.record(b"p", b"i", make_id(1000, 0))
    pairs.record(b"q", b"i", make_id(1001, 0))
    pairs.expire(10_999)
    assert list(pairs.producers) == [b"p", b"q"]
    pairs.expire(11_000)
    assert list(pairs.producers) == [b"q"]


def test_a_copy_of_the_pairs_is_one_of_its_own() -> None:
    pairs = Idempotence(duration_s=10, entries_max=2)
    for seq in range(3):
        pairs.record(b"p", b"i%d" % seq, make_id(1000 + seq, 0))
    pairs.duplicates = 4
    twin = pairs.copy()
    pairs.forget(b"p", b"i2")
    assert (pairs.find(b"p", b"i2"), twin.find(b"p", b"i2")) == (None, make_id(1002, 0))
    assert (twin.duration_s, twin.entries_max, twin.added, twin.duplicates) == (10, 2, 3, 4)
    twin.record(b"p", b"i3", make_id(1003, 0))
    assert [twin.find(b"p", b"i%d" % seq) for seq in range(4)] == [None, None, make_id(1002, 0), make_id(1003, 0)]


def test_a_forgotten_pair_leaves_its_place_to_another() -> None:
    pairs = Idempotence(duration_s=10, entries_max=2)
    pairs.record(b"p", b"a", make_id(1000, 0))
    pairs.record(b"p", b"b", make_id(1001, 0))
    pairs.forget(b"p", b"a")
    pairs.record(b"p", b"a", make_id(1002, 0))
    assert (pairs.find(b"p", b"a"), pairs.find(b"p", b"b"), pairs.pairs_count) == (
        make_id(1002, 0),
        make_id(1001, 0),
        2,
    )
