"""Measuring streams, by a group and by reading, on Headrace and on Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.servers import Server

pytest.importorskip("pyarrow", reason="pyarrow is not installed: `make test-pipeline` installs it")

from headrace.pipeline.connection.client import Connection
from headrace.pipeline.errors import Refused
from headrace.pipeline.options.kinds import Endpoint
from headrace.pipeline.reading import survey
from headrace.pipeline.reading.spans import Position, StreamState
from headrace.store.ids import ID_MAX, make_id


@pytest.fixture
def connection(server: Server) -> Iterator[Connection]:
    with Connection(Endpoint(port=server.port, retry_for=1)) as opened:
        yield opened


def fill(connection: Connection, key: str, count: int) -> None:
    connection.call_all([("XADD", key, f"{n}-0", "n", n) for n in range(1, count + 1)])


@pytest.mark.parametrize("way", ["group", "reading"])
def test_positions_are_even_steps_with_their_counts(
    connection: Connection, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "reading":
        monkeypatch.setattr(survey, "_measure_by_group", lambda *_: None)
        monkeypatch.setattr(survey, "PAGE_COUNT", 7)
    monkeypatch.setattr(survey, "STEPS_PER_TRIP", 2)
    fill(connection, "s", 95)
    found = survey.measure(connection, "s", Position(0, 0), [20] * 10, ID_MAX)
    assert found == [Position(make_id(n, 0), n) for n in (20, 40, 60, 80, 95)]
    assert survey.measure(connection, "s", Position(make_id(10, 0), 10), [20], ID_MAX) == [Position(make_id(30, 0), 30)]
    assert survey.measure(connection, "s", Position(make_id(95, 0), 95), [20] * 5, ID_MAX) == []
    assert len(survey.measure(connection, "s", Position(0, 0), [20] * 10, make_id(40, 0))) == 2
    assert connection.call("XINFO", "GROUPS", "s") == []


def test_streams_are_measured_by_reading_without_the_right_to_write(connection: Connection, server: Server) -> None:
    fill(connection, "s", 10)
    connection.call("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@read", "+@connection")
    with Connection(Endpoint(port=server.port, username="reader", password="pw")) as reader:
        assert survey.measure(reader, "s", Position(0, 0), [4] * 9, ID_MAX) == [
            Position(make_id(n, 0), n) for n in (4, 8, 10)
        ]


def test_state_of_a_missing_stream_is_all_zero(connection: Connection) -> None:
    fill(connection, "s", 10)
    connection.call("XDEL", "s", "4-0")
    connection.call("XTRIM", "s", "MAXLEN", 5)
    found = survey.states(connection, ["s", "none"])
    assert found["none"] == StreamState()
    assert found["s"] == StreamState(5, make_id(10, 0), make_id(6, 0), make_id(4, 0), 10)
    connection.call("SET", "text", "x")
    with pytest.raises(Refused, match="stream text: the key is not a stream"):
        survey.states(connection, ["text"])


def test_streams_are_found_by_pattern(connection: Connection) -> None:
    for key in ("orders:1", "orders:2", "other"):
        fill(connection, key, 1)
    connection.call("SET", "orders:text", "x")
    assert survey.find_streams(connection, "orders:*") == ["orders:1", "orders:2"]
