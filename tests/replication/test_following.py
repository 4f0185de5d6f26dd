"""The handshake of a replica: what it sends, how it takes each answer, and when it tries again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.replication.following import (
    LINE_SIZE_MAX,
    REFUSAL_PAUSE_MS_MAX,
    RETRY_MS,
    Attempts,
    FullSync,
    Handshake,
    HandshakeFailed,
    Introduction,
    Outcome,
    PartialSync,
    Position,
)

ID = b"0123456789abcdef0123456789abcdef01234567"
OTHER_ID = b"f" * 40
HAVE = Position(ID, 859)

PORT_ONLY = Introduction(port=8303)
EVERYTHING = Introduction(b"user", b"pass", 8303, b"127.0.0.1")

PING = b"*1|$4|PING|"
AUTH = b"*3|$4|AUTH|$4|user|$4|pass|"
PORT = b"*3|$8|REPLCONF|$14|listening-port|$4|8303|"
ADDRESS = b"*3|$8|REPLCONF|$10|ip-address|$9|127.0.0.1|"
CAPABILITIES = b"*3|$8|REPLCONF|$4|capa|$6|psync2|"
ASK_ALL = b"*3|$5|PSYNC|$1|?|$2|-1|"
ASK_REST = b"*3|$5|PSYNC|$40|" + ID + b"|$3|860|"

# (introduction, position, [(what the primary sends, what the replica sends then)], outcome). `|` is a line end.
DIALOGUES: list[tuple[Introduction, Position | None, list[tuple[bytes, bytes]], Outcome]] = [
    (
        PORT_ONLY, None,
        [(b"+PONG|", PORT + CAPABILITIES), (b"+OK|+OK|", ASK_ALL), (b"+FULLRESYNC " + ID + b" 859|", b"")],
        FullSync(HAVE),
    ),
    (
        EVERYTHING, HAVE,
        [
            (b"+PONG|", AUTH + PORT + ADDRESS + CAPABILITIES),
            (b"+OK|+OK|+OK|+OK|", ASK_REST),
            (b"+CONTINUE " + OTHER_ID + b"|", b""),
        ],
        PartialSync(OTHER_ID),
    ),
    (
        PORT_ONLY, HAVE,
        [(b"+PONG|", PORT + CAPABILITIES), (b"+OK|+OK|", ASK_REST), (b"+CONTINUE|", b"")],
        PartialSync(None),
    ),
    (
        PORT_ONLY, HAVE,
        [(b"+PONG|", PORT + CAPABILITIES), (b"+OK|+OK|", ASK_REST), (b"|||+FULLRESYNC " + OTHER_ID + b" 7|", b"")],
        FullSync(Position(OTHER_ID, 7)),
    ),
    (
        Introduction(password=b"pass", port=8303), None,
        [
            (b"-NOAUTH Authentication required.|", b"*2|$4|AUTH|$4|pass|" + PORT + CAPABILITIES),
            (b"+OK|-ERR Unrecognized REPLCONF option|-ERR syntax error|", ASK_ALL),
            (b"+FULLRESYNC " + ID + b" 0|", b""),
        ],
        FullSync(Position(ID, 0)),
    ),
    (
        Introduction(port=8303, form=b"rows"), None,
        [
            (b"+PONG|", PORT + b"*5|$8|REPLCONF|$4|capa|$6|psync2|$4|capa|$4|rows|"),
            (b"+OK|+OK|", ASK_ALL),
            (b"+FULLRESYNC " + ID + b" 859|", b""),
        ],
        FullSync(HAVE),
    ),
]  # fmt: skip


def wire(text: bytes) -> bytes:
    return text.replace(b"|", b"\r\n")


def whole(data: bytes) -> Iterator[bytes]:
    yield data


def byte_by_byte(data: bytes) -> Iterator[bytes]:
    for index in range(len(data)):
        yield data[index : index + 1]


@pytest.mark.parametrize("pieces_of", [whole, byte_by_byte])
@pytest.mark.parametrize(("introduction", "position", "exchange", "outcome"), DIALOGUES)
def test_handshake_sends_what_redis_sends(introduction, position, exchange, outcome, pieces_of):
    handshake = Handshake(introduction, position)
    assert handshake.begin() == wire(PING)
    for received, sent in exchange:
        assert handshake.outcome is None
        assert b"".join(handshake.receive(piece) for piece in pieces_of(wire(received))) == wire(sent)
    assert handshake.outcome == outcome


def test_bytes_after_the_last_answer_are_kept():
    handshake = Handshake(PORT_ONLY, None)
    handshake.begin()
    handshake.receive(wire(b"+PONG|+OK|+OK|+FULLRESYNC " + ID + b" 5|$3|abc"))
    assert handshake.outcome == FullSync(Position(ID, 5))
    assert handshake.rest == b"$3\r\nabc"


def test_an_error_to_replconf_is_a_warning():
    handshake = Handshake(PORT_ONLY, None)
    handshake.begin()
    handshake.receive(wire(b"+PONG|-ERR what|+OK|"))
    assert handshake.notes[1:2] == ["(Non critical) Master does not understand REPLCONF port: ERR what"]
    assert handshake.step.value == "psync"


READY = b"+PONG|+OK|+OK|"

# (position, what the primary sends, the beginning of the failure).
FAILURES = [
    (None, b"-LOADING Redis is loading|", "Error reply to PING from master: '-LOADING Redis is loading'"),
    (None, b"-MASTERDOWN Link with MASTER is down|", "Error reply to PING"),
    (None, b"-MISCONF Redis is configured|", "Error reply to PING"),
    (None, b"-BUSY|", "Error reply to PING"),
    (None, b"-DENIED|", "Error reply to PING"),
    (None, READY + b"-NOMASTERLINK Can't SYNC|", "Master is currently unable to PSYNC"),
    (None, READY + b"-LOADING Redis is loading|", "Master is currently unable to PSYNC"),
    (None, READY + b"-ERR unknown command 'PSYNC'|", "Unexpected reply to PSYNC from master: -ERR unknown"),
    (None, READY + b"+WHAT|", "Unexpected reply to PSYNC from master: +WHAT"),
    (None, READY + b"+RDBCHANNELSYNC 6|", "Unexpected reply to PSYNC"),
    (None, READY + b"+FULLRESYNC abc 1|", "The primary sent a wrong answer to PSYNC"),
    (None, READY + b"+FULLRESYNC " + ID + b"|", "The primary sent a wrong answer to PSYNC"),
    (None, READY + b"+FULLRESYNC " + ID + b" -1|", "The primary sent a wrong answer to PSYNC"),
    (HAVE, READY + b"+CONTINUE abc|", "The primary sent a wrong answer to PSYNC"),
    (HAVE, READY + b"+CONTINUED|", "The primary sent a wrong answer to PSYNC"),
    (None, READY + b"+CONTINUE|", "The primary wants to continue a history"),
    (None, b"+" + b"x" * (LINE_SIZE_MAX + 1), "The primary sent an answer that is too long"),
]


@pytest.mark.parametrize(("position", "received", "failure"), FAILURES)
def test_an_answer_that_redis_refuses_ends_the_attempt(position, received, failure):
    handshake = Handshake(PORT_ONLY, position)
    handshake.begin()
    with pytest.raises(HandshakeFailed) as raised:
        handshake.receive(wire(received))
    assert str(raised.value).startswith(failure)


@pytest.mark.parametrize(
    "answer", [b"+PONG", b"+anything", b"-NOAUTH x", b"-NOPERM x", b"-ERR operation not permitted"]
)
def test_a_primary_that_wants_a_login_is_asked_on(answer):
    handshake = Handshake(EVERYTHING, None)
    handshake.begin()
    assert handshake.receive(answer + b"\r\n").startswith(wire(AUTH))


def test_a_wrong_password_ends_the_attempt():
    handshake = Handshake(EVERYTHING, None)
    handshake.begin()
    with pytest.raises(HandshakeFailed, match=r"Unable to AUTH to MASTER: -WRONGPASS no"):
        handshake.receive(wire(b"+PONG|-WRONGPASS no|"))


def test_a_lost_link_is_tried_at_once_and_then_each_second():
    attempts = Attempts()
    attempts.lose(now_ms=5000)
    assert attempts.due_ms == 5000
    attempts.fail(now_ms=5100)
    assert attempts.due_ms == 5100 + RETRY_MS


def test_attempts_are_counted_as_in_info():
    attempts = Attempts()
    attempts.begin()
    attempts.fail(0)
    attempts.begin()
    assert (attempts.current_count, attempts.total_count) == (2, 2)
    attempts.lose(0)
    attempts.begin()
    assert (attempts.current_count, attempts.total_count) == (1, 3)


def test_pauses_grow_while_the_data_are_refused():
    attempts = Attempts()
    pauses_ms = [attempts.refuse(0) for _ in range(9)]
    assert pauses_ms[:4] == [1000, 2000, 4000, 8000]
    assert pauses_ms[-2:] == [REFUSAL_PAUSE_MS_MAX, REFUSAL_PAUSE_MS_MAX]
    now_ms = 2 * REFUSAL_PAUSE_MS_MAX
    assert attempts.refuse(now_ms) == REFUSAL_PAUSE_MS_MAX
    now_ms += 2 * REFUSAL_PAUSE_MS_MAX + 1
    assert attempts.refuse(now_ms) == RETRY_MS
    assert attempts.due_ms == now_ms + RETRY_MS
