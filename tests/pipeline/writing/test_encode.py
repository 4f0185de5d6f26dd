"""Rows as commands: packing by columns equals packing by rows, and a repeated row has the same identity."""

from __future__ import annotations

import random
from typing import Any

import hiredis
import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: `make test-pipeline` installs it")

from headrace.pipeline.errors import PipelineError  # noqa: E402
from headrace.pipeline.options.kinds import WriteOptions, parse  # noqa: E402
from headrace.pipeline.writing.encode import Encoder  # noqa: E402


def encoder(**options: str) -> Encoder:
    """Returns an encoder for the stream `s`; with `stream=""` the column `_stream` names the stream of each row."""
    return Encoder(parse(WriteOptions, {"stream": "s", **options}), "job", 3, "7")


def commands(records: Any, first_row: int = 0, **options: str) -> list[list[bytes]]:
    reader = hiredis.Reader()
    encoded = encoder(**options).encode(records, first_row)
    reader.feed(bytes(encoded.bytes_of(0, len(encoded))))
    found = []
    while (command := reader.gets()) is not False:
        found.append(command)
    return found


def batch(**columns: Any) -> Any:
    return pa.RecordBatch.from_pydict(columns)


def test_row_is_identified_by_producer_partition_chunk_batch_and_place() -> None:
    found = commands(batch(n=[1, 2, 3]), first_row=3, idmpMaxSize="10")
    assert [[*command[:4], command[4].rpartition(b".")[0], *command[5:7]] for command in found] == [
        [b"XADD", b"s", b"IDMP", b"job:3:0", b"7.3", b"*", b"n"],
        [b"XADD", b"s", b"IDMP", b"job:3:0", b"7.4", b"*", b"n"],
        [b"XADD", b"s", b"IDMP", b"job:3:1", b"7.0", b"*", b"n"],
    ]
    assert found == commands(batch(n=[1, 2, 3]), first_row=3, idmpMaxSize="10")


def test_different_row_in_the_same_place_has_another_identity() -> None:
    for column in ([7, None], [7, 8]):
        before, after = (commands(batch(n=column, m=[1, other])) for other in (2, 3))
        assert before[0] == after[0]
        assert before[1][4] != after[1][4]


def test_rows_packed_by_columns_and_one_by_one_are_the_same() -> None:
    seed = random.randrange(2**32)
    rnd = random.Random(seed)
    values = [b"", b"%d", b"%b", b"\r\n", b"x" * 200, b"\x00\xff", None]
    for _ in range(200):
        count = rnd.randrange(1, 30)
        columns = {
            "a%": pa.array([rnd.choice(values) for _ in range(count)], pa.binary()),
            "b": pa.array([rnd.choice([rnd.randrange(-5, 10**6), None]) for _ in range(count)], pa.int64()),
            "same": pa.array(["always"] * count),
        }
        if rnd.random() < 0.5:
            columns["_stream"] = pa.array([rnd.choice(["t", "u%"]) for _ in range(count)])
        options = {
            "stream": "" if "_stream" in columns else "s",
            "maxlen": str(rnd.randrange(1000, 1009)),
            "idmpMaxSize": "8",
        }
        options |= rnd.choice([{}, {"idempotency": "none"}, {"idempotency": "content"}])
        by_columns = pa.RecordBatch.from_pydict(columns)
        no_maps = pa.nulls(count, pa.map_(pa.string(), pa.string()))
        one_by_one = pa.RecordBatch.from_pydict(columns | {"_fields": no_maps})
        found = commands(by_columns, 5, **options)
        assert found == commands(one_by_one, 5, **options), f"seed {seed}"
        assert len(found) == count
        assert [command[-1] for command in found] == [b"always"] * count


def test_part_of_the_commands_is_contiguous_bytes() -> None:
    encoded = encoder().encode(batch(n=list(range(10))), 0)
    assert b"".join(encoded.packed.to_pylist()[3:7]) == encoded.bytes_of(3, 4)
    assert b"".join([encoded.bytes_of(0, 3), encoded.bytes_of(3, 7)]) == encoded.bytes_of(0, 10)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"maxlen": "10"}, [b"MAXLEN", b"~", b"10"]),
        ({"maxlen": "10", "trimExact": "true"}, [b"MAXLEN", b"=", b"10"]),
        ({"minid": "5-1", "trimLimit": "7"}, [b"MINID", b"~", b"5-1", b"LIMIT", b"7"]),
    ],
)
def test_trimming_options_are_words_of_xadd(options: dict[str, str], words: list[bytes]) -> None:
    assert commands(batch(n=[1]), idempotency="none", **options) == [[b"XADD", b"s", *words, b"*", b"n", b"1"]]


