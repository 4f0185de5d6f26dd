"""The forms of every command that the table of commands measures: requests that meet warm data.

A form is text: words as in redis-cli, and `;` between the requests of a form that has several, as `MULTI; EXEC` has.
`{n}` is a number that is different in each request, `{id}` the entry ID of that number, and `{warm}` the number of a
key that exists. A row of the command table that is not named here has one form, made from its `arguments=`: the
arguments that are not optional, each with the value of its name. So a new row joins by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha1
from typing import Final

from benchmarks.load import Words
from benchmarks.streams import entry_id

from headrace.commands import registry
from headrace.commands.cluster.refusals import refuse
from headrace.commands.core.table import Argument, Row, all_rows
from support.lines import split

assert registry.FAMILIES

# Keys k0, k1, .. with strings, and entries of the stream `s`.
WARM_KEYS: Final = 1_000
# The largest number of requests of one run of a form; so many items there are where each request takes one away.
REQUESTS_MAX: Final = 8_000
SCRIPT: Final = "return 1"
LOAD_LIBRARY: Final = (
    r"""FUNCTION LOAD REPLACE "#!lua name=lib\nredis.register_function{"""
    r"""function_name='one', callback=function() return 1 end, flags={'no-writes'}}" """
)
TITLE_LENGTH_MAX: Final = 48
PLACES: Final = (b"{n}", b"{warm}", b"{id}")


@dataclass(frozen=True)
class Form:
    """One way to call a command."""

    text: str
    # Sent before each run, outside of the measured time: once for each number, and then once.
    fresh: str = ""
    once: str = ""
    # Sent by each connection before its requests.
    opening: str = ""
    # Sent before each run by clients of their own, which stay connected.
    others: tuple[str, ...] = ()
    # Why replies may be errors; empty if they may not.
    refused: str = ""


def requests_of(text: str, numbers: range) -> Iterator[list[Words]]:
    """The requests that are written so, for each of the numbers."""
    templates = _templates(text)
    for number in numbers:
        values = (b"%d" % number, b"%d" % (number % WARM_KEYS), entry_id(number).encode())
        yield [tuple(_filled(word, values) for word in words) for words in templates]


@lru_cache(maxsize=16)
def _templates(text: str) -> list[list[bytes]]:
    return [split(each) for each in text.split(";") if each.strip()]


def _filled(word: bytes, values: tuple[bytes, bytes, bytes]) -> bytes:
    if b"{" in word:
        for name, value in zip(PLACES, values, strict=True):
            word = word.replace(name, value)
    return word


# What is sent to a new server, by each number below WARM_KEYS, and then once.
FILL: Final = (
    "SET k{n} value-{n}-of-some-length; XADD s {id} sensor sensor-{n} kind temperature value {n};"
    "HSET h{n} a 1 b 2 word word; SADD e{n} a b c {n}; HSET big-hash f{n} value-{n}; SADD big-set m{n};"
    "ZADD z{n} 1 a 2 b 3 word; ZADD big-zset {n} m{n}; RPUSH l{n} a b word; RPUSH big-list value-{n};"
    "PFADD p{n} a b word; PFADD big-count m{n};"
    "ARSET r{n} 0 a b word 3; ARINSERT big-array value-{n}"
)
FILL_ONCE: Final = (
    "SET number 1; SET text some-text; SET other some-other-text; SET source value;"
    "XGROUP CREATE s g 0; XREADGROUP GROUP g c COUNT 10 STREAMS s >; ACL SETUSER alice on nopass ~* +@all"
)

NEW_GROUP: Final = "XGROUP DESTROY w g; XGROUP CREATE w g 0"
DELIVERED: Final = f"{NEW_GROUP}; XREADGROUP GROUP g c COUNT {REQUESTS_MAX} STREAMS w >"
ENTRY: Final = "XADD w {id} sensor sensor-{n} kind temperature value {n}"
PATTERNS_COUNT: Final = 200
PATTERNS: Final = "PSUBSCRIBE " + " ".join(f"news.{number}.*" for number in range(PATTERNS_COUNT))
TEN: Final = range(10)

