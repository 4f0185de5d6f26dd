"""The data source: checks of modes, options and streams before anything is read."""

from __future__ import annotations

from typing import Any

import pytest

from support.servers import Server
from support.spark_streams import connect, fill

pytest.importorskip("pyspark", reason="pyspark is not installed: `make test-pipeline` installs it")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: `make test-pipeline` installs it")

from pyspark.sql.types import StructType

from headrace.pipeline.errors import DataLoss, OptionError
from headrace.pipeline.source import HeadraceDataSource

SCHEMA = StructType().add("n", "string")


def source(**options: str) -> HeadraceDataSource:
    return HeadraceDataSource({"stream": "s", **options})


@pytest.mark.parametrize(
    ("ask", "mode", "message"),
    [
        (lambda one: one.reader(SCHEMA), "queue", "option mode is for readStream: leave it out"),
        (lambda one: one.reader(SCHEMA), "settle", "option mode is for readStream: leave it out"),
        (lambda one: one.streamReader(SCHEMA), "settle", "option mode must be log or queue"),
        (lambda one: one.writer(SCHEMA, False), "queue", "option mode must be settle, or be left out"),
        (lambda one: one.streamWriter(SCHEMA, False), "log", "option mode must be settle, or be left out"),
    ],
)
def test_unsuitable_mode_is_refused(ask: Any, mode: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ask(source(mode=mode))


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_offsets_of_a_stream_that_is_not_read_are_refused(option: str, headrace: Server) -> None:
    fill(headrace, "orders", 3)
    given = {"port": str(headrace.port), option: '{"orderz": "1-0", "orders": "2-0"}'}
    message = f"option {option} names orderz, which is not one of the streams to read"
    for where in ({"stream": "orders"}, {"stream": "", "streamPattern": "ord*"}):
        options = {name: text for name, text in (given | where).items() if text}
        with pytest.raises(OptionError, match=message):
            HeadraceDataSource(options).reader(SCHEMA).partitions()
    if option == "startingOffsets":
        with pytest.raises(OptionError, match=message):
            HeadraceDataSource({**given, "stream": "orders"}).streamReader(SCHEMA).initialOffset()


def test_key_that_is_not_utf8_is_named(server: Server) -> None:
    with connect(server) as connection:
        connection.call("XADD", b"ord\xff", "1-0", "n", "1")
    given = {"port": str(server.port), "streamPattern": "ord*"}
    for ask in (
        lambda: HeadraceDataSource(given).reader(SCHEMA).partitions(),
        lambda: HeadraceDataSource(given).streamReader(SCHEMA).initialOffset(),
    ):
        with pytest.raises(OptionError, match=r"option streamPattern: the key b'ord\\xff' is not UTF-8"):
            ask()


@pytest.mark.parametrize(
    "options", [{}, {"endingOffsets": '{"s": "900-0"}'}, {"minPartitions": "1", "pageSize": "300"}]
)
def test_entries_trimmed_while_a_batch_is_read_are_counted(
    options: dict[str, str], server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    fill(server, "s", 1000)
    given = {"port": str(server.port), "minPartitions": "3", "pageSize": "10", **options}
    last = 900 if "endingOffsets" in options else 1000
    strict, lax = (source(**given, failOnDataLoss=word).reader(SCHEMA) for word in ("true", "false"))
    assert sum(len(records) for part in strict.partitions() for records in strict.read(part)) == last
    parts, lax_parts = strict.partitions(), lax.partitions()
    whole = parts[0].expected.count
    reading = strict.read(parts[0])
    read = [len(next(reading))]
    with connect(server) as connection:
        connection.call("XTRIM", "s", "MINID", "=", "701-0" if len(parts) == 1 else "201-0")
    with pytest.raises(DataLoss, match=rf"stream s: \d+ of {whole} entries from 1-0 to .* were trimmed") as caught:
        read.extend(map(len, reading))
    assert f"stream s: {whole - sum(read)} of" in str(caught.value)
    found = sum(len(records) for part in lax_parts for records in lax.read(part))
    assert f"stream s: {last - found} of {whole} entries" in caplog.text
    assert len(caplog.records) == 1


def test_loss_in_an_uncounted_range_is_reported_with_its_upper_bound(server: Server) -> None:
    fill(server, "s", 100)
    reader = source(port=str(server.port), startingOffsets='{"s": "10-0"}').reader(SCHEMA)
    parts = reader.partitions()
    with connect(server) as connection:
        connection.call("XTRIM", "s", "MINID", "=", "8-0")
        assert sum(len(records) for part in parts for records in reader.read(part)) == 90
        connection.call("XTRIM", "s", "MINID", "=", "31-0")
    with pytest.raises(DataLoss, match=r"entries from 10-1 to 100-0: up to 30 may have been trimmed"):
        list(reader.read(parts[0]))
