"""Numbers that no client sends by mistake, in the place of every argument of every command: no internal error, and
Redis' own error text.
"""

from __future__ import annotations

import logging
from random import Random

import pytest

from differential.grammar import ROWS, draw_request
from differential.values import ClientId, Duration, Token
from headrace.commands.admin import debug
from headrace.commands.core.table import Row, all_rows
from headrace.server.configuration import directive_kinds
from headrace.server.configuration.directives import DIRECTIVES, Change, Directive
from support.inprocess import Rig
from support.lines import split
from support.servers import Server
from support.wire import Wire, encode

HOSTILE = [
    b"9" * 5000, b"-" + b"9" * 5000, b"1_000", "٣".encode(), b"+1", b" 1", b"1 ", b"0x10", b"007", b"-0", b"1e400",
    b"nan", b"inf", b"", b"9223372036854775808", b"-9223372036854775809", b"18446744073709551616", b"9" * 5000 + b"-1",
    b"1-" + b"9" * 5000, b"9" * 5000 + b"gb",
]  # fmt: skip
# Bounds of 32 and 64 bits. Many commands take some of them as a count, an offset or a time.
LARGE = [
    b"2147483647", b"2147483648", b"-2147483649", b"4294967295", b"4294967296", b"9223372036854775807",
    b"-9223372036854775808", b"18446744073709551615",
]  # fmt: skip
FIXTURE = [
    "FLUSHALL", "SET str hello", "SET num 7", "XADD s 1-1 f v", "XADD s 2-1 f v", "XADD t 1-1 f v",
    "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >",
]  # fmt: skip
OF_DEBUG = [
    "DEBUG SLEEP 0", "DEBUG JMAP", "DEBUG SET-ACTIVE-EXPIRE 1", "DEBUG QUICKLIST-PACKED-THRESHOLD 100",
    "DEBUG OBJECT s", "DEBUG DIGEST-VALUE s", "DEBUG AOF-FLUSH-SLEEP 0", "DEBUG PAUSE-CRON 0", "DEBUG PROTOCOL integer",
    "DEBUG REPLYBUFFER PEAK-RESET-TIME 1", "DEBUG DICT-RESIZING 1", "DEBUG POPULATE 1 k 1",
]  # fmt: skip
# Commands that are not sent: they end the server, whatever their arguments.
ENDING = {"SHUTDOWN"}
# Directives whose large numbers keep Redis busy: it asks the system for that many open files, then for 16 fewer, and so
# on, until it gets them. 100000000 takes 4 s, and 2147483647 more than 20 s. 4294967295 wraps around, and is accepted.
TRIED_IN_STEPS = (b"maxclients",)
# Directives that need a server that listens.
PORTS = (b"port", b"bind")

Request = tuple[bytes, ...]


def word(token: Token) -> bytes:
    if isinstance(token, ClientId):
        return b"2"
    if isinstance(token, Duration):
        return token.take(1)
    return token if isinstance(token, bytes) else b"x"


def requests_to(row: Row, count: int) -> list[Request]:
    """Different well-formed requests to a command, drawn from its grammar."""
    if row.name == "CONFIG|SET":
        return [(b"CONFIG", b"SET", each.name, b"1") for each in DIRECTIVES if each.name not in PORTS]
    if row.name == "DEBUG":
        return [tuple(each.encode() for each in line.split()) for line in OF_DEBUG]
    drawn = {tuple(map(word, draw_request(Random(seed), row, may_bend=False))): None for seed in range(4 * count)}
    return sorted(drawn, key=len, reverse=True)[:count]


def bent(request: Request, row: Row, numbers: list[bytes] = HOSTILE) -> list[Request]:
    """The request with each of the numbers in the place of each argument."""
    first = 2 if row.name == "DEBUG" else len(row.name.split("|"))
    return [
        (*request[:place], number, *request[place + 1 :]) for place in range(first, len(request)) for number in numbers
    ]