# Requests of a form that others must not come between, as those of other connections do, are in a transaction.
FORMS: Final[dict[str, tuple[Form, ...]]] = {
    "ACL|LOAD": (Form("ACL LOAD", refused="there is no file"),),
    "ACL|SAVE": (Form("ACL SAVE", refused="there is no file"),),
    "ACL|DELUSER": (Form("ACL DELUSER nobody-{n}"),),
    "ACL|DRYRUN": (Form("ACL DRYRUN alice GET k{warm}"),),
    "ACL|LOG": (Form("ACL LOG"), Form("ACL LOG RESET")),
    "ACL|SETUSER": (Form("ACL SETUSER bob on nopass ~jobs* +@stream"),),
    "APPEND": (Form("APPEND a{n} value"),),
    "AUTH": (Form("AUTH alice any"),),
    "BACKUP|ABORT": (Form("BACKUP ABORT", refused="there is no backup"),),
    "BACKUP|SEAL": (Form("BACKUP SEAL", refused="there is no backup"),),
    "BACKUP|START": (Form("BACKUP START", refused="one at a time"),),
    "BGREWRITEAOF": (Form("BGREWRITEAOF", refused="one at a time"),),
    "BGSAVE": (Form("BGSAVE", refused="one at a time"),),
    "BITFIELD": (Form("BITFIELD k{warm} INCRBY u8 8 1"),),
    "BITFIELD_RO": (Form("BITFIELD_RO k{warm} GET u8 8"),),
    "BITOP": (Form("BITOP AND bits text other"),),
    "CLIENT|CACHING": (Form("CLIENT CACHING YES", opening="CLIENT TRACKING ON OPTIN"),),
    "CLIENT|KILL": (Form("CLIENT KILL ID 999999"),),
    "CLIENT|LIST": (Form("CLIENT LIST"), Form("CLIENT LIST ID 999999")),
    "CLIENT|PAUSE": (Form("CLIENT PAUSE 0"),),
    "CLIENT|TRACKING": (Form("CLIENT TRACKING OFF"),),
    "CLIENT|UNBLOCK": (Form("CLIENT UNBLOCK 999999"),),
    "COMMAND": (Form("COMMAND"),),
    "COMMAND|DOCS": (Form("COMMAND DOCS"), Form("COMMAND DOCS XADD")),
    "COMMAND|GETKEYS": (Form("COMMAND GETKEYS MGET a b"),),
    "COMMAND|GETKEYSANDFLAGS": (Form("COMMAND GETKEYSANDFLAGS MGET a b"),),
    "COMMAND|INFO": (Form("COMMAND INFO"), Form("COMMAND INFO XADD")),
    "COMMAND|LIST": (Form("COMMAND LIST"), Form("COMMAND LIST FILTERBY ACLCAT stream")),
    "CONFIG|GET": (Form("CONFIG GET *"), Form("CONFIG GET maxmemory"), Form("CONFIG GET slowlog-*")),
    "CONFIG|REWRITE": (Form("CONFIG REWRITE", refused="there is no file"),),
    "FAILOVER": (Form("FAILOVER", refused="there is no replica"),),
    "CONFIG|SET": (Form("CONFIG SET slowlog-max-len 128"),),
    "COPY": (Form("COPY source copy{n}"), Form("COPY source copied REPLACE")),
    "DEBUG": (Form("DEBUG SLEEP 0"),),
    "DECR": (Form("DECR number"),),
    "DECRBY": (Form("DECRBY number 3"),),
    "DEL": (Form("DEL d{n}", fresh="SET d{n} value"), Form("DEL missing")),
    "DELEX": (Form("DELEX d{n} IFEQ value", fresh="SET d{n} value"),),
    "DISCARD": (Form("MULTI; DISCARD"),),
    "EVALSHA": (Form(f"EVALSHA {sha1(SCRIPT.encode()).hexdigest()} 0", opening=f"SCRIPT LOAD '{SCRIPT}'"),),
    "EVALSHA_RO": (Form(f"EVALSHA_RO {sha1(SCRIPT.encode()).hexdigest()} 0", opening=f"SCRIPT LOAD '{SCRIPT}'"),),
    "EXEC": (Form("MULTI; EXEC"), Form("MULTI; INCR number; EXEC")),
    "EXPIRE": (Form("EXPIRE k{warm} 100000"), Form("EXPIRE k{warm} 100000 NX")),
    "EXPIREAT": (Form("EXPIREAT k{warm} 4102444800"),),
    "FCALL": (Form("FCALL one 0", opening=LOAD_LIBRARY),),
    "FCALL_RO": (Form("FCALL_RO one 0", opening=LOAD_LIBRARY),),
    "FUNCTION|DELETE": (Form(f"MULTI; {LOAD_LIBRARY}; FUNCTION DELETE lib; EXEC"),),
    "FUNCTION|KILL": (Form("FUNCTION KILL", refused="no function is running"),),
    "FUNCTION|LIST": (Form("FUNCTION LIST", opening=LOAD_LIBRARY),),
    "FUNCTION|LOAD": (Form(LOAD_LIBRARY),),
    "FUNCTION|RESTORE": (Form(r'FUNCTION RESTORE "\x0f\x00F\x1f9L\xa1\xd3_\""'),),
    "GET": (Form("GET k{warm}"), Form("GET missing")),
    "GETDEL": (Form("GETDEL d{n}", fresh="SET d{n} value"),),
    "GETEX": (Form("GETEX k{warm}"), Form("GETEX k{warm} EX 100000")),
    "GETRANGE": (Form("GETRANGE k{warm} 0 3"),),
    "HDEL": (Form("HDEL d{n} a", fresh="HSET d{n} a 1 b 2"),),
    "HELLO": (Form("HELLO"), Form("HELLO 3")),
    "HGETALL": (Form("HGETALL h{warm}"), Form("HGETALL big-hash")),
    "HGETDEL": (Form("HGETDEL d{n} FIELDS 1 a", fresh="HSET d{n} a 1 b 2"),),
    "HIMPORT|DISCARD": (Form("HIMPORT PREPARE fields a b; HIMPORT DISCARD fields"),),
    "HIMPORT|DISCARDALL": (Form("HIMPORT DISCARDALL"),),
    "HIMPORT|PREPARE": (Form("HIMPORT PREPARE fields a b"),),
    "HIMPORT|SET": (Form("HIMPORT SET new{n} fields 1 2", opening="HIMPORT PREPARE fields a b"),),
    "HINCRBY": (Form("HINCRBY h{warm} a 1"),),
    "HINCRBYFLOAT": (Form("HINCRBYFLOAT h{warm} b 0.5"),),
    "HSET": (Form("HSET h{warm} a 1"), Form("HSET big-hash f{warm} value"), Form("HSET new{n} a 1")),
    "HOTKEYS|START": (Form("MULTI; HOTKEYS STOP; HOTKEYS START METRICS 1 CPU; EXEC"),),
    "INCRBYFLOAT": (Form("INCRBYFLOAT float 0.5"),),
    "INCR": (Form("INCR number"),),
    "INCRBY": (Form("INCRBY number 3"),),
    "INCREX": (Form("INCREX number"),),
    "INFO": (Form("INFO"), Form("INFO everything"), Form("INFO server"), Form("INFO memory")),
    "KEYS": (Form("KEYS *"), Form("KEYS nothing*")),
    "LATENCY|GRAPH": (Form("LATENCY GRAPH command", refused="there are no samples"),),
    "LCS": (Form("LCS text other"),),
    "MGET": (Form("MGET k{warm}"), Form("MGET " + " ".join(f"k{number}" for number in TEN))),
    "MODULE|LOAD": (Form("MODULE LOAD none", refused="there is no such file"),),
    "MODULE|LOADEX": (Form("MODULE LOADEX none", refused="there is no such file"),),
    "MODULE|UNLOAD": (Form("MODULE UNLOAD none", refused="there is no such module"),),
    # Without a server that takes keys.
    "MIGRATE": (Form("MIGRATE 127.0.0.1 1 none 0 100"),),
    "MOVE": (Form("MOVE d{n} 1", fresh="SET d{n} value", once="SELECT 1; FLUSHDB; SELECT 0"),),
    "MSET": (Form("MSET m{n} value"), Form("MSET " + " ".join(f"m{number} value" for number in TEN))),
    "MSETEX": (Form("MSETEX 1 m{n} value EX 100000"),),
    "MSETNX": (Form("MSETNX nx{n} value"),),
    "MULTI": (Form("MULTI; DISCARD"),),
    "OBJECT|FREQ": (Form("OBJECT FREQ k{warm}", refused="the policy counts no accesses"),),
    "PEXPIRE": (Form("PEXPIRE k{warm} 100000000"),),
    "PEXPIREAT": (Form("PEXPIREAT k{warm} 4102444800000"),),
    "PERSIST": (Form("PERSIST d{n}", fresh="SET d{n} value EX 100000"),),
    "PING": (Form("PING"), Form("PING message")),
    "PSETEX": (Form("PSETEX e{n} 100000000 value"),),
    "PUBLISH": (
        Form("PUBLISH news message"),
        Form("PUBLISH news message", others=("SUBSCRIBE news",)),
        Form("PUBLISH news message", others=(PATTERNS,)),
    ),
    "PUNSUBSCRIBE": (Form("PUNSUBSCRIBE"),),
    "RENAME": (Form("RENAME d{n} renamed{n}", fresh="SET d{n} value"),),
    "RENAMENX": (Form("RENAMENX d{n} renamed{n}", fresh="SET d{n} value; DEL renamed{n}"),),
    "REPLICAOF": (Form("REPLICAOF NO ONE"),),
    "RESTORE-ASKING": (Form(r'RESTORE-ASKING r{n} 0 "\x00\xc0\x07\x0f\x00oI-\xae-\x07\x33j" REPLACE'),),
    "RESTORE": (Form(r'RESTORE r{n} 0 "\x00\xc0\x07\x0f\x00oI-\xae-\x07\x33j" REPLACE'),),
    "SCAN": (Form("SCAN 0"), Form("SCAN 0 COUNT 100"), Form("SCAN 0 MATCH k1* COUNT 100")),
    "SCRIPT|KILL": (Form("SCRIPT KILL", refused="no script is running"),),
    "SCRIPT|EXISTS": (Form(f"SCRIPT EXISTS {sha1(SCRIPT.encode()).hexdigest()}"),),
    "SELECT": (Form("SELECT 0"),),
    "SADD": (Form("SADD e{warm} member"), Form("SADD big-set m{warm}"), Form("SADD new{n} a")),
    "SDIFFCARD": (Form("SDIFFCARD 1 e{warm}"),),
    "SINTERCARD": (Form("SINTERCARD 1 e{warm}"),),
    "SORT": (Form("SORT e{warm} ALPHA"),),
    "SORT_RO": (Form("SORT_RO e{warm} ALPHA"),),
    "SUNIONCARD": (Form("SUNIONCARD 1 e{warm}"),),
    "SET": (
        Form("SET k{warm} value"),
        Form("SET e{n} value EX 100000"),
        Form("SET k{warm} value NX"),
        Form("SET k{warm} value GET"),
    ),
    "SETEX": (Form("SETEX e{n} 100000 value"),),
    "SETNX": (Form("SETNX nx{n} value"),),
    "SETRANGE": (Form("SETRANGE text 2 xyz"),),
    "REPLCONF": (Form("REPLCONF capa psync2"),),
    "SHUTDOWN": (Form("SHUTDOWN ABORT", refused="the server is not shutting down"),),
    "SLAVEOF": (Form("SLAVEOF NO ONE"),),
    "SUBSCRIBE": (Form("SUBSCRIBE news"),),
    "SUNSUBSCRIBE": (Form("SUNSUBSCRIBE"),),
    "SWAPDB": (Form("SWAPDB 2 3"),),
    "UNLINK": (Form("UNLINK d{n}", fresh="SET d{n} value"),),
    "UNSUBSCRIBE": (Form("UNSUBSCRIBE"),),
    "UNWATCH": (Form("WATCH k{warm}; UNWATCH"),),
    "WATCH": (Form("WATCH k{warm}"),),
    "XACK": (Form("XACK w g {id}", fresh=ENTRY, once=DELIVERED),),
    "XACKIF": (Form("XACKIF w g c IDS 1 {id}", fresh=ENTRY, once=DELIVERED),),
    "XACKDEL": (Form("XACKDEL w g IDS 1 {id}", fresh=ENTRY, once=DELIVERED),),
    "XADD": (Form("XADD a * sensor sensor-{n} kind temperature value {n}"),),
    "XAUTOCLAIM": (Form("XAUTOCLAIM s g c 0 0 COUNT 10"),),
    "XCFGSET": (Form("XCFGSET s IDMP-DURATION 100"),),
    "XCLAIM": (Form("XCLAIM s g c 0 1700000000000-0"),),
    "XDEL": (Form("XDEL w {id}", fresh=ENTRY),),
    "XDELEX": (Form("XDELEX w IDS 1 {id}", fresh=ENTRY),),
    "XGROUP|CREATE": (Form("XGROUP CREATE s g{n} 0", fresh="XGROUP DESTROY s g{n}"),),
    "XGROUP|CREATECONSUMER": (Form("XGROUP CREATECONSUMER s g c{n}"),),
    "XGROUP|DELCONSUMER": (Form("XGROUP DELCONSUMER s g none{n}"),),
    "XGROUP|DESTROY": (Form("XGROUP DESTROY s none{n}"),),
    "XGROUP|SETID": (Form("XGROUP SETID s g 0"),),
    "XIDMPRECORD": (Form("XIDMPRECORD s p i{n} 1700000000000-0"),),
    "XINFO|STREAM": (Form("XINFO STREAM s"), Form("XINFO STREAM s FULL COUNT 10")),
    "XNACK": (Form("XNACK w g FAIL IDS 1 {id}", fresh=ENTRY, once=DELIVERED),),
    "XREDRIVE": (Form("XREDRIVE letters COUNT 1"),),
    "XPENDING": (Form("XPENDING s g"), Form("XPENDING s g - + 10")),
    "XRANGE": (Form("XRANGE s - + COUNT 10"),),
    "XREAD": (Form("XREAD COUNT 10 STREAMS s 0"),),
    "XREADGROUP": (Form("XREADGROUP GROUP g c COUNT 1 STREAMS w >", fresh=ENTRY, once=NEW_GROUP),),
    "XREVRANGE": (Form("XREVRANGE s + - COUNT 10"),),
    "XSETID": (Form("XSETID s 9999999999999-0"),),
    "XTRIM": (Form("XTRIM s MAXLEN 100000"),),
    "BLMOVE": (Form("BLMOVE d{n} moved LEFT RIGHT 1", fresh="RPUSH d{n} a b c"),),
    "BLMOVEM": (Form("BLMOVEM d{n} moved LEFT RIGHT 1 COUNT 2 BULK", fresh="RPUSH d{n} a b c"),),
    "BLMPOP": (Form("BLMPOP 1 1 d{n} LEFT", fresh="RPUSH d{n} a b c"),),
    "BLPOP": (Form("BLPOP d{n} 1", fresh="RPUSH d{n} a b c"),),
    "BRPOP": (Form("BRPOP d{n} 1", fresh="RPUSH d{n} a b c"),),
    "BRPOPLPUSH": (Form("BRPOPLPUSH d{n} moved 1", fresh="RPUSH d{n} a b c"),),
    "BZMPOP": (Form("BZMPOP 1 1 d{n} MIN", fresh="ZADD d{n} 1 a 2 b"),),
    "BZPOPMAX": (Form("BZPOPMAX d{n} 1", fresh="ZADD d{n} 1 a 2 b"),),
    "BZPOPMIN": (Form("BZPOPMIN d{n} 1", fresh="ZADD d{n} 1 a 2 b"),),
    "ARCOUNT": (Form("ARCOUNT r{warm}"),),
    "ARDEL": (Form("ARDEL d{n} 0", fresh="ARSET d{n} 0 a b"),),
    "ARDELRANGE": (Form("ARDELRANGE d{n} 0 1", fresh="ARSET d{n} 0 a b c"),),
    "ARGET": (Form("ARGET r{warm} 1"), Form("ARGET big-array {warm}"),),
    "ARGETRANGE": (Form("ARGETRANGE r{warm} 0 2"),),
    "ARGREP": (Form("ARGREP r{warm} - + EXACT b"), Form("ARGREP r{warm} - + RE ^w.*d$"),),
    "ARINFO": (Form("ARINFO r{warm}"),),
    "ARINSERT": (Form("ARINSERT new{n} value"), Form("ARINSERT big-array value-{n}"),),
    "ARLASTITEMS": (Form("ARLASTITEMS big-array 10"),),
    "ARLEN": (Form("ARLEN r{warm}"),),
    "ARMGET": (Form("ARMGET r{warm} 0 2"),),
    "ARMSET": (Form("ARMSET r{warm} 0 a 2 b"),),
    "ARNEXT": (Form("ARNEXT big-array"),),
    "AROP": (Form("AROP r{warm} 0 9 SUM"), Form("AROP r{warm} 0 9 USED"),),
    "ARRING": (Form("ARRING ring 100 value-{n}"),),
    "ARSCAN": (Form("ARSCAN r{warm} 0 9"),),
    "ARSEEK": (Form("ARSEEK r{warm} 3"),),
    "ARSET": (Form("ARSET r{warm} 0 value"), Form("ARSET new{n} 0 value"),),
    "LINDEX": (Form("LINDEX l{warm} 1"), Form("LINDEX big-list {warm}"),),
    "LINSERT": (Form("LINSERT d{n} BEFORE b value", fresh="RPUSH d{n} a b c"),),
    "LMOVE": (Form("LMOVE d{n} moved LEFT RIGHT", fresh="RPUSH d{n} a b c"), Form("LMOVE l{warm} l{warm} LEFT RIGHT"),),
    "LMOVEM": (Form("LMOVEM d{n} moved LEFT RIGHT COUNT 2 BULK", fresh="RPUSH d{n} a b c"),),
    "LMPOP": (Form("LMPOP 1 d{n} LEFT", fresh="RPUSH d{n} a b c"),),
    "LPOP": (Form("LPOP d{n}", fresh="RPUSH d{n} a b c"), Form("LPOP d{n} 2", fresh="RPUSH d{n} a b c"),),
    "LPOS": (Form("LPOS l{warm} b"), Form("LPOS big-list value-{warm}"),),
    "LPUSH": (
        Form("LPUSH new{n} value"),
        Form("LPUSH tasks value-{n}"),
        Form("LPUSH new{n} " + " ".join("value" for _ in TEN)),
    ),
    "LPUSHX": (Form("LPUSHX tasks value-{n}", once="LPUSH tasks value"),),
    "LRANGE": (Form("LRANGE l{warm} 0 -1"), Form("LRANGE big-list 0 99"), Form("LRANGE big-list 0 -1"),),
    "LREM": (Form("LREM d{n} 1 b", fresh="RPUSH d{n} a b c"),),
    "LSET": (Form("LSET l{warm} 1 word"), Form("LSET big-list {warm} value-{warm}"),),
    "LTRIM": (Form("LTRIM d{n} 0 1", fresh="RPUSH d{n} a b c"),),
    "PFADD": (Form("PFADD p{warm} a"), Form("PFADD big-count m{n}"), Form("PFADD new{n} a"),),
    "PFCOUNT": (
        Form("PFCOUNT p{warm}"),
        Form("PFCOUNT d{n}", fresh="PFADD d{n} a b"),
        Form("PFCOUNT big-count p{warm}"),
    ),
    "PFDEBUG": (Form("PFDEBUG ENCODING p{warm}"),),
    "PFMERGE": (Form("PFMERGE stored-count p{warm}"), Form("PFMERGE stored-count big-count"),),
    "RPOP": (Form("RPOP d{n}", fresh="RPUSH d{n} a b c"),),
    "RPOPLPUSH": (Form("RPOPLPUSH d{n} moved", fresh="RPUSH d{n} a b c"),),
    "RPUSH": (Form("RPUSH new{n} value"), Form("RPUSH tasks value-{n}"),),
    "RPUSHX": (Form("RPUSHX tasks value-{n}", once="LPUSH tasks value"),),
    "ZADD": (Form("ZADD z{warm} 1 a"), Form("ZADD big-zset {n} m{warm}"), Form("ZADD new{n} 1 a"),),
    "ZCOUNT": (Form("ZCOUNT z{warm} 1 2"), Form("ZCOUNT big-zset 100 (200"),),
    "ZDIFF": (Form("ZDIFF 1 z{warm}"),),
    "ZDIFFSTORE": (Form("ZDIFFSTORE stored 1 z{warm}"),),
    "ZINTER": (Form("ZINTER 1 z{warm}"),),
    "ZINTERCARD": (Form("ZINTERCARD 1 z{warm}"),),
    "ZINTERSTORE": (Form("ZINTERSTORE stored 1 z{warm}"),),
    "ZLEXCOUNT": (Form("ZLEXCOUNT z{warm} - +"),),
    "ZMPOP": (Form("ZMPOP 1 d{n} MIN", fresh="ZADD d{n} 1 a 2 b"),),
    "ZPOPMAX": (Form("ZPOPMAX d{n}", fresh="ZADD d{n} 1 a 2 b"),),
    "ZPOPMIN": (Form("ZPOPMIN d{n}", fresh="ZADD d{n} 1 a 2 b"),),
    "ZRANGE": (
        Form("ZRANGE z{warm} 0 -1"),
        Form("ZRANGE big-zset 0 99 WITHSCORES"),
        Form("ZRANGE big-zset 100 200 BYSCORE"),
    ),
    "ZRANGEBYLEX": (Form("ZRANGEBYLEX z{warm} - +"),),
    "ZRANGEBYSCORE": (Form("ZRANGEBYSCORE z{warm} 1 2"), Form("ZRANGEBYSCORE big-zset 100 200 WITHSCORES LIMIT 0 10"),),
    "ZRANGESTORE": (Form("ZRANGESTORE stored z{warm} 0 -1"),),
    "ZRANK": (Form("ZRANK z{warm} a"), Form("ZRANK big-zset m{warm}"),),
    "ZREM": (Form("ZREM d{n} a", fresh="ZADD d{n} 1 a 2 b"),),
    "ZREMRANGEBYLEX": (Form("ZREMRANGEBYLEX d{n} - [a", fresh="ZADD d{n} 1 a 1 b"),),
    "ZREMRANGEBYRANK": (Form("ZREMRANGEBYRANK d{n} 0 0", fresh="ZADD d{n} 1 a 2 b"),),
    "ZREMRANGEBYSCORE": (Form("ZREMRANGEBYSCORE d{n} 1 1", fresh="ZADD d{n} 1 a 2 b"),),
    "ZREVRANGEBYLEX": (Form("ZREVRANGEBYLEX z{warm} + -"),),
    "ZREVRANGEBYSCORE": (Form("ZREVRANGEBYSCORE z{warm} 2 1"),),
    "ZSCORE": (Form("ZSCORE z{warm} a"), Form("ZSCORE big-zset m{warm}"),),
    "ZUNION": (Form("ZUNION 2 z{warm} z1"),),
    "ZUNIONSTORE": (Form("ZUNIONSTORE stored 2 z{warm} z1"),),
}  # fmt: skip

