"""The last bytes of the stream: what can be read from where, and what is forgotten."""

from __future__ import annotations

import random

import pytest

from headrace.replication.backlog import BLOCK_SIZE, Backlog

SIZE = 4 * BLOCK_SIZE


def rest(backlog: Backlog, position: int) -> bytes:
    """Everything after this offset, as a replica reads it."""
    pieces = []
    while piece := backlog.read(position):
        pieces.append(bytes(piece))
        position += len(piece)
    assert position == backlog.end
    return b"".join(pieces)


@pytest.mark.parametrize("seed", range(10))
def test_every_place_that_is_kept_reads_what_was_written(seed: int) -> None:
    dice = random.Random(seed)
    start = dice.randrange(10**12)
    backlog, written = Backlog(SIZE, start), b""
    held = start
    for _ in range(60):
        data = dice.randbytes(dice.choice([1, 31, 1000, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1, 5 * BLOCK_SIZE]))
        backlog.append(data)
        written += data
        held = dice.randrange(max(held, backlog.start), backlog.end + 1)
        backlog.trim(held)
        assert backlog.end == start + len(written)
        assert backlog.start <= held
        for position in {held, backlog.start, backlog.end, dice.randrange(backlog.start, backlog.end + 1)}:
            assert rest(backlog, position) == written[position - start :], f"seed {seed}"


def test_it_keeps_its_size_and_at_most_a_block_more() -> None:
    backlog = Backlog(SIZE, 0)
    for _ in range(1000):
        backlog.append(b"x" * 1000)
        backlog.trim(backlog.end)
        assert len(backlog) <= SIZE + BLOCK_SIZE + 1000
        assert backlog.memory_size <= SIZE + 3 * BLOCK_SIZE
    assert len(backlog) >= SIZE


def test_bytes_that_a_replica_needs_are_kept_beyond_the_size() -> None:
    backlog = Backlog(SIZE, 0)
    backlog.append(b"x" * 20 * SIZE)
    backlog.trim(10)
    assert backlog.start == 0
    backlog.trim(20 * SIZE)
    assert SIZE <= len(backlog) < SIZE + BLOCK_SIZE


def test_what_was_read_stays_as_it_was_while_the_stream_continues() -> None:
    backlog = Backlog(SIZE, 0)
    backlog.append(b"a" * 100)
    unsent = backlog.read(0)
    for _ in range(100):
        backlog.append(b"b" * BLOCK_SIZE)
        backlog.trim(backlog.end)
    assert bytes(unsent) == b"a" * 100


def test_only_places_in_it_can_be_read() -> None:
    backlog = Backlog(SIZE, 1000)
    backlog.append(b"abc")
    assert [backlog.has(position) for position in (999, 1000, 1003, 1004)] == [False, True, True, False]
    with pytest.raises(AssertionError):
        backlog.read(999)