SENT = [row for row in all_rows() if row.handler is not None and row.name not in ENDING]


@pytest.mark.parametrize("row", SENT, ids=lambda row: row.name)
def test_no_number_is_an_internal_error(
    row: Row, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    monkeypatch.setattr(debug.time, "sleep", lambda seconds: None)
    rig = Rig(enable_debug_command=b"yes", enable_protected_configs=b"yes")
    rig.connect().call(*FIXTURE)
    rig.connect()
    for request in requests_to(row, 5):
        for argv in bent(request, row):
            caller = rig.connect()
            rig.dispatcher.execute(caller.session, [list(argv)], rig.clock())
            assert not any(
                type(each) is bytes and each.startswith(b"-ERR internal error") for each in caller.session.out
            )
            rig.dispatcher.detach(caller.session)
    assert not [each for each in caplog.messages if "internal error" in each]


# Commands that wait, or work, for as long as a number says.
ENDLESS_IF_LARGE = {"BLPOP", "CLIENT|PAUSE", "DEBUG", "FAILOVER", "WAIT", "WAITAOF", "XREAD", "XREADGROUP"}
WAITING = {b"BLOCK", b"CLAIM"}
BY_REDIS = [row for row in ROWS if row.name not in ("HELLO", "AUTH", "CONFIG|SET")]
NUMERIC = (
    directive_kinds.Integer, directive_kinds.Memory, directive_kinds.SavePoints, directive_kinds.OomScores,
    directive_kinds.BufferLimits, directive_kinds.MemoryOrPercent,
)  # fmt: skip
# Redis keeps 32 bits of the seconds, and takes a number that is 0 or more then; Headrace refuses it.
CUT_BY_REDIS = {
    b"normal 0 0 -" + b"9" * 5000, b"normal 0 0 -9223372036854775809", b"normal 0 0 -9223372036854775808",
    b"normal 0 0 -2147483649", b"normal 0 0 4294967296",
}  # fmt: skip
OF_NUMBERS = [
    each for each in DIRECTIVES
    if isinstance(each.kind, NUMERIC) and each.has_effect and each.change is Change.ALLOWED and not each.is_hidden
    and each.name not in PORTS
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("row", BY_REDIS, ids=lambda row: row.name)
def test_errors_about_numbers_are_those_of_redis(row: Row, headrace: Server, oracle: Server) -> None:
    requests = [each for each in requests_to(row, 2) if not WAITING.intersection(map(bytes.upper, each))]
    numbers = HOSTILE if row.name in ENDLESS_IF_LARGE else HOSTILE + LARGE
    for argv in [each for request in requests for each in bent(request, row, numbers)]:
        ours, theirs = (reply_of(server, argv) for server in (headrace, oracle))
        if ours[:1] == b"-" or theirs[:1] == b"-":
            assert ours == theirs, argv


def reply_of(server: Server, argv: Request) -> bytes:
    """What a new client gets, on a dataset that is always the same."""
    with Wire(server.port) as wire:
        wire.send_bytes(b"".join(encode(split(line)) for line in FIXTURE))
        for _ in FIXTURE:
            wire.receive()
        return wire.call(*argv)


@pytest.mark.oracle
@pytest.mark.parametrize("directive", OF_NUMBERS, ids=lambda each: each.name.decode())
def test_config_set_takes_the_numbers_that_redis_takes(directive: Directive, headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        before = ours.ask("CONFIG", "GET", directive.name)[1]
        for number in HOSTILE if directive.name in TRIED_IN_STEPS else HOSTILE + LARGE:
            for value in (number, b"normal 0 0 " + number, number + b" 1", number + b" 20 30"):
                words = ("CONFIG", "SET", directive.name, value)
                if value not in CUT_BY_REDIS:
                    assert ours.call(*words) == theirs.call(*words), value
        for wire in (ours, theirs):
            wire.call("CONFIG", "SET", directive.name, before)
