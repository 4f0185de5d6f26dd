"""The stream that a replica receives: what can be run, and which offset it then has."""

from __future__ import annotations

import tracemalloc

import pytest

from headrace.protocol.packing import pack_command
from headrace.protocol.reader import ProtocolError
from headrace.replication.incoming import LARGE_SIZE, Incoming

START = 100
SIZE_MAX = 1 << 30


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
    incoming = Incoming(START, SIZE_MAX)
    done = []
    for index in range(0, len(data), step):
        done += run(incoming, data[index : index + step])
    assert done == lines
    assert incoming.applied == incoming.received == START + len(data)


def test_known_sizes_of_requests():
    for line, size in ((b"SELECT 0", 23), (b"ping", 14), (b"REPLCONF GETACK *", 37)):
        incoming = Incoming(0, SIZE_MAX)
        run(incoming, packed(line))
        assert incoming.applied == size


def test_half_a_command_does_not_count():
    data = packed(b"SET a 1", b"SET b 2")
    for cut in range(len(packed(b"SET a 1")), len(data)):
        incoming = Incoming(START, SIZE_MAX)
        assert run(incoming, data[:cut]) == [b"SET a 1"]
        assert incoming.applied == START + len(packed(b"SET a 1"))
        assert incoming.received == START + cut


def test_a_transaction_counts_when_its_end_has_come():
    before, inside, after = packed(b"SET a 1"), packed(b"MULTI", b"SET b 2", b"SET c 3"), packed(b"EXEC", b"SET d 4")
    for cut in range(len(before), len(before + inside) + 1):
        incoming = Incoming(START, SIZE_MAX)
        first = run(incoming, (before + inside + after)[:cut])
        assert first == [b"SET a 1"]
        assert incoming.applied == START + len(before)
        assert run(incoming, (before + inside + after)[cut:]) == [
            b"MULTI", b"SET b 2", b"SET c 3", b"EXEC", b"SET d 4",
        ]  # fmt: skip
        assert incoming.applied == START + len(before + inside + after)


def test_a_second_transaction_is_held_back_after_the_end_of_the_first():
    incoming = Incoming(START, SIZE_MAX)
    run(incoming, packed(b"MULTI", b"SET a 1"))
    assert run(incoming, packed(b"EXEC", b"MULTI", b"SET b 1")) == [b"MULTI", b"SET a 1", b"EXEC"]
    assert incoming.applied == START + len(packed(b"MULTI", b"SET a 1", b"EXEC"))


def test_a_confirmation_counts_what_is_before_its_request():
    incoming = Incoming(START, SIZE_MAX)
    data = packed(b"SET a 1", b"REPLCONF GETACK *", b"REPLCONF GETACK *", b"SET b 2")
    first, request = len(packed(b"SET a 1")), len(packed(b"REPLCONF GETACK *"))
    assert run(incoming, data) == [
        b"SET a 1", b"ack %d" % (START + first), b"ack %d" % (START + first + request), b"SET b 2",
    ]  # fmt: skip
    assert incoming.applied == START + len(data)


def test_marks_may_be_in_lower_case():
    incoming = Incoming(0, SIZE_MAX)
    assert run(incoming, packed(b"multi", b"set a 1", b"exec", b"replconf getack *")) == [
        b"multi", b"set a 1", b"exec", b"ack %d" % len(packed(b"multi", b"set a 1", b"exec")),
    ]  # fmt: skip


def test_line_ends_count():
    incoming = Incoming(187, SIZE_MAX)
    assert run(incoming, b"\n") == []
    assert incoming.received == 188
    run(incoming, packed(b"PING"))
    assert incoming.applied == 202


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_bytes_are_passed_on_as_they_are(step):
    data = b"\n".join([packed(b"SET a 1", b"MULTI", b"SET b 2"), packed(b"EXEC"), packed(b"ping")])
    incoming = Incoming(START, SIZE_MAX)
    passed_on = b""
    for index in range(0, len(data), step):
        for part in incoming.feed(data[index : index + step]):
            passed_on += b"".join(incoming.take(part.end))
    assert passed_on == data


@pytest.mark.parametrize("data", [b"PING\r\n", b"#TS:1\r\n", b"*x\r\n", b"*1\r\n+PING\r\n", b"*1\r\n$4\r\nPOST\r\n"])
def test_what_is_no_stream_is_refused(data):
    incoming = Incoming(0, SIZE_MAX)
    before = packed(b"SET a 1")
    assert run(incoming, before + data) == [b"SET a 1"]
    assert isinstance(incoming.error, ProtocolError)
    assert incoming.applied == len(before)
    assert incoming.feed(packed(b"SET b 1")) == []
    assert incoming.applied == len(before)


