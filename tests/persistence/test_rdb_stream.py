"""Streams as RDB values: the bytes of Redis, everything comes back, and what is damaged is refused.

Expected bytes are those of DUMP by Redis 8.10.2, whose IDs and times they hold.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from headrace.persistence.errors import RdbError
from headrace.persistence.grammar import codec_plain
from headrace.persistence.rdb import node_codec_plain, payload
from headrace.persistence.rdb.file import write_file
from headrace.persistence.rdb.primitives import IS_COMPILED, crc64
from headrace.persistence.rdb.source import Source
from headrace.persistence.rdb.stream import WITH_RELEASED, encode_stream, read_stream
from headrace.persistence.snapshot import key_records, snapshot
from headrace.store.database import Store
from headrace.store.group import Group
from headrace.store.ids import ID_MAX, make_id, parse_id
from headrace.store.image import KeyImage, ShortStreamsImage, parts_now, stream_image
from headrace.store.limits import Limits
from headrace.store.stream import Stream
from support.inprocess import START_MS, Rig

try:
    from headrace.persistence.grammar import codec
    from headrace.persistence.rdb import node_codec
except ImportError:
    codec = None  # type: ignore[assignment]
    node_codec = None  # type: ignore[assignment]

NOW_MS = START_MS
ONE_NODE = "01 10 0000000000000001 0000000000000001"
ONE_ENTRY = ONE_NODE + "1d 1d000000 0a00 0101 0001 0101 816602 0001 0201 0001 0001 817602 0401 ff"
NO_PRODUCERS = "40 64 40 64 00 00 00"


def stream_of(*lines: str) -> Stream:
    """The stream `s` that these commands make."""
    rig = Rig()
    caller = rig.connect()
    for line in lines:
        assert not caller.call(line).startswith(b"-"), line
    stream = rig.server.store.databases[0].keys[b"s"]
    assert isinstance(stream, Stream)
    return stream


def encoded(stream: Stream, *, now_ms: int = NOW_MS, compress: bool = False) -> bytes:
    stream.settle_nodes()
    return b"".join(encode_stream(stream_image(stream), now_ms=now_ms, compress=compress))


def decoded(data: bytes, kind: int = WITH_RELEASED, now_ms: int = NOW_MS) -> Stream:
    """The stream of these bytes, which are all there are."""
    source = Source([data])
    stream = read_stream(source, kind, Limits(), now_ms=now_ms)
    assert b"".join(source.rest()) == b""
    stream.check()
    return stream


def told(stream: Stream) -> dict[str, Any]:
    """Everything there is to know about a stream, deleted entries aside."""
    stream.settle_nodes()
    idempotence = stream.idempotence
    return {
        "entries": list(stream.log.entries(0, ID_MAX)),
        "counters": (stream.last_id, stream.max_deleted_id, stream.entries_added),
        "nodes": [(node.first_id, node.live, node.field_names) for node in stream.nodes.nodes],
        "groups": [
            (
                group.name,
                group.last_id,
                group.entries_read,
                [(each.name, each.seen_ms, each.active_ms, each.pending_count) for each in group.sorted_consumers()],
                [
                    (entry_id, delivery.consumer and delivery.consumer.name, delivery.time_ms, delivery.count)
                    for entry_id, delivery in group.pending.walk_by_time()
                ],
            )
            for group in stream.sorted_groups()
        ],
        "settings": (idempotence.duration_s, idempotence.entries_max, idempotence.added, idempotence.duplicates),
        "producers": {name: producer.pairs() for name, producer in idempotence.producers.items()},
    }


# -- the bytes of Redis ------------------------------------------------------------------------------

MANY = [f"XADD s {1 + index // 3}-{index} temp {index} hum {index * 7}" for index in range(150)]
EXAMPLES = {
    "one entry": (["XADD s 1-1 f v"], ONE_ENTRY + "01 0101 0101 0000 01 00" + NO_PRODUCERS),
    "an empty stream": (["XADD s 1-1 a 1", "XDEL s 1-1"], "00 00 0101 0000 0101 01 00" + NO_PRODUCERS),
    "an empty group": (
        ["XGROUP CREATE s g $ MKSTREAM"],
        "00 00 0000 0000 0000 00 01 0167 0000 81ffffffffffffffff 00 00 00" + NO_PRODUCERS,
    ),
    "a field of another name": (
        ["XADD s 1-1 temp 20 hum 50", "XADD s 5-0 other x"],
        ONE_NODE + "3b 3b000000 1300 0201 0001 0201 8474656d7005 8368756d04 0001"
        "0201 0001 0001 1401 3201 0501 0001 0401 dfff02 0101 856f7468657206 817802 0601 ff"
        "02 0500 0101 0000 02 00" + NO_PRODUCERS,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "shown"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_streams_are_written_as_redis_writes_them(lines: list[str], shown: str) -> None:
    data = bytes.fromhex(shown)
    stream = stream_of(*lines)
    assert encoded(stream).hex(" ") == data.hex(" ")
    assert told(decoded(data)) == told(stream)


def test_the_payload_of_redis_for_one_entry_is_ours() -> None:
    shown = bytes.fromhex("1b" + ONE_ENTRY + "01 0101 0101 0000 01 00" + NO_PRODUCERS + "0f00 3eacbb82d09c835e")
    stream = stream_of("XADD s 1-1 f v")
    assert b"".join(payload.dump(stream, now_ms=NOW_MS)) == shown
    assert payload.is_intact(shown)
    restored = payload.restore(shown, Limits(), now_ms=NOW_MS)
    assert isinstance(restored, Stream)
    assert told(restored) == told(stream)


def test_deleted_entries_are_read_over() -> None:
    """1-1, 1-2 and 5-0, of which XDEL took 1-2."""
    data = bytes.fromhex(
        ONE_NODE + "40 47 47000000 1900 0201 0101 0201 8474656d7005 8368756d04 0001"
        "0201 0001 0001 1401 3201 0501  0301 0001 0101 1501 3301 0501"
        "0001 0401 dfff02 0101 856f7468657206 817802 0601 ff"
        "02 0500 0101 0102 03 00" + NO_PRODUCERS
    )
    stream = decoded(data)
    lines = ["XADD s 1-1 temp 20 hum 50", "XADD s 1-2 temp 21 hum 51", "XADD s 5-0 other x", "XDEL s 1-2"]
    assert told(stream) == told(stream_of(*lines))
    assert [(node.live, node.total, node.size) for node in stream.nodes.nodes] == [(2, 3, 71)]


GROUP_HEAD = "01 0167 0201 02  02"
TWO_PENDING = "00000000000000010000000000000001 c838bdfca1010000 0100000000000000020000000000000001 0000000000000000 01"
CONSUMERS = (
    "02 0163 c838bdfca1010000 c838bdfca1010000 01 00000000000000010000000000000001"
    "0469646c65 9f38bdfca1010000 ffffffffffffffff 00"
)
RELEASED = "01 00000000000000020000000000000001"
NO_ENTRIES = "00 00 0201 0000 0000 02"


def test_groups_are_read_and_written_as_redis_does() -> None:
    data = bytes.fromhex(NO_ENTRIES + GROUP_HEAD + TWO_PENDING + CONSUMERS + RELEASED + NO_PRODUCERS)
    stream = decoded(data)
    group = stream.groups[b"g"]
    assert (group.last_id, group.entries_read) == (make_id(2, 1), 2)
    assert list(group.pending.released) == [make_id(2, 1)]
    delivered_ms = 0x1A1FCBD38C8
    assert told(stream)["groups"][0][3:] == (
        [(b"c", delivered_ms, delivered_ms, 1), (b"idle", delivered_ms - 41, -1, 0)],
        [(make_id(2, 1), None, 0, 1), (make_id(1, 1), b"c", delivered_ms, 1)],
    )
    assert encoded(stream) == data


PRODUCERS = "412c 32 01 027031 01 0469696431 81000001a1fcbd3a03 00 01 01"
IDEMPOTENT_MS = 1795241622019


@pytest.mark.parametrize(("age_ms", "is_remembered"), [(0, True), (299_999, True), (300_000, False)])
def test_idempotent_ids_are_kept_until_they_expire(age_ms: int, is_remembered: bool) -> None:
    data = bytes.fromhex("00 00 0000 0000 0000 00 00" + PRODUCERS)
    now_ms = IDEMPOTENT_MS + age_ms
    idempotence = decoded(data, now_ms=now_ms).idempotence
    assert (idempotence.duration_s, idempotence.entries_max) == (300, 50)
    assert (idempotence.added, idempotence.duplicates) == (1, 1)
    assert (idempotence.find(b"p1", b"iid1") is not None) is is_remembered
    stream = decoded(data, now_ms=IDEMPOTENT_MS)
    assert (b"\x04iid1" in encoded(stream, now_ms=now_ms)) is is_remembered


def test_an_expired_idempotent_id_is_left_out_wherever_it_is_in_the_file() -> None:
    producers = "412c 32 01 027031 02 0469696431 81000001a1fcbd3a03 00 0469696432 01 00 01 01"
    stream = decoded(bytes.fromhex("00 00 0000 0000 0000 00 00" + producers), now_ms=IDEMPOTENT_MS)
    assert [iid for iid, _ in stream.idempotence.producers[b"p1"].pairs()] == [b"iid1"]
    assert told(decoded(encoded(stream, now_ms=IDEMPOTENT_MS), now_ms=IDEMPOTENT_MS)) == told(stream)


OLDER = {
    15: "01 0101 01 0167 0101" + "01 00000000000000010000000000000001 0500000000000000 02"
        "01 0163 0700000000000000 01 00000000000000010000000000000001",
    19: "01 0101 0101 0000 01 01 0167 0101 01" + "01 00000000000000010000000000000001 0500000000000000 02"
        "01 0163 0700000000000000 01 00000000000000010000000000000001",
    21: "01 0101 0101 0000 01 01 0167 0101 01" + "01 00000000000000010000000000000001 0500000000000000 02"
        "01 0163 0700000000000000 0700000000000000 01 00000000000000010000000000000001",
    26: "01 0101 0101 0000 01 01 0167 0101 01" + "01 00000000000000010000000000000001 0500000000000000 02"
        "01 0163 0700000000000000 0700000000000000 01 00000000000000010000000000000001" + NO_PRODUCERS,
    27: "01 0101 0101 0000 01 01 0167 0101 01" + "01 00000000000000010000000000000001 0500000000000000 02"
        "01 0163 0700000000000000 0700000000000000 01 00000000000000010000000000000001 00" + NO_PRODUCERS,
}  # fmt: skip


@pytest.mark.parametrize("kind", OLDER)
def test_older_types_are_read(kind: int) -> None:
    stream = decoded(bytes.fromhex(ONE_ENTRY + OLDER[kind]), kind)
    assert told(stream) == told(decoded(bytes.fromhex(ONE_ENTRY + OLDER[27])))


# -- everything comes back ---------------------------------------------------------------------------

RICH = [
    *MANY,
    "XADD s 900-1 other \xff\0 -0 9223372036854775808",
    "XDEL s 1-1 20-58",
    "XCFGSET s IDMP-DURATION 300",
    "XGROUP CREATE s g 0",
    "XGROUP CREATECONSUMER s g idle",
    "XREADGROUP GROUP g c1 COUNT 60 STREAMS s >",
    "XREADGROUP GROUP g c2 COUNT 60 STREAMS s >",
    "XCLAIM s g c2 0 2-3 TIME 1000 RETRYCOUNT 7",
    "XNACK s g FATAL IDS 2 3-6 2-4",
    "XNACK s g SILENT IDS 1 10-27",
    "XACK s g 5-12",
    "XGROUP CREATE s unknown 7-1",
    "XADD s IDMP p1 i1 * a 1",
    "XADD s IDMP p1 i2 * a 2",
    "XADD s IDMP p2 i1 * a 3",
    "XADD s IDMP p2 i1 * a 3",
]


@pytest.mark.parametrize("compress", [False, True])
def test_everything_comes_back(compress: bool) -> None:
    stream = stream_of(*RICH)
    twin = decoded(encoded(stream, compress=compress))
    assert told(twin) == told(stream)
    assert encoded(twin) == encoded(stream)


def test_an_image_has_the_nodes_of_its_stream() -> None:
    """Also those of entries that were added since the nodes were computed, and after entries were deleted."""
    stream = stream_of(*MANY, "XDEL s 1-0 1-1 4-10", "XADD s 900-1 f v")
    image = stream_image(stream)
    stream.settle_nodes()
    assert image.nodes.settled_id < stream.nodes.settled_id
    assert b"".join(encode_stream(image, now_ms=NOW_MS, compress=False)) == encoded(stream)
    assert stream.nodes.nodes[0].first_id == make_id(1, 0)


def test_other_work_runs_between_two_runs_of_entries_and_not_in_a_short_stream() -> None:
    assert b"" not in list(encode_stream(stream_image(stream_of("XADD s 1-1 f v")), now_ms=NOW_MS, compress=False))[:1]
    long = Stream(Limits())
    for number in range(1, 4000):
        entry_id = make_id(number, 0)
        long.append(entry_id, b"*2\r\n$%d\r\n%d-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n" % (len(str(number)) + 2, number))
    image = stream_image(long)
    image.nodes.nodes.clear()
    image.nodes.settled_id = 0
    pieces = list(encode_stream(image, now_ms=NOW_MS, compress=False))
    assert pieces[:4] == [b""] * 3 + [pieces[3]] != [b""] * 4


FORMS = [node_codec_plain, *([node_codec] if node_codec is not None else [])]
CODECS = [codec_plain, *([codec] if codec is not None else [])]
SHORT = {
    "one entry": ("XADD s 5-7 f v",),
    "several entries": ("XADD s 5-7 f v g 17", "XADD s 5-9 f -3 g ''", "XADD s 900-0 h v", "XSETID s 1700000000000-3"),
    "settled": ("XADD s 5-7 f v", "XTRIM s MAXLEN 9", "XADD s 6-7 g w"),
    "counters": ("XADD s 1-1 f v", "XSETID s 9-9 ENTRIESADDED 70000 MAXDELETEDID 8-8"),
    "an idempotent entry whose pair is gone": (
        "XADD s IDMP p i * f v",
        "XCFGSET s IDMP-DURATION 7",
        "XCFGSET s IDMP-DURATION 100",
    ),
    "large numbers": ("XADD s 18446744073709551615-5 f v", "XSETID s 18446744073709551615-18446744073709551615"),
    "fields that repeat": tuple(f"XADD s {number}-0 name {'v' * number}" for number in range(1, 20)),
}
TEN = tuple(f"XADD s {number}-1 f v" for number in range(1, 11))
# Short streams with groups, which only files have in this form.
WITH_GROUPS = {
    "a group": ("XADD s 1-1 f v", "XGROUP CREATE s g 0"),
    "a group that has read": (*TEN, "XGROUP CREATE s g 0", "XREADGROUP GROUP g c NOACK COUNT 4 STREAMS s >"),
    "groups": (
        *TEN,
        *(f"XGROUP CREATE s {name} 3-1 ENTRIESREAD {number}" for number, name in enumerate(("z", "-0", "7", "g" * 40))),
        "XGROUP CREATE s last 18446744073709551615-18446744073709551615",
    ),
    "consumers without entries": (
        *TEN,
        "XGROUP CREATE s g 0",
        *(f"XGROUP CREATECONSUMER s g {name}" for name in ("z", "12", "a" * 30)),
    ),
    "pending entries": (*TEN, "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >", "XACK s g 4-1 10-1"),
    "pending entries of several owners": (
        *TEN,
        "XGROUP CREATE s g 0",
        "XGROUP CREATE s h 5-1",
        "XREADGROUP GROUP g z COUNT 3 STREAMS s >",
        "XREADGROUP GROUP g a COUNT 4 STREAMS s >",
        "XREADGROUP GROUP h z STREAMS s >",
        "XCLAIM s g b 0 2-1 7-1 TIME 9 RETRYCOUNT 70000",
        "XCLAIM s g z 0 6-1 TIME 8 RETRYCOUNT 9223372036854775807",
    ),
    "all pending entries of a group acknowledged": (
        *TEN,
        "XGROUP CREATE s g 0",
        "XREADGROUP GROUP g c COUNT 2 STREAMS s >",
        "XACK s g 1-1 2-1",
    ),
    "pending entries that were removed": (
        *TEN,
        "XGROUP CREATE s g 0",
        "XREADGROUP GROUP g c STREAMS s >",
        "XDEL s 10-1",
        "XTRIM s MAXLEN 0",
        "XADD s 11-1 f v",
    ),
}
LONG = {
    "no entry": ("XGROUP CREATE s g $ MKSTREAM", "XGROUP DESTROY s g"),
    "many groups": ("XADD s 1-1 f v", *(f"XGROUP CREATE s {number} 0" for number in range(9))),
    "many consumers": (
        "XADD s 1-1 f v",
        "XGROUP CREATE s g 0",
        *(f"XGROUP CREATECONSUMER s g {number}" for number in range(17)),
    ),
    "many pending entries": (
        *(f"XADD s {number} f v" for number in range(1, 66)),
        "XGROUP CREATE s g 0",
        "XREADGROUP GROUP g c STREAMS s >",
    ),
    "a released entry": (
        *TEN,
        "XGROUP CREATE s g 0",
        "XREADGROUP GROUP g c COUNT 2 STREAMS s >",
        "XNACK s g FAIL IDS 1 2-1",
    ),
    "a group with a policy": ("XADD s 1-1 f v", "XGROUP CREATE s g 0", "XGROUP CONFIG s g MAX-DELIVERIES 3"),
    "a removed entry": ("XADD s 1-1 f v", "XADD s 2-1 f v", "XDEL s 2-1"),
    "a trimmed entry": ("XADD s 1-1 f v", "XADD s 2-1 f v", "XTRIM s MAXLEN 1"),
    "a producer": ("XADD s IDMP p i * f v",),
    "settings": ("XADD s 1-1 f v", "XCFGSET s IDMP-DURATION 7"),
    "many bytes": (f"XADD s 1-1 f {'v' * 4000}",),
    "many entries": tuple(f"XADD s {number}-0 f v" for number in range(1, 102)),
}
GROUP_STEPS = some.one_of(
    some.builds(
        "XREADGROUP GROUP {} {} COUNT {} STREAMS s >".format,
        some.sampled_from("gh"),
        some.sampled_from("abc"),
        some.integers(1, 4),
    ),
    some.builds("XACK s g {}-1".format, some.integers(1, 10)),
    some.builds(
        "XCLAIM s {} {} 0 {}-1 TIME {} RETRYCOUNT {} FORCE".format,
        some.sampled_from("gh"),
        some.sampled_from("abc"),
        some.integers(1, 12),
        some.integers(0, 9),
        some.integers(0, 99),
    ),
    some.builds("XNACK s g FAIL IDS 1 {}-1".format, some.integers(1, 10)),
    some.builds("XDEL s {}-1".format, some.integers(9, 12)),
    some.builds("XADD s * f {}".format, some.integers(0, 9)),
    some.builds("XGROUP DELCONSUMER s g {}".format, some.sampled_from("abc")),
    some.builds("XGROUP SETID s g {}-1".format, some.integers(0, 9)),
)
KEYS = (b"s", b"", b"12", b"-7", b"-0", b"007", b"3000000000", b"k" * 30)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SHORT)
def test_short_streams_are_written_many_at_a_time_as_they_are_one_by_one(form: ModuleType, name: str) -> None:
    stream = stream_of(*SHORT[name])
    short = stream.short()
    assert short is not None
    for compress in (False, True):
        for expires_ms in (None, 5, -5):
            expires = {} if expires_ms is None else dict.fromkeys(KEYS[1:], expires_ms)
            whole = [KeyImage(0, key, stream_image(stream), expires.get(key)) for key in KEYS]
            parts = [ShortStreamsImage(0, [(key, short) for key in KEYS], expires)]
            expected = b"".join(write_file(whole, {}, now_ms=NOW_MS, compress=compress))
            assert b"".join(write_file(parts, {}, now_ms=NOW_MS, compress=compress)) == expected
            piece = form.encode_short(parts[0].streams, expires, compress, compress and IS_COMPILED)
            assert piece in expected
            records = b"".join(record for key in whole for record in key_records(key))
            assert b"".join(record for _, record in snapshot(parts)) == records
            assert all(each.pack_streams(parts[0].streams, expires) == records for each in CODECS)


def encoded_short(form: ModuleType, stream: Stream) -> bytes:
    short = stream.short()
    assert short is not None
    value = form.encode_short_value(short, False)
    assert isinstance(value, bytes)
    return value


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", WITH_GROUPS)
def test_short_streams_with_groups_are_written_and_read_as_others_are(form: ModuleType, name: str) -> None:
    stream = stream_of(*WITH_GROUPS[name])
    data = encoded_short(form, stream)
    assert data == encoded(stream)
    twin = Stream.of_short(form.read_short_value(data, 0), Limits())
    assert_same(twin, decoded(data))
    assert told(twin) == told(stream)
    assert twin.short() == decoded(data).short()


@pytest.mark.parametrize("name", WITH_GROUPS)
def test_records_are_made_of_short_streams_without_groups_only(name: str) -> None:
    stream = stream_of(*WITH_GROUPS[name])
    for form in CODECS:
        with pytest.raises(ValueError, match="groups"):
            form.pack_streams([(b"s", stream.short())], {})
    store = Store()
    store.databases[0].put(b"s", stream)
    assert [type(part) for part in parts_now(store)] == [KeyImage]
    assert [type(part) for part in parts_now(store, lambda value: None)] == [ShortStreamsImage]


@pytest.mark.parametrize("form", FORMS)
def test_pending_entries_of_a_copy_that_are_damaged_are_refused(form: ModuleType) -> None:
    short = stream_of(*WITH_GROUPS["pending entries of several owners"]).short()
    assert short is not None
    name, last_id, entries_read, consumers, block = short[9][0]
    for damaged in (block[:-1], block + bytes(3), block[:-8] + (3).to_bytes(8, "little"), block[:-8] + b"\xff" * 8):
        group = (name, last_id, entries_read, consumers, damaged)
        with pytest.raises(ValueError, match=r"block|no such consumer"):
            form.encode_short_value((*short[:9], [group]), False)
        with pytest.raises(ValueError, match=r"block|no such consumer"):
            Stream.of_short((*short[:9], [group]), Limits())


@settings(max_examples=150, deadline=None)
@given(some.lists(GROUP_STEPS, max_size=30))
def test_whatever_was_done_to_a_short_stream_it_is_written_and_read_as_others_are(steps: list[str]) -> None:
    stream = stream_of(*TEN, "XGROUP CREATE s g 0", "XGROUP CREATE s h 5-1", *steps)
    data = encoded(stream)
    for form in FORMS:
        if stream.short() is not None:
            assert encoded_short(form, stream) == data
        read = form.read_short_value(data, 0)
        if read is not None:
            assert_same(Stream.of_short(read, Limits()), decoded(data))


@pytest.mark.parametrize("name", LONG)
def test_what_else_a_stream_has_makes_it_no_short_one(name: str) -> None:
    assert stream_of(*LONG[name]).short() is None


def test_a_short_stream_has_one_node_whatever_the_limits() -> None:
    """Also if limits were changed after its nodes were computed."""
    for size_max, entries_max in ((0, 0), (0, 3), (200, 0), (400, 9), (4096, 100)):
        for is_settled in (False, True):
            for count in range(1, 12):
                stream = stream_of(*(f"XADD s {number}-0 field value" for number in range(1, count + 1)))
                if is_settled:
                    stream.settle_nodes()
                stream.limits = Limits(size_max, entries_max)
                if stream.short() is not None:
                    stream.settle_nodes()
                    assert len(stream.nodes.nodes) == 1
                assert count < 12


@pytest.mark.parametrize("form", FORMS)
def test_a_damaged_block_is_refused(form: ModuleType) -> None:
    short = stream_of("XADD s 5-7 f v", "XADD s 5-8 f v").short()
    assert short is not None
    block = short[0]
    for size in range(len(block)):
        with pytest.raises(ValueError, match=r"block|reply form|bodies"):
            form.encode_short([(b"s", (block[:size], *short[1:]))], {}, False, False)


@pytest.mark.parametrize("form", CODECS)
def test_no_records_are_made_of_a_damaged_block(form: ModuleType) -> None:
    short = stream_of("XADD s 5-7 f v", "XADD s 5-8 f v").short()
    assert short is not None
    block = short[0]
    ends = len(block) - 2 * len(b"*2\r\n$3\r\n5-7\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n") - 16
    longer = block[:ends] + (90).to_bytes(8, "little") + block[ends + 8 :]
    for damaged in (*(block[:size] for size in range(len(block))), block + b"more", longer):
        with pytest.raises(ValueError, match=r"block|reply form|bodies|not found|begins|entry"):
            form.pack_streams([(b"s", (damaged, *short[1:]))], {})


def assert_same(stream: Stream, other: Stream) -> None:
    """Assert that two streams that were read agree in all that they are."""
    stream.check()
    assert told(stream) == told(other)
    assert stream.nodes.nodes == other.nodes.nodes
    assert list(stream.nodes.first_ids) == list(other.nodes.first_ids)
    assert (stream.nodes.settled_id, stream.log.first_id) == (other.nodes.settled_id, other.log.first_id)
    assert (stream.limits, stream.log.has_strays) == (other.limits, other.log.has_strays)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SHORT)
def test_short_streams_are_read_many_at_a_time_as_they_are_one_by_one(form: ModuleType, name: str) -> None:
    stream = stream_of(*SHORT[name])
    short = stream.short()
    assert short is not None
    expires = {KEYS[0]: 5, KEYS[3]: -5}
    for compress in (False, True):
        data = form.encode_short([(key, short) for key in KEYS], expires, compress, compress)
        for after in (b"", b"\xfe\1", b"\xfc", b"\x1b\1k", b"\xfc" + bytes(8) + b"\0\1k\1v"):
            keys, position = form.read_short(b"before" + data + after, len(b"before"))
            assert position == len(b"before" + data)
            assert [(key, expires_ms) for key, _, expires_ms in keys] == [(key, expires.get(key)) for key in KEYS]
        for _, read, _ in keys:
            assert_same(Stream.of_short(read, Limits()), decoded(encoded(stream)))


@pytest.mark.parametrize("form", FORMS)
def test_a_call_reads_a_few_kilobytes_of_short_streams(form: ModuleType) -> None:
    short = stream_of("XADD s 5-7 f v").short()
    data = form.encode_short([(b"key", short)] * 1000, {}, False, False)
    counts = []
    position = 0
    while position < len(data):
        keys, position = form.read_short(data, position)
        counts.append(len(keys))
    size = len(data) // 1000
    at_once = -(-node_codec_plain.READ_SIZE // size)
    assert counts == [at_once] * (1000 // at_once) + [1000 % at_once]


# Of `LONG`, streams that have more than one node, or another thing that no short stream has in a file.
NOT_READ_AS_SHORT = {
    "no entry",
    "many groups",
    "many consumers",
    "many pending entries",
    "a released entry",
    "a producer",
    "many entries",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", LONG)
def test_what_a_file_has_of_other_streams_is_read_one_by_one(form: ModuleType, name: str) -> None:
    data = encoded(stream_of(*LONG[name]))
    read = form.read_short_value(data, 0)
    assert (read is None) is (name in NOT_READ_AS_SHORT)
    if read is not None:
        assert_same(Stream.of_short(read, Limits()), decoded(data))


@pytest.mark.parametrize("form", FORMS)
def test_a_short_stream_of_long_names_is_read_one_by_one(form: ModuleType) -> None:
    """Its node is small, as it has the names once, and its entries are more than memory for one run."""
    stream = stream_of("CONFIG SET stream-node-max-bytes 0", *[f"XADD s {n}-0 {'n' * 3000} v" for n in range(1, 30)])
    data = encoded(stream)
    assert len(data) < 4096
    assert form.read_short_value(data, 0) is None
    assert told(decoded(data)) == told(stream)


@pytest.mark.parametrize("form", FORMS)
def test_a_node_with_deleted_entries_is_read_as_it_is(form: ModuleType) -> None:
    """1-1, 1-2 and 5-0, of which the first and the last are deleted."""
    data = bytes.fromhex(
        ONE_NODE + "31 31000000 1400 0101 0201 0101 816602 0001"
        "0301 0001 0001 0101 0401  0201 0001 0101 0201 0401  0301 0401 dfff02 0301 0401 ff"
        "01 0500 0101 0500 03 00" + NO_PRODUCERS
    )
    read = form.read_short_value(data, 0)
    stream = Stream.of_short(read, Limits())
    assert_same(stream, decoded(data))
    assert [node.shape for node in stream.nodes.nodes] == [(make_id(1, 1), make_id(5, 0), 1, 3, 49, (b"f",))]
    assert (stream.log.first_id, stream.nodes.settled_id) == (make_id(1, 2), make_id(1, 2))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "example", [SHORT["several entries"], WITH_GROUPS["pending entries of several owners"]], ids=("entries", "groups")
)
def test_damaged_short_streams_are_left_to_the_reader_of_all_streams(form: ModuleType, example: list[str]) -> None:
    """It says what is wrong. What the other one reads of a changed byte is the same stream."""
    for shown in DAMAGED.values():
        assert form.read_short_value(bytes.fromhex(shown), 0) is None
    data = encoded(stream_of(*example))
    for size in range(len(data)):
        assert form.read_short_value(data[:size], 0) is None
        assert form.read_short(b"\x1b\1k" + data[:size], 0) == ([], 0)
    read_count = 0
    for index in range(len(data)):
        for value in {0, 1, 2, 3, 0x7F, 0x80, 0xC0, 0xC3, 0xFF, data[index] ^ 1, data[index] ^ 0x80}:
            changed = data[:index] + bytes((value,)) + data[index + 1 :]
            read = form.read_short_value(changed, 0)
            if read is not None:
                read_count += 1
                source = Source([changed])
                assert_same(
                    Stream.of_short(read, Limits()),
                    read_stream(source, WITH_RELEASED, Limits(), now_ms=NOW_MS),
                )
    assert read_count


@pytest.mark.parametrize("name", SHORT)
def test_the_payload_of_a_short_stream_is_that_of_any_other(name: str) -> None:
    stream = stream_of(*SHORT[name])
    content = bytes((WITH_RELEASED,)) + encoded(stream, compress=True) + b"\x0f\0"
    found = b"".join(payload.dump(stream, now_ms=NOW_MS))
    assert found == content + crc64(content).to_bytes(8, "little")
    restored = payload.restore(found, Limits(), now_ms=NOW_MS)
    assert isinstance(restored, Stream)
    assert_same(restored, decoded(encoded(stream)))
    assert told(restored) == told(stream)


def test_many_groups_and_consumers_come_back_in_few_pieces() -> None:
    stream = stream_of("XADD s 1-1 f v", "XADD s 2-1 f v")
    for number in range(300):
        group = Group(b"%d" % number, make_id(number % 3, 0), number % 3 - 1)
        stream.add_group(group)
        for each in range(200 if number == 7 else 1 if number % 100 == 9 else 0):
            group.add_consumer(b"consumer:%d" % each, NOW_MS + each)
    busy = stream.groups[b"7"]
    busy.pending.deliver([make_id(1, 1)], busy.consumers[b"consumer:150"], time_ms=NOW_MS, count=3)
    busy.release(make_id(2, 1), count=4)
    data = encoded(stream)
    assert told(decoded(data)) == told(stream)
    assert len(list(encode_stream(stream_image(stream), now_ms=NOW_MS, compress=False))) < 40


ENTRY_IDS = some.integers(1, 30).map(lambda number: f"{number}-1")
TEXTS = some.sampled_from(["v", "12", "-7", "''", "x" * 70, "007"])
STEPS = some.one_of(
    some.builds("XADD s * {} {}".format, TEXTS.filter(lambda text: text != "''"), TEXTS),
    some.builds("XDEL s {}".format, ENTRY_IDS),
    some.builds("XTRIM s MAXLEN {}".format, some.integers(0, 30)),
    some.builds("XREADGROUP GROUP g {} COUNT {} STREAMS s >".format, some.sampled_from("ab"), some.integers(1, 9)),
    some.builds("XACK s g {}".format, ENTRY_IDS),
    some.builds("XCLAIM s g {} 0 {} TIME {}".format, some.sampled_from("ab"), ENTRY_IDS, some.integers(0, 99)),
    some.builds("XNACK s g {} IDS 1 {}".format, some.sampled_from(["FAIL", "FATAL", "SILENT"]), ENTRY_IDS),
    some.builds("XADD s IDMP {} {} * f v".format, some.sampled_from("pq"), some.integers(1, 4)),
)


@settings(max_examples=60, deadline=None)
@given(some.lists(STEPS, max_size=40))
def test_whatever_was_done_to_a_stream_comes_back(steps: list[str]) -> None:
    start = [f"XADD s {number}-1 f {number}" for number in range(1, 31)]
    stream = stream_of("CONFIG SET stream-node-max-entries 7", *start, "XGROUP CREATE s g 0", *steps)
    assert told(decoded(encoded(stream))) == told(stream)


# -- damage ------------------------------------------------------------------------------------------

ID_1, ID_2 = "00000000000000010000000000000001", "00000000000000020000000000000001"
TIME = "0500000000000000"
SEEN = TIME + TIME
NODE_2 = "10" + ID_2 + ONE_ENTRY[len(ONE_NODE) :]
COUNTERS = "01 0101 0101 0000 01"
DAMAGED = {
    "a node key of 15 bytes": "01 0f" + ID_1[2:] + ONE_ENTRY[len(ONE_NODE) :] + COUNTERS + "00" + NO_PRODUCERS,
    "a node without live entries": ONE_ENTRY.replace("0a00 0101", "0a00 0001") + COUNTERS + "00" + NO_PRODUCERS,
    "a listpack of another size": ONE_ENTRY.replace("1d000000", "1e000000") + COUNTERS + "00" + NO_PRODUCERS,
    "a node twice": "02" + ONE_ENTRY[2:] + ONE_ENTRY[2:] + "02" + COUNTERS[2:] + "00" + NO_PRODUCERS,
    "nodes out of order": "02" + NODE_2 + ONE_ENTRY[2:] + "02 0201 0101 0000 02 00" + NO_PRODUCERS,
    "more entries than in the nodes": ONE_ENTRY + "02" + COUNTERS[2:] + "00" + NO_PRODUCERS,
    "more entries than were added": ONE_ENTRY + "01 0101 0101 0000 00 00" + NO_PRODUCERS,
    "more than 2^63 entries added": ONE_ENTRY + "01 0101 0101 0000 818000000000000000 00" + NO_PRODUCERS,
    "a last ID before an entry": ONE_ENTRY + "01 0100 0101 0000 01 00" + NO_PRODUCERS,
    "more read than added": NO_ENTRIES + "01 0167 0000 03 00 00 00" + NO_PRODUCERS,
    "a group twice": NO_ENTRIES + "02" + "0167 0000 00 00 00 00" * 2 + NO_PRODUCERS,
    "a consumer twice": NO_ENTRIES + "01 0167 0000 00 00 02" + ("0163" + SEEN + "00") * 2 + "00" + NO_PRODUCERS,
    "a pending entry twice": NO_ENTRIES
    + "01 0167 0000 00 02" + (ID_1 + TIME + "01") * 2 + "00 01" + ID_1 + NO_PRODUCERS,
    "an owned entry that is not pending": NO_ENTRIES
    + "01 0167 0000 00 00 01 0163" + SEEN + "01" + ID_1 + "00" + NO_PRODUCERS,
    "an entry with two owners": NO_ENTRIES
    + "01 0167 0000 00 01" + ID_1 + TIME + "01 02 0163" + SEEN + "01" + ID_1 + "0164" + SEEN + "01" + ID_1 + "00"
    + NO_PRODUCERS,
    "a released entry that is not pending": NO_ENTRIES + "01 0167 0000 00 00 00 01" + ID_1 + NO_PRODUCERS,
    "a released entry with an owner": NO_ENTRIES
    + "01 0167 0000 00 01" + ID_1 + TIME + "01 01 0163" + SEEN + "01" + ID_1 + "01" + ID_1 + NO_PRODUCERS,
    "a released entry twice": NO_ENTRIES + "01 0167 0000 00 01" + ID_1 + TIME + "01 00 02" + ID_1 * 2 + NO_PRODUCERS,
    "an entry of nobody": NO_ENTRIES + "01 0167 0000 00 01" + ID_1 + TIME + "01 00 00" + NO_PRODUCERS,
    "a duration of 0": NO_ENTRIES + "00 00 4064 00 00 00",
    "a duration of more than a day": NO_ENTRIES + "00 8000015181 4064 00 00 00",
    "no idempotent IDs": NO_ENTRIES + "00 4064 00 00 00 00",
    "too many idempotent IDs": NO_ENTRIES + "00 4064 6711 00 00 00",
    "a producer twice": NO_ENTRIES + "00 4064 4064 02 0170 00 0170 00 00 00",
    "an idempotent ID twice": NO_ENTRIES + "00 4064 4064 01 0170 02 0169 0101 0169 0101 00 00",
    "2^60 nodes": "81 1000000000000000" + ONE_ENTRY[2:],
    "2^60 groups": NO_ENTRIES + "81 1000000000000000",
    "2^64 - 1 pending entries": NO_ENTRIES + "01 0167 0000 00 81 ffffffffffffffff" + ID_1 + TIME,
}  # fmt: skip


@pytest.mark.parametrize("shown", DAMAGED.values(), ids=DAMAGED.keys())
def test_damage_is_refused(shown: str) -> None:
    with pytest.raises(RdbError):
        decoded(bytes.fromhex(shown), now_ms=0)


SMALL = [
    "XADD s 1-1 temp 20 hum -129", "XADD s 1-2 temp 21 hum 51", "XADD s 5-0 other " + "xy" * 40, "XDEL s 1-2",
    "XGROUP CREATE s g 0", "XGROUP CREATECONSUMER s g idle", "XREADGROUP GROUP g c STREAMS s >",
    "XNACK s g FAIL IDS 1 5-0", "XADD s IDMP p1 i1 * a 1",
]  # fmt: skip


def test_every_truncation_is_refused() -> None:
    data = encoded(stream_of(*SMALL))
    for size in range(len(data)):
        with pytest.raises(RdbError):
            decoded(data[:size])


@pytest.mark.parametrize("compress", [False, True])
def test_every_changed_byte_is_refused_or_gives_a_sound_stream(compress: bool) -> None:
    data = encoded(stream_of(*SMALL), compress=compress)
    for index in range(len(data)):
        for value in {0, 1, 0x7F, 0xC0, 0xFF, data[index] ^ 1, data[index] ^ 0x80, data[index] + 1 & 0xFF}:
            source = Source([data[:index] + bytes((value,)) + data[index + 1 :]])
            try:
                stream = read_stream(source, WITH_RELEASED, Limits(), now_ms=NOW_MS)
            except RdbError:
                continue
            stream.check()
            told(decoded(encoded(stream)))


@settings(max_examples=300, deadline=None)
@given(some.binary(max_size=80), some.sampled_from([0, 15, 19, 21, 26, 27]))
def test_no_payload_does_more_than_to_be_refused(body: bytes, kind: int) -> None:
    sealed = bytes((kind,)) + body + b"\x0f\0"
    sealed += crc64(sealed).to_bytes(8, "little")
    assert payload.is_intact(sealed)
    try:
        payload.restore(sealed, Limits(), now_ms=NOW_MS)
    except RdbError:
        return


def test_entries_may_be_added_and_trimmed_after_reading() -> None:
    """The nodes continue where they ended."""
    stream = stream_of(*MANY)
    twin = decoded(encoded(stream))
    for each in (stream, twin):
        entry_id = parse_id(b"1000-1")
        each.append(entry_id, b"*2\r\n$6\r\n1000-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n")
    assert told(twin) == told(stream)
    assert [node.size for node in twin.nodes.nodes] == [node.size for node in stream.nodes.nodes]
