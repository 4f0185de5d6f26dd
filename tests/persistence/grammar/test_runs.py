"""Records of a log that are kept as they are: which ones, and what they lead to. Alike in both forms."""

from __future__ import annotations

import random
from array import array
from types import ModuleType

import pytest

from headrace.persistence.grammar import codec_plain
from headrace.persistence.grammar.codec_plain import pack_added
from headrace.persistence.grammar.kept import ADDITIONS, CLAIMS, STREAMS, is_run
from headrace.protocol import frames_plain
from headrace.protocol.packing import pack_command
from headrace.store.chunk import Body
from headrace.store.ids import make_id

try:
    from headrace.persistence.grammar import codec
except ImportError:
    codec = None  # type: ignore[assignment]

FORMS = [codec_plain, *([codec] if codec is not None else [])]
BULK_SIZE_MAX = 1000
# Nineteen digits, which surely fit 64 bits.
HALF_MAX = 10**19 - 1
PAIRS = (b"f", b"v"), (b"", b"\r\n*5\r\n$4\r\nXADD\r\n"), (b"f" * 300, b"", b"g", b"w")

needs_codec = pytest.mark.skipif(codec is None, reason="the compiled twin is not here")


def add(entry_id: bytes, key: bytes = b"s", pairs: tuple[bytes, ...] = PAIRS[0], name: bytes = b"XADD") -> bytes:
    return pack_command((name, key, entry_id, *pairs))


def claim(
    *ids: bytes, key: bytes = b"s", group: bytes = b"g", consumer: bytes = b"c", idle: bytes = b"0", time: bytes = b"7",
    count: bytes = b"1", end: tuple[bytes, ...] = (b"JUSTID", b"FORCE"), name: bytes = b"XCLAIM",
) -> bytes:  # fmt: skip
    return pack_command((name, key, group, consumer, idle, *ids, b"TIME", time, b"RETRYCOUNT", count, *end))


def split(data: bytes) -> list[list[bytes]]:
    """What a log's splitter makes of bytes, all of which it takes."""
    records, size = codec.record_splitter()(data, BULK_SIZE_MAX)
    assert size == len(data)
    return records


@needs_codec
def test_neighbours_that_add_to_one_stream_are_one_run() -> None:
    ids = [
        b"0-1",
        b"1-0",
        b"1-5",
        b"9-0",
        b"10-0",
        b"9999999999999999999-0",
        b"9999999999999999999-9999999999999999999",
    ]
    records = [add(entry_id, pairs=PAIRS[index % 3], name=b"xadd") for index, entry_id in enumerate(ids)]
    assert split(b"".join(records)) == [[ADDITIONS, b"s", b"".join(records), b"7"]]


@needs_codec
def test_a_run_ends_before_a_record_that_is_not_all_there_or_not_plain() -> None:
    whole = add(b"1-0") + add(b"2-0")
    behind = add(b"3-0")
    splitter = codec.record_splitter()
    for size in range(len(behind)):
        assert splitter(whole + behind[:size], BULK_SIZE_MAX) == ([[ADDITIONS, b"s", whole, b"2"]], len(whole))
    for wrong in (behind.replace(b"$1\r\nv", b"$01\r\nv"), behind[:-1] + b"\r", b"#TS:1\r\n" + behind):
        assert splitter(whole + wrong, BULK_SIZE_MAX) == ([[ADDITIONS, b"s", whole, b"2"]], len(whole))
    assert splitter(whole + add(b"3-0", pairs=(b"f", b"v" * 1001)), BULK_SIZE_MAX)[1] == len(whole)


