"""The stream that a replica receives: what can be run, and which offset it then has."""

from __future__ import annotations

import pytest

from headrace.protocol.packing import pack_command
from headrace.protocol.reader import ProtocolError
from headrace.replication.incoming import Incoming

START = 100


def packed(*lines: bytes) -> bytes:
    return b"".join(pack_command(line.split()) for line in lines)


def run(incoming: Incoming, data: bytes) -> list[bytes]:
    """Feed bytes, and run what can be run: `command` for each command, `ack <offset>` for each confirmation."""
    done = []
    for requests, end, is_confirmed in incoming.feed(data):
        done += [b" ".join(request) for request in requests]
        incoming.take(end)
        if is_confirmed:
            done.append(b"ack %d" % incoming.applied)
    return done


@pytest.mark.parametrize("step", [1, 2, 5, 17, 10_000])
def test_every_byte_is_counted_and_every_command_is_run_once(step):
    lines = [b"SELECT 0", b"XADD s 1-1 f v", b"MULTI", b"XADD s 2-1 f v", b"XDEL s 1-1", b"EXEC", b"ping", b"SET k v"]
    data = packed(*lines)
    incoming = Incoming(START)
    done = []
    for index in range(0, len(data), step):
        done += run(incoming, data[index : index + step])
    assert done == lines
    assert incoming.applied == incoming.received == START + len(data)


def test_known_sizes_of_requests():
    for line, size in ((b"SELECT 0", 23), (b"ping", 14), (b"REPLCONF GETACK *", 37)):
        incoming = Incoming(0)
        run(incoming, packed(line))
        assert incoming.applied == size


def test_half_a_command_does_not_count():
    data = packed(b"SET a 1", b"SET b 2")
    for cut in range(len(packed(b"SET a 1")), len(data)):
        incoming = Incoming(START)
        assert run(incoming, data[:cut]) == [b"SET a 1"]
        assert incoming.applied == START + len(packed(b"SET a 1"))
        assert incoming.received == START + cut


def test_a_transaction_counts_when_its_end_has_come():
    before, inside, after = packed(b"SET a 1"), packed(b"MULTI", b"SET b 2", b"SET c 3"), packed(b"EXEC", b"SET d 4")
    for cut in range(len(before), len(before + inside) + 1):
        incoming = Incoming(START)
        first = run(incoming, (before + inside + after)[:cut])
        assert first == [b"SET a 1"]
        assert incoming.applied == START + len(before)
        assert run(incoming, (before + inside + after)[cut:]) == [
            b"MULTI", b"SET b 2", b"SET c 3", b"EXEC", b"SET d 4",
        ]  # fmt: skip
        assert incoming.applied == START + len(before + inside + after)


def test_a_second_transaction_is_held_back_after_the_end_of_the_first():
    incoming = Incoming(START)
    run(incoming, packed(b"MULTI", b"SET a 1"))
    assert run(incoming, packed(b"EXEC", b"MULTI", b"SET b 1")) == [b"MULTI", b"SET a 1", b"EXEC"]
    assert incoming.applied == START + len(packed(b"MULTI", b"SET a 1", b"EXEC"))


def test_a_confirmation_counts_what_is_before_its_request():
    incoming = Incoming(START)
    data = packed(b"SET a 1", b"REPLCONF GETACK *", b"REPLCONF GETACK *", b"SET b 2")
    first, request = len(packed(b"SET a 1")), len(packed(b"REPLCONF GETACK *"))
    assert run(incoming, data) == [
        b"SET a 1", b"ack %d" % (START + first), b"ack %d" % (START + first + request), b"SET b 2",
    ]  # fmt: skip
    assert incoming.applied == START + len(data)


def test_marks_may_be_in_lower_case():
    incoming = Incoming(0)
    assert run(incoming, packed(b"multi", b"set a 1", b"exec", b"replconf getack *")) == [
        b"multi", b"set a 1", b"exec", b"ack %d" % len(packed(b"multi", b"set a 1", b"exec")),
    ]  # fmt: skip


def test_line_ends_count():
    incoming = Incoming(187)
    assert run(incoming, b"\n") == []
    assert incoming.received == 188
    run(incoming, packed(b"PING"))
    assert incoming.applied == 202


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_bytes_are_passed_on_as_they_are(step):
    data = b"\n".join([packed(b"SET a 1", b"MULTI", b"SET b 2"), packed(b"EXEC"), packed(b"ping")])
    incoming = Incoming(START)
    passed_on = b""
    for index in range(0, len(data), step):
        for part in incoming.feed(data[index : index + step]):
            passed_on += incoming.take(part.end)
    assert passed_on == data


@pytest.mark.parametrize("data", [b"PING\r\n", b"#TS:1\r\n", b"*x\r\n", b"*1\r\n+PING\r\n", b"*1\r\n$4\r\nPOST\r\n"])
def test_what_is_no_stream_is_refused(data):
    incoming = Incoming(0)
    with pytest.raises(ProtocolError):
        incoming.feed(data)


def test_a_long_transaction_is_measured_once():
    incoming = Incoming(START)
    run(incoming, packed(b"MULTI"))
    for _ in range(5000):
        assert run(incoming, packed(b"SET a 1")) == []
    assert incoming.applied == START
    assert len(run(incoming, packed(b"EXEC"))) == 5002
    assert incoming.applied == incoming.received