ANNOUNCED = [
    (b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9000000000\r\n", b"request of 9000000035 bytes"),
    (b"*3\r\n$3\r\nSET\r\n$9000000000\r\n", b"request of 9000000034 bytes"),
    (b"*2000000000\r\n", b"request of 12000000013 bytes"),
    (packed(b"MULTI") + b"*2\r\n$3\r\nGET\r\n$9000000000\r\n", b"transaction of 9000000043 bytes"),
]


@pytest.mark.parametrize(("data", "message"), ANNOUNCED)
@pytest.mark.parametrize("step", [1, 10_000])
def test_what_is_announced_and_too_large_is_refused_before_it_comes(data, message, step):
    before = packed(b"SET a 1")
    incoming = Incoming(START, SIZE_MAX)
    assert run(incoming, before) == [b"SET a 1"]
    for index in range(0, len(data), step):
        assert incoming.error is None
        assert run(incoming, data[index : index + step]) == []
    assert incoming.error is not None
    assert incoming.error.text == b"a %b or more, and at most %d are taken" % (message, SIZE_MAX)
    assert incoming.applied == START + len(before)


def test_what_grows_for_ever_is_refused_at_the_limit():
    """A transaction, a request of many words, and empty lines."""
    for first, more in ((packed(b"MULTI"), packed(b"SET a 1")), (b"*1000\r\n", b"$5\r\nvalue\r\n"), (b"", b"\r\n")):
        incoming = Incoming(START, 10_000)
        run(incoming, first)
        fed = 0
        while incoming.error is None and fed <= 20_000:
            assert run(incoming, more) == []
            fed += len(more)
        assert 3_900 < fed <= 10_000 + len(more)
        assert incoming.applied == START


def test_a_request_as_large_as_the_limit_is_taken():
    data = packed(b"SET k " + b"v" * 100_000)
    incoming = Incoming(START, len(data))
    for index in range(0, len(data), 999):
        assert incoming.error is None
        done = run(incoming, data[index : index + 999])
    assert done == [b"SET k " + b"v" * 100_000]
    assert Incoming(START, len(data) - 1).feed(data[:100]) == []


@pytest.mark.parametrize("step", [1_000, 65_537, 70_000, 1 << 20])
@pytest.mark.parametrize("shift", range(4))
def test_large_words_are_read_in_pieces(step, shift):
    """The pieces end before, inside and after each line end."""
    words = [b"MSET", b"a", b"v" * LARGE_SIZE, b"b", b"w" * 200_000, b"c", b"short"]
    last = [b"SET", b"d", b"x" * (LARGE_SIZE + 1)]
    data = pack_command(words) + pack_command(last) + pack_command((b"ping",))
    incoming = Incoming(START, SIZE_MAX)
    done, taken = [], b""
    for start in range(-shift, len(data), step):
        for part in incoming.feed(data[max(start, 0) : start + step]):
            done += part.requests
            taken += b"".join(incoming.take(part.end))
        assert incoming.applied == START + len(taken)
    assert done == [words, last, [b"ping"]]
    assert taken == data


@pytest.mark.parametrize("piece", [1, 2, 3])
def test_the_line_end_of_a_large_word_may_come_alone(piece):
    data = packed(b"SET k " + b"v" * LARGE_SIZE)
    incoming = Incoming(START, SIZE_MAX)
    assert run(incoming, data[:-piece]) == []
    for index in range(len(data) - piece, len(data) - 1):
        assert run(incoming, data[index : index + 1]) == []
    assert run(incoming, data[-1:] + packed(b"ping")) == [b"SET k " + b"v" * LARGE_SIZE, b"ping"]
    assert incoming.applied == incoming.received


def test_a_request_of_a_browser_with_a_large_word_is_refused():
    incoming = Incoming(START, SIZE_MAX)
    data = pack_command((b"POST", b"v" * LARGE_SIZE))
    assert run(incoming, data[:-1]) == run(incoming, data[-1:]) == []
    assert incoming.error is not None
    assert incoming.applied == START


def test_a_large_word_is_kept_once_while_it_arrives():
    incoming = Incoming(START, SIZE_MAX)
    size = 20_000_000
    run(incoming, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % size)
    tracemalloc.start()
    try:
        for _ in range(size // 100_000 - 1):
            assert incoming.feed(bytes(100_000)) == []
        assert tracemalloc.get_traced_memory()[1] < 1.1 * size
    finally:
        tracemalloc.stop()
    assert [len(part.requests[0][2]) for part in incoming.feed(bytes(100_000) + b"\r\n")] == [size]


def test_a_long_transaction_is_measured_once():
    incoming = Incoming(START, SIZE_MAX)
    run(incoming, packed(b"MULTI"))
    for _ in range(5000):
        assert run(incoming, packed(b"SET a 1")) == []
    assert incoming.applied == START
    assert len(run(incoming, packed(b"EXEC"))) == 5002
    assert incoming.applied == incoming.received