# Requests that no server serves, by the name of the table.
ERRORS: Final = {
    "unknown command": Form("NOSUCH argument", refused="there is no such command"),
    "wrong type": Form("GET s", refused="it is a stream"),
    "wrong number of arguments": Form("GET", refused="it needs a key"),
    "syntax error": Form("SET k1 value NOSUCH", refused="there is no such option"),
}

# Rows that cannot be measured so, and why.
LEFT_OUT: Final = {
    "MONITOR": "it is answered once for each connection; what it costs others is a condition of its own",
    "PFSELFTEST": "it is a test of the server, which takes as long as thousands of commands",
    "PSYNC": "it has no reply: the connection becomes that of a replica",
    "QUIT": "it closes the connection",
    "SCRIPT|DEBUG": "it is refused in a pipeline",
    "SYNC": "it has no reply: the connection becomes that of a replica",
}

# Values by the name of the argument; others have the value of their type.
VALUES: Final = {
    "category": "stream", "command-name": "XADD", "connection-name": "worker", "event": "command", "group": "g",
    "numfields": "1",
    "libname": "client", "min-idle-time": "0", "script": f"'{SCRIPT}'", "threshold": "10", "username": "alice",
}  # fmt: skip
TYPES: Final = {"key": "k{warm}", "integer": "0", "unix-time": "4102444800", "pattern": "*", "double": "1.5"}
# Keys that have a value of the type of a group of commands; others have the key of `TYPES`.
KEYS: Final = {
    "stream": "s", "hash": "h{warm}", "list": "l{warm}", "set": "e{warm}", "sorted-set": "z{warm}", "geo": "z{warm}",
    "hyperloglog": "p{warm}",
}  # fmt: skip