@pytest.mark.parametrize("form", FORMS)
def test_entries_and_their_places_are_those_of_the_records_one_by_one(form: ModuleType) -> None:
    seed = random.randrange(2**32)
    rnd = random.Random(seed)
    halves = sorted((rnd.choice((1, 10**13, HALF_MAX)), rnd.randrange(rnd.choice((8, HALF_MAX)))) for _ in range(40))
    halves = sorted(set(halves))
    words = [[b"XADD", b"key", b"%d-%d" % half, *rnd.choice(PAIRS)] for half in halves]
    sent = b"".join(map(pack_command, words))
    entries = [pack_added(each, 2, 3, *half)[1] for each, half in zip(words, halves, strict=True)]
    ends = [sum(map(len, entries[: index + 1])) for index in range(len(entries))]
    data, ms, seq, found_ends = form.read_added([ADDITIONS, b"key", sent, b"%d" % len(words)])
    assert data == b"".join(entries), f"seed {seed}"
    assert (ms, seq) == (array("Q", [half[0] for half in halves]), array("Q", [half[1] for half in halves]))
    assert found_ends == array("Q", ends)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_run_is_refused(form: ModuleType) -> None:
    sent = add(b"1-0")
    for run in (
        [ADDITIONS, b"t", sent, b"1"],
        [ADDITIONS, b"s", sent, b"2"],
        [ADDITIONS, b"s", b"", b"1"],
        [b"XADD", b"s", sent, b"1"],
        [],
    ):
        with pytest.raises(ValueError, match="no run of records"):
            form.read_added(run)


@needs_codec
def test_neighbours_that_claim_for_one_consumer_are_one_run() -> None:
    records = [
        claim(b"1-0"),
        claim(b"1-0", b"2-0", time=b"0", count=b"0"),
        claim(b"5", time=b"9" * 18, count=b"9" * 18, end=(b"FORCE", b"JUSTID")),
    ]
    assert split(b"".join(records)) == [[CLAIMS, b"s", b"".join(records), b"3"]]


NO_ADDITION = [
    add(b"3-0", key=b"t"), add(b"2-0"), add(b"1-9"), add(b"0-0"), add(b"*"), add(b"3-*"), add(b"3"), add(b"03-1"),
    add(b"3-01"), add(b"3-"), add(b"-3"), add(b"3-1-1"), add(b"18446744073709551615-0"), add(b"3-0", name=b"Xadd"),
    add(b"3-0", pairs=(b"NOMKSTREAM", b"*", b"f", b"v", b"w")), add(b"MAXLEN", pairs=(b"=", b"5", b"3-0", b"f")),
    add(b"3-0", pairs=()), add(b"3-0", pairs=(b"f",)), pack_command((b"SET", b"s", b"3-0", b"f", b"v")),
]  # fmt: skip
NO_CLAIM = [
    claim(b"3-0", key=b"t"), claim(b"3-0", group=b"h"), claim(b"3-0", consumer=b"d"), claim(b"3-0", idle=b"1"),
    claim(b"3-0", time=b"07"), claim(b"3-0", time=b"-7"), claim(b"3-0", time=b"9" * 19), claim(b"3-0", count=b"x"),
    claim(b"3-0", end=(b"JUSTID", b"LASTID")), claim(b"3-0", end=(b"FORCE", b"JUSTID", b"LASTID", b"1-1")),
    claim(b"3-0", name=b"xclaim"), claim(), claim(b"3-0", b"IDLE"), claim(b"-"), claim(b""), add(b"3-0"),
    claim(b"3-0").replace(b"TIME", b"IDLE"), claim(b"3-0").replace(b"$10\r\nRETRYCOUNT", b"$4\r\nTIME"),
]  # fmt: skip


@needs_codec
@pytest.mark.parametrize(
    ("mark", "run", "other"),
    [
        *((ADDITIONS, add(b"1-0") + add(b"2-0"), other) for other in NO_ADDITION),
        *((CLAIMS, claim(b"1-0") + claim(b"2-0"), other) for other in NO_CLAIM),
    ],
)
def test_anything_else_ends_a_run_and_comes_as_it_always_did(mark: bytes, run: bytes, other: bytes) -> None:
    (words,), _ = frames_plain.splitter()(other, BULK_SIZE_MAX)
    assert split(run + other) == [[mark, b"s", run, b"2"], words]
    assert split(other + run) == [words, [mark, b"s", run, b"2"]]
    assert split(other) == [words]


