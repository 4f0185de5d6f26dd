"""Extreme numbers in the place of every argument of every command: no internal error, and the error text of Redis."""

from __future__ import annotations

import logging
from dataclasses import replace
from random import Random

import pytest

from compat.differences import OWN_DIRECTIVES
from differential.grammar import ROWS, draw_request
from differential.plain_requests import Request, always_waits, word
from headrace.commands.admin import debug
from headrace.commands.core.table import Argument, Row, all_rows
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
    "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >", "XGROUP CREATE s h 0", "XGROUP CREATECONSUMER s h c",
]  # fmt: skip
OF_DEBUG = [
    "DEBUG SLEEP 0", "DEBUG JMAP", "DEBUG SET-ACTIVE-EXPIRE 1", "DEBUG QUICKLIST-PACKED-THRESHOLD 100",
    "DEBUG OBJECT s", "DEBUG DIGEST-VALUE s", "DEBUG AOF-FLUSH-SLEEP 0", "DEBUG PAUSE-CRON 0", "DEBUG PROTOCOL integer",
    "DEBUG REPLYBUFFER PEAK-RESET-TIME 1", "DEBUG DICT-RESIZING 1", "DEBUG POPULATE 1 k 1",
]  # fmt: skip
# Commands that are not sent: they end the server, whatever their arguments.
ENDING = {"PSYNC", "SHUTDOWN", "SYNC"}
# Directives whose large numbers keep Redis busy: it asks the system for that many open files, then for 16 fewer, and so
# on, until it gets them. 100000000 takes 4 s, and 2147483647 more than 20 s. 4294967295 wraps around, and is accepted.
TRIED_IN_STEPS = (b"maxclients",)
# Directives that need a server that listens.
PORTS = {b"port", b"bind"}


def requests_to(row: Row, count: int) -> list[Request]:
    """Different well-formed requests to a command, drawn from its grammar."""
    if row.name == "CONFIG|SET":
        return [(b"CONFIG", b"SET", each.name, b"1") for each in DIRECTIVES if each.name not in PORTS]
    if row.name == "DEBUG":
        return [tuple(each.encode() for each in line.split()) for line in OF_DEBUG]
    drawn = {tuple(map(word, draw_request(Random(seed), row, may_bend=False))): None for seed in range(4 * count)}
    return sorted(drawn, key=len, reverse=True)[:count]


# Forms that have a path of their own, and options that wait unless there is something to read. `{}` is a number.
FORMS = {
    "XADD": ["XADD s MAXLEN {} * f v", "XADD s MAXLEN ~ {} * f v", "XADD s MAXLEN ~ 9 LIMIT {} * f v"],
    "XREAD": ["XREAD COUNT {} STREAMS s 0", "XREAD COUNT 1 BLOCK {} STREAMS s 0"],
    "XREADGROUP": [
        "XREADGROUP GROUP h c COUNT {} STREAMS s >",
        "XREADGROUP GROUP h c COUNT 1 BLOCK {} STREAMS s >",
        "XREADGROUP GROUP h c COUNT {} BLOCK 1 STREAMS s >",
        "XREADGROUP GROUP h c BLOCK {} STREAMS s >",
        "XREADGROUP GROUP g c CLAIM {} STREAMS s 0",
    ],
}


def of_forms(row: Row, numbers: list[bytes]) -> list[Request]:
    """The forms of a command, with each of the numbers."""
    return [
        tuple(number if word == b"{}" else word for word in split(form))
        for form in FORMS.get(row.name, [])
        for number in numbers
    ]


def with_one_option(row: Row) -> list[Request]:
    """For each optional argument that has an integer, a request that has no other one."""
    found: list[Request] = []
    for wanted in row.arguments:
        if wanted.optional and has_integer(wanted) and wanted.token not in ("BLOCK", "CLAIM"):
            chosen = tuple(
                replace(each, optional=False) for each in row.arguments if each is wanted or not each.optional
            )
            found.append(tuple(map(word, draw_request(Random(0), variant(row, chosen), may_bend=False))))
    return found