def forms_of(row: Row) -> tuple[Form, ...]:
    """The forms of a row; empty if it is left out."""
    if row.name in LEFT_OUT:
        return ()
    refused = "there is no cluster" if row.handler is refuse else ""
    return FORMS.get(row.name) or (Form(" ".join([*row.name.split("|"), *made(row)]), refused=refused),)


def made(row: Row, keys: Mapping[str, str] = KEYS) -> Iterator[str]:
    """The words of the arguments that are not optional. `keys` has the key of each group of commands."""
    for argument in row.arguments:
        yield from _words(row, argument, keys)


def _words(row: Row, argument: Argument, keys: Mapping[str, str]) -> Iterator[str]:
    if argument.optional:
        return
    if argument.token is not None:
        yield argument.token
    if argument.type == "oneof":
        yield from _words(row, argument.arguments[0], keys)
    elif argument.type == "block":
        for each in argument.arguments:
            yield from _words(row, each, keys)
    elif argument.type == "key" and row.group in keys:
        yield keys[row.group]
    elif argument.type != "pure-token":
        yield VALUES.get(argument.name) or TYPES.get(argument.type, "word")


def all_forms() -> Iterator[tuple[str, str, Form]]:
    """The name, the title and the form of every line of the table, in the order of the command table."""
    for row in all_rows():
        if row.handler is None:
            continue
        for number, form in enumerate(forms_of(row)):
            name = row.name.lower().replace("|", "-")
            yield f"{name}-{number + 1}" if number else name, title_of(row, form), form
    for title, form in ERRORS.items():
        yield title.replace(" ", "-"), title, form


def title_of(row: Row, form: Form) -> str:
    """The form as the table shows it."""
    text = form.text.replace("{warm}", "").replace("{n}", "").replace("{id}", "ID")
    if form.others:
        text += f", {PATTERNS_COUNT} patterns" if form.others[0] == PATTERNS else ", one subscriber"
    return (
        text
        if len(text) <= TITLE_LENGTH_MAX
        else f"{row.name.replace('|', ' ')}, {len(split(form.text)) - 1} arguments"
    )
