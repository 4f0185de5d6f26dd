"""The frame of a dataset on a replication link: with its size, or with a mark at its end."""

from __future__ import annotations

import pytest

from headrace.replication.payload import HEADER_SIZE_MAX, MARK_SIZE, Payload, PayloadError

MARK = b"m" * MARK_SIZE


def fed(data: bytes, step: int) -> tuple[Payload, bytes]:
    """A frame that was fed in pieces of this size, and the dataset it returned. The rest of the bytes is not fed."""
    payload = Payload()
    taken = b""
    for index in range(0, len(data), step):
        taken += payload.feed(data[index : index + step])
        if payload.is_complete:
            payload.rest += data[index + step :]
            break
    return payload, taken


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("before", [b"", b"\n", b"\n\n\n", b"\r\n"])
@pytest.mark.parametrize("dataset", [b"REDIS0015 and more", b"x", b"\r\n$3\r\n", b""])
def test_a_payload_of_known_size_ends_where_the_stream_begins(dataset, before, step):
    payload, taken = fed(before + b"$%d\r\n" % len(dataset) + dataset + b"*1\r\n$4\r\nping\r\n", step)
    assert taken == dataset
    assert payload.is_complete
    assert payload.rest == b"*1\r\n$4\r\nping\r\n"
    assert (payload.size, payload.read_size, payload.has_mark) == (len(dataset), len(dataset), False)


@pytest.mark.parametrize("step", [1, 39, 40, 41, 1000])
@pytest.mark.parametrize("dataset", [b"REDIS0015 and more" * 10, b"", MARK[:-1], b"x" + MARK[1:]])
def test_a_payload_with_a_mark_ends_with_the_mark(dataset, step):
    payload, taken = fed(b"\n$EOF:" + MARK + b"\r\n" + dataset + b"." + MARK, step)
    assert taken == dataset + b"."
    assert payload.is_complete
    assert (payload.size, payload.read_size, payload.has_mark) == (0, len(dataset) + 1, True)


@pytest.mark.parametrize("end", [0, 1, 39])
def test_a_payload_without_its_whole_mark_is_not_complete(end):
    payload, _ = fed(b"$EOF:" + MARK + b"\r\nREDIS" + MARK[:end], 1000)
    assert not payload.is_complete


@pytest.mark.parametrize(
    "line", [b"-ERR no", b"+OK", b"$", b"$-1", b"$abc", b"$1 2", b"$" + b"9" * 19, b"$EOF:short", b"REDIS0015"]
)
def test_anything_but_a_frame_is_refused(line):
    with pytest.raises(PayloadError, match=r"^The primary sent no dataset, but: "):
        Payload().feed(line + b"\r\n")


def test_a_header_without_end_is_refused():
    with pytest.raises(PayloadError, match="too long"):
        Payload().feed(b"$" + b"1" * HEADER_SIZE_MAX + b"1")


def test_nothing_is_known_of_a_payload_before_its_header():
    payload = Payload()
    payload.feed(b"\n\n$1")
    assert (payload.size, payload.read_size) == (-1, 0)