def has_integer(argument: Argument) -> bool:
    """Whether the argument or one of its parts is an integer."""
    return argument.type == "integer" or any(map(has_integer, argument.arguments))


def variant(row: Row, arguments: tuple[Argument, ...]) -> Row:
    """The row with other arguments."""
    return Row(row.name, row.arity, row.handler, arguments=arguments)


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


# Commands that wait or run for a time that an argument sets.
ENDLESS_IF_LARGE = {"CLIENT|PAUSE", "DEBUG", "FAILOVER", "WAIT", "WAITAOF", "XREAD", "XREADGROUP"}
WAITING = {b"BLOCK", b"CLAIM"}
BY_REDIS = [row for row in ROWS if row.name not in ("HELLO", "AUTH", "CONFIG|SET")]
NUMERIC = (
    directive_kinds.Integer, directive_kinds.Memory, directive_kinds.SavePoints, directive_kinds.OomScores,
    directive_kinds.BufferLimits, directive_kinds.MemoryOrPercent,
)  # fmt: skip
# Redis cuts the seconds to 32 bits, and accepts the number if the result is not negative. Headrace refuses it.
CUT_BY_REDIS = {
    b"normal 0 0 -" + b"9" * 5000, b"normal 0 0 -9223372036854775809", b"normal 0 0 -9223372036854775808",
    b"normal 0 0 -2147483649", b"normal 0 0 4294967296",
}  # fmt: skip
OF_NUMBERS = [
    each for each in DIRECTIVES
    if isinstance(each.kind, NUMERIC) and each.has_effect and each.change is Change.ALLOWED and not each.is_hidden
    and each.name not in PORTS | OWN_DIRECTIVES
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("row", BY_REDIS, ids=lambda row: row.name)
def test_errors_about_numbers_are_those_of_redis(row: Row, headrace: Server, oracle: Server) -> None:
    drawn = requests_to(row, 2) + with_one_option(row)
    requests = [each for each in drawn if not WAITING.intersection(map(bytes.upper, each))]
    numbers = HOSTILE if row.name in ENDLESS_IF_LARGE else HOSTILE + LARGE
    for argv in [each for request in requests for each in bent(request, row, numbers)] + of_forms(row, HOSTILE + LARGE):
        sent = [(b"MULTI",), argv, (b"EXEC",)] if always_waits(row) else [argv]
        ours, theirs = replies_of((headrace, oracle), *sent)
        if b"-" in (ours[:1], theirs[:1]) or len(sent) > 1:
            assert ours == theirs, argv


def replies_of(servers: tuple[Server, Server], *requests: Request) -> tuple[bytes, bytes]:
    """The replies of each server to a new client, with the dataset of FIXTURE. Both work at the same time."""
    sent = b"".join([*(encode(split(line)) for line in FIXTURE), *map(encode, requests)])
    with Wire(servers[0].port) as first, Wire(servers[1].port) as second:
        for wire in (first, second):
            wire.send_bytes(sent)
        for wire in (first, second):
            for _ in FIXTURE:
                wire.receive()
        ours, theirs = (b"".join(wire.receive() for _ in requests) for wire in (first, second))
        return ours, theirs


# The longest times that fit are some years before these end.
TIMEOUTS = [*HOSTILE, *LARGE, b"9223372036854775806", b"9223371000000000000", b"9223370000000000000", b"0", b"1000000"]


@pytest.mark.oracle
@pytest.mark.parametrize("form", ["CLIENT PAUSE {} WRITE", "XREAD BLOCK {} STREAMS s 0", "WAIT 0 {}", "WAITAOF 0 0 {}"])
def test_timeouts_have_the_limits_of_redis(form: str, headrace: Server, oracle: Server) -> None:
    for timeout in TIMEOUTS:
        argv = tuple(timeout if word == b"{}" else word for word in split(form))
        ours, theirs = replies_of((headrace, oracle), argv)
        for server in (headrace, oracle):
            with server.connect() as wire:
                wire.call("CLIENT", "UNPAUSE")
        assert ours == theirs, timeout


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