def test_nulls_are_left_out_and_maps_added() -> None:
    kind = pa.map_(pa.string(), pa.string())
    records = pa.RecordBatch.from_arrays(
        [pa.array(["1", None]), pa.array([[("k", "v")], [("l", "w"), ("m", None)]], kind)], names=["n", "_fields"]
    )
    found = commands(records, idempotency="none")
    assert found == [[b"XADD", b"s", b"*", b"n", b"1", b"k", b"v"], [b"XADD", b"s", b"*", b"l", b"w"]]


def test_row_without_fields_is_named() -> None:
    with pytest.raises(PipelineError, match="row 11 of partition 3 has no fields"):
        encoder().encode(batch(n=pa.array([1, None])), 10)


def test_rows_choose_stream_id_and_identity() -> None:
    found = commands(batch(_stream=["a", "b"], _id=["1-1", "2-2"], n=[1, 2]), idMode="explicit", stream="")
    assert found == [[b"XADD", b"a", b"1-1", b"n", b"1"], [b"XADD", b"b", b"2-2", b"n", b"2"]]
    [command] = commands(batch(_iid=["order-1"], n=[1]), idempotency="column")
    assert command[2] == b"IDMP"
    assert command[3].startswith(b"job:")
    assert command[4] == b"order-1"


@pytest.mark.parametrize(
    ("stream", "columns", "message"),
    [
        ("", {}, "option stream is missing, and the rows have no column _stream"),
        ("s", {"_stream": ["s"]}, "option stream and the column _stream both name the stream"),
        ("", {"_stream": pa.nulls(1, pa.string())}, "a row has null in _stream"),
    ],
)
def test_stream_is_named_by_either_option_or_column(stream: str, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        commands(batch(n=[1], **columns), stream=stream)


def test_equal_content_has_the_same_producer_in_any_order() -> None:
    kind = pa.map_(pa.string(), pa.string())
    rows = [
        batch(a=["1"], b=["2"]),
        batch(b=["2"], a=["1"]),
        batch(a=["1"], c=pa.nulls(1, pa.string()), _fields=pa.array([[("b", "2")]], kind)),
        batch(_fields=pa.array([[("b", "2"), ("a", "1")]], kind)),
    ]
    found = {tuple(commands(row, idempotency="content")[0][2:4]) for row in rows}
    assert len(found) == 1
    assert found.pop()[0] == b"IDMPAUTO"


@pytest.mark.parametrize("options", [{"idempotency": "content"}, {"idempotency": "column"}])
def test_rows_are_spread_over_shards_or_by_the_column_pid(options: dict[str, str]) -> None:
    rows = {"n": list(range(640)), "_iid": [f"order-{n}" for n in range(640)]}
    pids = {command[3] for command in commands(batch(**rows), **options)}
    assert pids == {b"job:%d" % shard for shard in range(64)}
    found = commands(batch(**rows, _pid=[f"p{n % 3}" for n in range(640)]), **options)
    assert [command[3] for command in found[:4]] == [b"job:p0", b"job:p1", b"job:p2", b"job:p0"]
    encoded = encoder(**options).encode(batch(**rows, _pid=["p"] * 640), 0)
    assert encoded.producers == {(b"s", b"job:p"): 640}


def test_values_are_written_as_they_are_read() -> None:
    from datetime import UTC, datetime

    noon = [datetime(2026, 1, 31, 12, tzinfo=UTC)]
    times = {zone or "none": pa.array(noon, pa.timestamp("us", tz=zone)) for zone in ("UTC", "Asia/Tokyo", None)}
    [command] = commands(batch(b=[True], f=[1.5], x=[b"\xff"], **times), idempotency="none")
    assert command[4:10:2] == [b"true", b"1.5", b"\xff"]
    assert command[10::2] == [b"2026-01-31T12:00:00.000000Z"] * 2 + [b"2026-01-31T12:00:00.000000"]


def test_entries_to_acknowledge_go_with_their_rows() -> None:
    encoded = encoder(ackGroup="g", ackStream="in").encode(batch(n=[1, 2], _ack_id=["5-0", None]), 0)
    assert encoded.acks == [(b"in", b"5-0"), None]
