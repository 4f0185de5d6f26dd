"""The changes that INFO counts, and save points go by: each command counts as many as in Redis."""

from __future__ import annotations

import pytest

from differential.grammar import ROWS
from differential.plain_requests import always_waits, requests_to
from headrace.commands.core.table import Row
from support.lines import expand, split
from support.servers import Server
from support.wire import Wire, encode

pytestmark = pytest.mark.oracle

REQUESTS_COUNT = 12
FIXTURE = [
    "FLUSHALL", "SET str hello", "SET num 7", "SET v 1 EX 100", "PFADD p x z",
    "XADD s 1-1 f v", "XADD s 2-1 f v", "XADD s 3-1 f v",
    "XADD s 5-1 f v", "XADD s 7-0 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c COUNT 3 STREAMS s >", "XDEL s 3-1",
    "XGROUP CREATE s h 0", "XADD t 1-1 f v", "XADD t 2-1 f v", "XGROUP CREATE t g 0",
]  # fmt: skip
# What the grammar of the table draws too seldom; `{a|b}` stands for two requests.
FORMS = [
    "MSET a 1 b 2 c 3", "MSETNX a 1 b 2", "MSETNX str 1 b 2", "MSETEX 2 a 1 b 2", "MSETEX 2 a 1 b 2 EX 100",
    "MSETEX 2 str 1 b 2 NX", "{DEL|UNLINK} str num no", "{DEL|UNLINK} no", "DELEX str", "DELEX str IFEQ hello",
    "{EXPIRE|PEXPIRE} str {1000000|0|-1}", "PEXPIREAT v 1", "EXPIRE no 100", "PERSIST {v|str}",
    "GETEX {v|str} {PERSIST|EX 1000|PXAT 1}", "GETEX str", "GETDEL {str|no}", "GETSET str x", "SET str x",
    "SET str x PXAT 1", "SET str x NX", "SET str hello GET", "SET no x XX", "SETEX str 100 x", "SETNX {str|a} x",
    "PFADD p {x|x y|''}", "PFADD p", "PFMERGE p no", "PFCOUNT {p|no}", "PFCOUNT p p",
    "PFDEBUG {GETREG|TODENSE|DECODE} p",
    "APPEND str {x|''}", "SETRANGE {str|no} {0|9} {''|x}", "INCR num", "INCRBY num 0", "INCRBYFLOAT num {0|1.5}",
    "INCREX num BYINT 2", "INCREX num BYINT 9 UBOUND 8", "INCREX num EX 100 ENX",
    "INCREX num BYINT 9 UBOUND 8 SATURATE",
    "SETBIT {str|num|no} {7|900} {0|1}", "BITOP {AND|XOR|DIFF} {a|num} str num", "BITOP OR {num|no} no2 no3",
    "BITFIELD {num|no} SET u8 0 {55|56} INCRBY u8 {0|80} {0|1}", "BITFIELD {num|no} OVERFLOW FAIL INCRBY u2 {0|80} 9",
    "BITFIELD str GET u8 0", "BITFIELD no SET u1 0 0 SET u1 0 0 SET u1 0 1",
    "SORT no STORE {num|no2}", "SORT no", "GEOSEARCHSTORE {num|no2} no FROMMEMBER x BYRADIUS 1 m",
    "GEOADD places 1 1 {a|b 2 2 a}", "GEORADIUS no 1 1 1 km STORE {num|no2}",
    "RENAME {str|v} {num|no|str}", "RENAMENX str {num|no}", "COPY {str|s} {no|num} REPLACE", "COPY s no",
    "MOVE str 1", "SWAPDB 0 {0|1|2}", "{FLUSHALL|FLUSHDB}", "{FLUSHALL|FLUSHDB} {SYNC|ASYNC}",
    "XADD s * f v", "XADD s IDMP p i * f v", "XADD s {MAXLEN|MINID} {2|3} * f v", "XADD s MAXLEN ~ 1 * f v",
    "XADD s {DELREF|ACKED} MAXLEN 1 * f v", "XADD no NOMKSTREAM * f v", "XTRIM s MAXLEN {0|2|9}", "XTRIM s MAXLEN ~ 0",
    "XTRIM s MINID 4", "XTRIM s MAXLEN 1 {DELREF|ACKED|KEEPREF}", "XDEL s 1-1 2-1 9-9", "XDEL s 9-9",
    "XDELEX s {KEEPREF|DELREF|ACKED} IDS 4 1-1 2-1 5-1 9-9", "XACK s g 1-1 2-1 9-9", "XACK s g 9-9", "XACK s no 1-1",
    "XACKDEL s g {KEEPREF|DELREF|ACKED} IDS 3 1-1 2-1 9-9", "XNACK s g {FAIL|SILENT|FATAL} IDS 3 1-1 2-1 9-9",
    "XNACK s g FAIL IDS 1 9-9", "XNACK s g FAIL IDS 1 5-1 FORCE", "XSETID s 20-1", "XSETID s 7-0",
    "XGROUP CREATE s {n|g} 0", "XGROUP CREATE no n 0 MKSTREAM", "XGROUP SETID s g {0|$|3-1}", "XGROUP DESTROY s {g|no}",
    "XGROUP CREATECONSUMER s g {c|d}", "XGROUP DELCONSUMER s g {c|d}", "XCFGSET s IDMP-DURATION {100|50}",
    "XCFGSET s IDMP-MAXSIZE 50 IDMP-DURATION 50", "XREADGROUP GROUP {g|h} {c|d} STREAMS s >",
    "XREADGROUP GROUP {g|h} c COUNT {1|2} STREAMS s >", "XREADGROUP GROUP h {c|d} NOACK COUNT 2 STREAMS s >",
    "XREADGROUP GROUP g {c|d} STREAMS s {0|1-1|9-9}", "XREADGROUP GROUP g {c|d} STREAMS s t > >",
    "XREADGROUP GROUP g {c|d} CLAIM 0 STREAMS s >", "XREADGROUP GROUP g {c|d} CLAIM 0 COUNT 1 STREAMS s >",
    "XREADGROUP GROUP g {c|d} CLAIM 0 COUNT 2 NOACK STREAMS s >", "XREADGROUP GROUP g c STREAMS s t 0 >",
    "XCLAIM s g {c|d} 0 {1-1|3-1|9-9|5-1}", "XCLAIM s g d 0 1-1 2-1 3-1", "XCLAIM s g d 0 1-1 2-1 JUSTID",
    "XCLAIM s g d 1000000 1-1", "XCLAIM s g d 0 5-1 FORCE", "XCLAIM s g d 0 9-9 LASTID 9-9",
    "XCLAIM s g d 0 LASTID 9-9",
    "XAUTOCLAIM s g {c|d} 0 0", "XAUTOCLAIM s g {c|d} 0 0 COUNT 1", "XAUTOCLAIM s g d 0 9",
    "XAUTOCLAIM s g d 0 0 JUSTID",
    "XAUTOCLAIM s g e 1000000 0", "XREAD STREAMS s 0", "XINFO STREAM s", "PUBLISH ch m", "SPUBLISH ch m", "GET str",
    "EVAL \"redis.call('MSET','a',1,'b',2) return redis.call('DEL','a','b')\" 0", "EVAL 'return 1' 0", "SCRIPT FLUSH",
    "SCRIPT LOAD 'return 1'", "CLIENT KILL ID 0", "ACL SETUSER x on", "ACL DELUSER x", "CONFIG SET hz 10", "PING",
    "DEBUG POPULATE 3 k", "XREADGROUP GROUP g c NOACK STREAMS s 0", "XCLAIM s g {c|d} 0 1-1 3-1 LASTID 9-9",
    "XCLAIM s g {c|d} 0 1-1 LASTID 1-1", "XDELEX s DELREF IDS 1 3-1", "XACKDEL s g DELREF IDS 1 3-1",
    "XREADGROUP GROUP g {c|d} MAXCOUNT 1 STREAMS s t > >", "XREADGROUP GROUP g {c|d} MAXSIZE 1 CLAIM 0 STREAMS s t > >",
    "EVAL \"redis.set_repl(redis.REPL_NONE) return redis.call('MSET','a',1,'b',2)\" 0",
]  # fmt: skip