@needs_codec
def test_a_run_of_claims_ends_before_one_that_is_not_all_there() -> None:
    whole, behind = claim(b"1-0") + claim(b"2-0"), claim(b"3-0")
    splitter = codec.record_splitter()
    for size in range(len(behind)):
        assert splitter(whole + behind[:size], BULK_SIZE_MAX) == ([[CLAIMS, b"s", whole, b"2"]], len(whole))
    records, size = splitter(whole * 600, BULK_SIZE_MAX)
    assert [record[3] for record in records] == [b"1000", b"200"]
    assert size == len(whole) * 600
    assert all(map(is_run, records))
    assert not is_run([b"XCLAIM", b"s"])
    many = claim(*(b"%d-0" % number for number in range(1, 701)))
    records, _ = splitter(many * 5, BULK_SIZE_MAX)
    assert list(map(is_run, records)) == [True, True, False]


@pytest.mark.parametrize("form", FORMS)
def test_claims_are_what_their_records_say_one_by_one(form: ModuleType) -> None:
    sent = claim(b"1-0") + claim(b"1-0", b"2-0", b"3", time=b"0", count=b"5", end=(b"FORCE", b"JUSTID"))
    records = [(1, 7, 1), (3, 0, 5)]
    assert form.read_claimed([CLAIMS, b"s", sent, b"2"]) == (b"g", b"c", [b"1-0", b"1-0", b"2-0", b"3"], records)
    for run in (
        [CLAIMS, b"t", sent, b"2"],
        [CLAIMS, b"s", sent, b"3"],
        [CLAIMS, b"s", b"", b"1"],
        [CLAIMS, b"s", sent, b"0"],
        [CLAIMS, b"s", sent + claim(b"5", consumer=b"d"), b"3"],
        [CLAIMS, b"s", claim(), b"1"],
        [ADDITIONS, b"s", sent, b"2"],
        [],
    ):
        with pytest.raises(ValueError, match="no run of records"):
            form.read_claimed(run)


# -- whole streams ------------------------------------------------------------------------------------


def counters(
    key: bytes = b"s", last_id: bytes = b"9-0", added: bytes = b"5", deleted: bytes = b"0-0", name: bytes = b"XSETID",
    options: tuple[bytes, bytes] = (b"ENTRIESADDED", b"MAXDELETEDID"),
) -> bytes:  # fmt: skip
    return pack_command((name, key, last_id, options[0], added, options[1], deleted))


WHOLE = [add(b"1-0") + counters(), add(b"3-7", b"t", PAIRS[1]) + add(b"4-0", b"t", PAIRS[2]) + counters(b"t")]


@needs_codec
def test_streams_of_few_entries_are_one_run() -> None:
    sent = b"".join(WHOLE)
    assert split(sent) == [[STREAMS, b"", sent, b"5"]]
    assert split(WHOLE[0]) == [[STREAMS, b"", WHOLE[0], b"2"]]
    assert all(map(is_run, split(sent)))


@needs_codec
def test_a_run_of_streams_ends_after_some_kilobytes() -> None:
    count = 1000
    records = split(WHOLE[0] * count)
    assert {record[0] for record in records} == {STREAMS}
    assert b"".join(record[2] for record in records) == WHOLE[0] * count
    assert sum(int(record[3]) for record in records) == 2 * count
    assert all(len(record[2]) < 16 * 1024 + len(WHOLE[0]) for record in records)
    assert len(records) < count // 50


