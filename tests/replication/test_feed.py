"""Effects as bytes of the stream: databases, transactions, and the count of bytes."""

from __future__ import annotations

from headrace.protocol.packing import pack_command
from headrace.replication.feed import GETACK, LARGE_SIZE, PING, Feed
from headrace.replication.history import History
from support.append_only_file import parse_records

SET = pack_command((b"SET", b"k", b"v"))


def feed_of() -> tuple[Feed, History]:
    history = History()
    return Feed(history), history


def texts(pieces: list[bytes]) -> list[bytes]:
    """The records as words joined by blanks."""
    return [b" ".join(record) for record in parse_records(b"".join(pieces))]


def test_a_record_follows_a_select_when_its_database_changes() -> None:
    feed, _ = feed_of()
    feed.append([(0, SET), (0, SET), (3, SET), (0, SET)], grouped=False)
    feed.append([(0, SET)], grouped=False)
    expected = [b"SELECT 0", b"SET k v", b"SET k v", b"SELECT 3", b"SET k v", b"SELECT 0", b"SET k v", b"SET k v"]
    assert texts(feed.take()) == expected


def test_a_group_has_its_select_inside() -> None:
    feed, _ = feed_of()
    feed.append([(0, SET), (1, SET)], grouped=True)
    assert texts(feed.take()) == [b"MULTI", b"SELECT 0", b"SET k v", b"SELECT 1", b"SET k v", b"EXEC"]


def test_the_history_counts_every_byte_that_is_taken() -> None:
    feed, history = feed_of()
    size = 0
    for grouped in (False, True):
        feed.append([(0, SET), (2, SET)], grouped=grouped)
        feed.append_request(PING)
        feed.append_request(GETACK)
        assert not feed.is_empty
        size += len(b"".join(feed.take()))
        assert history.offset == size
        assert feed.is_empty
    assert (len(PING), len(GETACK)) == (14, 37), "the sizes that Redis counts"


def test_large_pieces_are_not_joined() -> None:
    feed, _ = feed_of()
    pieces = [bytes(LARGE_SIZE), bytes(LARGE_SIZE + 1), b"\r\n" * LARGE_SIZE]
    for piece in pieces:
        feed.append_request(piece)
    assert [id(piece) for piece in feed.take()] == [id(piece) for piece in pieces]
    for piece in (*pieces, *[PING] * 3):
        feed.append_request(piece)
    assert feed.take() == [b"".join(pieces) + PING * 3]