class Counter:
    """Counts the changes that a server sees in requests."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def play(self, *requests: tuple[bytes, ...]) -> tuple[list[bytes], int]:
        """The replies to the requests on a dataset that is always the same, and the changes that they made."""
        self.wire.send_bytes(b"".join(encode(split(line)) for line in FIXTURE))
        for _ in FIXTURE:
            self.wire.receive()
        before = self.read()
        replies = [self.wire.call(*each)[:1] for each in requests]
        return replies, self.read() - before

    def read(self) -> int:
        """INFO rdb_changes_since_last_save."""
        text = self.wire.ask("INFO", "persistence").decode()
        return int(text.split("rdb_changes_since_last_save:")[1].split("\r\n")[0])


WRITES = [row for row in ROWS if row.is_write]


@pytest.mark.parametrize("row", WRITES, ids=lambda row: row.name)
def test_each_write_counts_the_changes_of_redis(row: Row, headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        wrong = []
        for each in requests_to(row, REQUESTS_COUNT):
            sent = [(b"MULTI",), each, (b"EXEC",)] if always_waits(row) else [each]
            if Counter(ours).play(*sent) != Counter(theirs).play(*sent):
                wrong.append(each)
    assert not wrong


@pytest.mark.parametrize("form", FORMS)
def test_each_form_counts_the_changes_of_redis(form: str, headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        for line in expand(form):
            request = tuple(split(line))
            assert Counter(ours).play(request) == Counter(theirs).play(request), line


@pytest.mark.parametrize(
    "lines",
    [
        ["MULTI", "MSET a 1 b 2", "XACK s g 1-1 2-1", "GET str", "FLUSHALL", "EXEC"],
        ["SET e 1 PX 1", "DEBUG SLEEP 0.002", "GET e"],
        ["SET e 1 PX 1", "DEBUG SLEEP 0.002", "SET e 2"],
        ["XREADGROUP GROUP g c STREAMS s >", "XACK s g 5-1 7-0"],
        ["XACK s g 1-1 2-1", "XGROUP DESTROY s h", "XADD s ACKED MAXLEN 1 * f v"],
        ["XACK s g 1-1 2-1", "XGROUP DESTROY s h", "XTRIM s ACKED MAXLEN 1"],
        ["XADD s IDMP p i * f v", "XADD s IDMP p i * f v", "XADD s IDMPAUTO p * f v", "XADD s IDMPAUTO p * f v"],
        ["SET e 1 PX 1", "XADD x 1-1 f v", "PEXPIRE x 1", "DEBUG SLEEP 0.002", "KEYS *", "SCAN 0", "DEL e x"],
        ["SET e 1 PX 1", "DEBUG SLEEP 0.002", "MULTI", "GET e", "SET e 2", "EXEC"],
        ["SET e 1 PX 1", "DEBUG SLEEP 0.002", "EVAL \"redis.call('GET','e') redis.call('SET','e','x')\" 0"],
    ],
)
def test_sequences_count_the_changes_of_redis(lines: list[str], headrace: Server, oracle: Server) -> None:
    requests = [tuple(split(line)) for line in lines]
    with headrace.connect() as ours, oracle.connect() as theirs:
        assert Counter(ours).play(*requests) == Counter(theirs).play(*requests)
