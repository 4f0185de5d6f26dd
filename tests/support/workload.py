"""Random command lines that change a few keys in every way that the log must record."""

from __future__ import annotations

import random

STREAMS = "abcd"


def random_line(rnd: random.Random) -> str:
    """A command: most change something, some fail, some block."""
    key, other = rnd.choice(STREAMS), rnd.choice(STREAMS)
    text, consumer = f"s{rnd.randrange(3)}", f"c{rnd.randrange(3)}"
    entry = f"{rnd.randrange(1, 30)}-{rnd.randrange(2)}"
    value = "v" * rnd.choice((1, 1, 10, 300))
    lines = rnd.choice((_ENTRIES, _ENTRIES, _GROUPS, _GROUPS, _STRINGS, _KEYS))
    line = rnd.choice(lines)
    return line.format(key=key, other=other, text=text, consumer=consumer, entry=entry, value=value, n=rnd.randrange(6))


_ENTRIES = (
    "XADD {key} * f {value}",
    "XADD {key} * f {value} g {n}",
    "XADD {key} * f {value}",
    "XADD {key} {entry} f {value}",
    "XADD {key} MAXLEN 8 * f v",
    "XADD {key} MAXLEN ~ 6 * f v",
    "XADD {key} MAXLEN ~ 2 LIMIT 4 * f v",
    "XADD {key} MINID ~ {entry} * f v",
    "XADD {key} MAXLEN 5 ACKED * f v",
    "XADD {key} IDMP p i{n} * f {n}",
    "XADD {key} IDMPAUTO q * f {n}",
    "XTRIM {key} MAXLEN ~ 5",
    "XTRIM {key} MAXLEN 4 DELREF",
    "XTRIM {key} MAXLEN 6 ACKED",
    "XDEL {key} {entry}",
    "XDELEX {key} DELREF IDS 1 {entry}",
    "XSETID {key} 9999999999999-{n}",
    "XCFGSET {key} IDMP-MAXSIZE 5{n}",
)
_GROUPS = (
    "XGROUP CREATE {key} g 0 MKSTREAM",
    "XGROUP CREATE {key} h $ MKSTREAM",
    "XREADGROUP GROUP g {consumer} COUNT 3 STREAMS {key} >",
    "XREADGROUP GROUP g {consumer} COUNT 3 STREAMS {key} {other} > >",
    "XREADGROUP GROUP g {consumer} NOACK COUNT 1 STREAMS {key} >",
    "XREADGROUP GROUP g {consumer} CLAIM 10 COUNT 2 STREAMS {key} >",
    "XREADGROUP GROUP h {consumer} BLOCK 200 STREAMS {key} >",
    "XREAD BLOCK 100 STREAMS {key} $",
    "XAUTOCLAIM {key} g {consumer} 5 0 COUNT 2",
    "XAUTOCLAIM {key} g {consumer} 0 0 COUNT 2 JUSTID",
    "XCLAIM {key} g {consumer} 0 {entry} RETRYCOUNT {n} FORCE",
    "XNACK {key} g FAIL IDS 1 {entry}",
    "XNACK {key} g SILENT IDS 1 {entry}",
    "XACK {key} g {entry}",
    "XACKDEL {key} g DELREF IDS 1 {entry}",
    "XGROUP DELCONSUMER {key} g {consumer}",
    "XGROUP CREATECONSUMER {key} g {consumer}",
    "XGROUP SETID {key} g {entry}",
    "XGROUP DESTROY {key} h",
)
_STRINGS = (
    "SET {text} {value}",
    "SET {text} {n} PX 150",
    "SET {text} {n} EX 100 NX",
    "INCR {text}",
    "APPEND {text} {n}",
    "INCRBYFLOAT {text} 1.5",
    "GETEX {text} PX 90",
    "GETDEL {text}",
    "PEXPIRE {key} 300",
    "PERSIST {text}",
    "EXPIRE {text} 1",
    "MSET s0 {n} s1 {value}",
    "GET {text}",
)
_KEYS = (
    "MULTI",
    "EXEC",
    "EXEC",
    "DISCARD",
    "SELECT 1",
    "SELECT 0",
    "SELECT 0",
    "SWAPDB 0 1",
    "MOVE {key} 1",
    "COPY {key} {other} REPLACE",
    "COPY {key} {other} DB 1",
    "RENAME {key} {other}",
    "RENAMENX {text} s9",
    "DEL {key} {text}",
    "UNLINK {text}",
    "FLUSHDB",
    "BGREWRITEAOF",
    "BGREWRITEAOF",
)