NO_STREAM = [
    add(b"1-0") + counters(b"t"), add(b"1-0") + counters(added=b"0"), add(b"1-0") + counters(last_id=b"0-9"),
    add(b"1-0") + counters(deleted=b"9-1"), add(b"1-0") + counters(added=b"-1"),
    add(b"1-0") + counters(added=b"9" * 19),
    add(b"1-0") + counters(name=b"xsetid"), add(b"1-0") + counters(options=(b"entriesadded", b"MAXDELETEDID")),
    add(b"1-0") + counters(options=(b"ENTRIESADDED", b"ENTRIESADDED")), add(b"1-0") + counters(last_id=b"9"),
    add(b"1-0") + counters(deleted=b"0"), add(b"*") + counters(), counters(), add(b"1-0") + add(b"2-0", b"t"),
    add(b"1-0") + pack_command((b"XSETID", b"s", b"9-0")),
    add(b"0-0") + counters(), add(b"1-0", pairs=(b"f",)) + counters(), add(b"1-0") + claim(b"1-0"),
]  # fmt: skip


@needs_codec
@pytest.mark.parametrize("other", NO_STREAM)
def test_anything_else_ends_a_run_of_streams_and_comes_as_it_always_did(other: bytes) -> None:
    """Among it are records that will be refused."""
    words, _ = frames_plain.splitter()(other, BULK_SIZE_MAX)
    assert split(other) == words
    assert split(WHOLE[0] + other) == [[STREAMS, b"", WHOLE[0], b"2"], *words]
    splitter = codec.record_splitter()
    for size in range(len(WHOLE[1])):
        records, taken = splitter(WHOLE[0] + WHOLE[1][:size], BULK_SIZE_MAX)
        assert records[0] == [STREAMS, b"", WHOLE[0], b"2"]
        assert taken == sum(len(record[2] if is_run(record) else pack_command(record)) for record in records)


@needs_codec
def test_a_stream_of_more_than_few_entries_is_a_run_of_additions() -> None:
    for count in (2, 80, 120):
        added = b"".join(add(b"%d-0" % number) for number in range(1, count + 1))
        sent = added + counters(last_id=b"%d-0" % count, added=b"%d" % count)
        is_long = len(sent) > 4096
        assert is_long is (count > 80)
        assert split(sent)[0][0] is (ADDITIONS if is_long else STREAMS)
        assert [int(record[3]) for record in split(sent) if is_run(record)] == [count if is_long else count + 1]


@pytest.mark.parametrize("form", FORMS)
def test_streams_of_a_run_have_the_entries_and_counters_of_their_records(form: ModuleType) -> None:
    sent = b"".join(WHOLE)
    streams = form.read_streams([STREAMS, b"", sent, b"5"], 100, 70)
    assert [key for key, _ in streams] == [b"s", b"t"]
    assert [short[1:] for _, short in streams] == [(None, make_id(9, 0), 0, 5, 100, 70, 0, 0, [])] * 2
    bodies = [Body.of_block(short[0]) for _, short in streams]
    assert [body.ids(0, body.count) for body in bodies] == [[make_id(1, 0)], [make_id(3, 7), make_id(4, 0)]]
    added = [
        pack_added([b"XADD", b"t", b"*", *pairs], 2, 3, *half)[1] for pairs, half in zip(PAIRS, HALVES, strict=True)
    ]
    assert [body.slice(0, body.count) for body in bodies] == [added[0], added[1] + added[2]]
    assert list(bodies[1].ends(0, 2)) == [len(added[1]), len(added[1]) + len(added[2])]


HALVES = (1, 0), (3, 7), (4, 0)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_run_of_streams_is_refused(form: ModuleType) -> None:
    sent = b"".join(WHOLE)
    for run in (
        [STREAMS, b"", sent, b"6"], [STREAMS, b"", sent, b"4"], [STREAMS, b"", counters(), b"1"],
        [STREAMS, b"", b"", b"0"], [ADDITIONS, b"s", sent, b"5"], [b"XSETID", b"", sent, b"5"], [],
        [STREAMS, b"", add(b"1-0") + counters(b"t"), b"2"],
    ):  # fmt: skip
        with pytest.raises(ValueError, match="no run of records"):
            form.read_streams(run, 1, 1)
