"""Random values for each argument that the command table names: valid ones, boundaries and traps.

The grammar itself is only in the command table. An argument whose name is not here gets a value of its type, so a new
command is included without a change here. A name is listed only if a random word would hardly ever be valid.

Durations are zero or very long, because two servers never agree on a short one. What needs the clock is tested with a
simulated clock (`tests/simulation`).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha1

from xxhash import xxh3_64_intdigest

from headrace.persistence.rdb.payload import library_record
from headrace.persistence.rdb.values import VERSION

# The connections of a sequence; `b` begins with HELLO 3.
CLIENTS = ("a", "b", "c")


@dataclass(frozen=True)
class ClientId:
    """The ID that a server has given to a client."""

    client: str


@dataclass(frozen=True)
class Dump:
    """The reply to DUMP of a key in database 0, from the server that gets the request."""

    key: bytes


@dataclass(frozen=True)
class Payload:
    """One of the serialized values that Redis made when the test began."""

    number: int


@dataclass(frozen=True)
class Duration:
    """A duration, in units of which `second` make a second. No duration occurs twice in a sequence.

    Otherwise the result of `EXPIRE GT` would depend on whether a millisecond has passed between two of them.
    """

    second: int

    def take(self, number: int) -> bytes:
        """The duration with this number in its sequence: 11 to 39 hours in steps of 100 s, up and down."""
        return b"%d" % ((40_000 + number * 389 % 1009 * 100) * self.second)


Token = bytes | ClientId | Dump | Payload | Duration
# (values that are mostly valid, values that are mostly invalid) by the argument's name in the command table.
Pools = dict[str, tuple[list[Token], list[Token]]]

INT64_MAX = b"9223372036854775807"
INT64_OVERFLOW = b"9223372036854775808"
INT64_MIN = b"-9223372036854775808"

KEYS: list[Token] = [b"s", b"s", b"s", b"t", b"u", b"str", b"num", b"no"]
ENTRY_IDS: list[Token] = [b"1-1", b"2-1", b"3-1", b"3-2", b"5-1", b"7-0", b"9-9", b"12-1"]
ODD_IDS: list[Token] = [
    b"0", b"0-0", b"-", b"+", b"$", b">", b"*", b"(2-1", b"(5", b"5-", b"-1", b"07-05", b"7", b"18446744073709551615",
    b"18446744073709551615-18446744073709551615", b"18446744073709551616-0", b"x", b"",
]  # fmt: skip
ODD_INTEGERS: list[Token] = [
    b"-1", INT64_MAX, INT64_OVERFLOW, INT64_MIN, b"x", b"", b"1.5", b"01", b" 1", b"+1", b"4294967296", b"1e3",
]  # fmt: skip
COUNTS: list[Token] = [b"1", b"2", b"3", b"10", b"0", b"100"]
PATTERNS: list[Token] = [b"*", b"s", b"[st]*", b"?", b"s\\*", b"[^s]", b"", b"n?m", b"[a-", b"\\"]
WORDS: list[Token] = [b"x", b"foo", b"a b", b"\xff\x00", b"", b"y" * 70]
NUMERIC_STRINGS: list[Token] = [b"1", b"-7", b"hello", b"", b"0.5", INT64_MAX, b"z" * 60, b"\r\n\x00\xff"]

FAR_SECONDS: list[Token] = [Duration(1)]
FAR_MS: list[Token] = [Duration(1000)]
FAR_UNIX_SECONDS: list[Token] = [b"4102444800", b"4102444801", b"1"]
FAR_UNIX_MS: list[Token] = [b"4102444800000", b"4102444800001", b"1", b"1700000000000"]
ODD_TIMES: list[Token] = [
    b"0", b"-1", INT64_MAX, INT64_OVERFLOW, INT64_MIN, b"x", b"", b"1.5", b"01", b"9223372036854775",
    b"9223370000000000000",
]  # fmt: skip


DIGESTS: list[Token] = [b"%016x" % xxh3_64_intdigest(value) for value in (b"x", b"7", b"hello", b"")]

# A number of milliseconds that is accepted, and so large that the clock does not matter.
ODD_MS: list[Token] = [each for each in ODD_TIMES if each != b"9223372036854775"]
# No accepted value may occur twice (see Duration), and no expiry time may be near the present time.
REFUSED_MS: list[Token] = [each for each in ODD_MS if each != b"9223370000000000000"]


def _digest(script: Token) -> Token:
    assert isinstance(script, bytes)
    return sha1(script).hexdigest().encode()


LOADED_SCRIPT = b"return {KEYS, ARGV}"
SCRIPTS: list[Token] = [
    LOADED_SCRIPT,
    b"return redis.call('XADD', KEYS[1] or 's', '12-1', 'by', ARGV[1] or 'script')",
    b"return redis.call('XREADGROUP', 'GROUP', 'g', ARGV[1] or 'c', 'STREAMS', KEYS[1] or 's', '>')",
    b"redis.setresp(3) return redis.call('XRANGE', KEYS[1] or 's', '-', '+')",
    b"return {redis.pcall('INCR', KEYS[1] or 'str'), redis.pcall('XLEN', KEYS[2] or 'num')}",
    b"redis.call('SET', KEYS[1] or 'str', ARGV[1] or 'x') return redis.call('XACK', 's', 'g', '1-1')",
    b"redis.call('SELECT', 1) return redis.call('DEL', KEYS[1] or 's')",
    b"#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1] or 'str', 'x')",
]
ODD_SCRIPTS: list[Token] = [
    b"return (", b"error('no')", b"error({err='NO no'})", b"return nosuch", b"x = 1", b"#!lua", b"",
    b"return redis.call('NOSUCH')", b"return redis.call('XADD')", b"return {1, nil, 2.9, false, {ok='x'}, {err='E y'}}",
]  # fmt: skip

LIBRARY = "#!lua name=%s\nredis.register_function{function_name='%s', flags={%s}, callback=function(keys, args) %s end}"


def _library(body: str, flags: str = "", name: str = "lib", function: str = "one") -> Token:
    return (LIBRARY % (name, function, flags, body)).encode()


# All libraries have one function and, where they are accepted, one name: the order of several is random in Redis.
LOADED_LIBRARY = _library("return {keys, args}", "'no-writes'")
LIBRARIES: list[Token] = [
    LOADED_LIBRARY,
    _library("return redis.call('XADD', keys[1] or 's', '12-1', 'by', args[1] or 'function')"),
    _library("return {redis.pcall('INCR', keys[1] or 'str'), redis.pcall('XLEN', keys[2] or 'num')}", "'allow-oom'"),
    _library("redis.setresp(3) return redis.call('XRANGE', keys[1] or 's', '-', '+')", "'no-writes', 'allow-stale'"),
    _library("redis.call('SELECT', 1) return redis.call('DEL', keys[1] or 's')", function="two"),
    _library("return redis.call('SET', keys[1] or 'str', 'x')", "'no-writes'"),
]
ODD_LIBRARIES: list[Token] = [
    b"x", b"#!lua", b"#!lua name=lib\n", b"#!lua name=lib\nerror", b"#!lua name=lib\nx()", b"#!js name=lib\nx", b"",
    b"#!lua name=a-b\nx", _library("return 1", name="other"), _library("return 1", "'nosuch'"),
    _library("return 1", function="no such"), b"#!lua name=lib x=y\n",
]  # fmt: skip
UNCHECKED = VERSION.to_bytes(2, "little") + bytes(8)


def _payload(code: Token) -> Token:
    assert isinstance(code, bytes)
    return library_record(code, compress=False) + UNCHECKED


BY_NAME: Pools = {
    "client-id": ([ClientId(client) for client in CLIENTS], [b"0", b"-1", b"x", INT64_MAX]),
    "clientname": ([b"ann", b"bob"], WORDS),
    "command-name": ([b"XADD", b"get", b"xinfo", b"XINFO|STREAM", b"client|id"], [b"nosuch", b"xinfo|nosuch", b""]),
    "connection-name": ([b"ann", b"bob"], WORDS),
    "consumer": ([b"c", b"d", b"e"], [b"", b"\xfe"]),
    "cursor": ([b"0"], [b"x", b"-1", b""]),
    "db": ([b"0", b"1", b"2"], [b"15", b"16", b"-1", b"x"]),
    "destination-db": ([b"0", b"1", b"2"], [b"15", b"16", b"-1", b"x"]),
    "end": ([b"+", b"+", *ENTRY_IDS], ODD_IDS),
    "entries-added": (COUNTS, ODD_INTEGERS),
    "entriesread": (COUNTS, ODD_INTEGERS),
    "field": ([b"f", b"g"], WORDS),
    "fieldset-name": ([b"fs"], [b"nofs", b""]),
    "function": ([b"one", b"one", b"ONE", b"two"], WORDS),
    "function-code": (LIBRARIES, ODD_LIBRARIES),
    "group": ([b"g", b"g", b"h"], [b"nog", b"", b"\xff"]),
    "id": (ENTRY_IDS, ODD_IDS),
    "idmp-duration": ([b"100", b"86400"], [b"0", b"86401", b"-1", b"x"]),
    "idmp-maxsize": ([b"1", b"2", b"100"], [b"0", b"10001", b"-1", b"x"]),
    "ifdeq-digest": (DIGESTS, [b"0", b"", b"x" * 16, b"0" * 17]),
    "ifdne-digest": (DIGESTS, [b"0", b"", b"x" * 16, b"0" * 17]),
    "ifeq-value": ([b"x", b"7", b""], WORDS),
    "ifne-value": ([b"x", b"7", b""], WORDS),
    "iid": ([b"i", b"j"], WORDS),
    "index": ([b"0", b"0", b"1", b"2"], [b"15", b"16", b"-1", b"x"]),
    "index1": ([b"0", b"1", b"2"], [b"16", b"x"]),
    "index2": ([b"0", b"1", b"2"], [b"16", b"x"]),
    "last-id": ([b"20-1", b"12-1", b"9-9", *ENTRY_IDS], ODD_IDS),
    "lastid": (ENTRY_IDS, ODD_IDS),
    "library-name": ([b"lib"], WORDS),
    "library-name-pattern": ([b"lib", b"L*", b"*"], PATTERNS),
    "lowerbound": ([b"-10", b"0", b"7", b"0.5"], ODD_INTEGERS),
    "max-deleted-id": (ENTRY_IDS, ODD_IDS),
    "milliseconds": (FAR_MS, REFUSED_MS),
    "min-idle-time": ([b"0", b"0", b"50000000"], ODD_MS),
    "ms": ([b"0", b"50000000"], ODD_MS),
    "numkeys": ([b"0", b"1", b"1", b"2"], ODD_INTEGERS),
    "numids": ([b"1", b"2", b"3"], ODD_INTEGERS),
    "numreplicas": ([b"0", b"1"], ODD_INTEGERS),
    "parameter": (
        [b"stream-node-max-entries", b"stream-node-max-bytes", b"stream-idmp-maxsize", b"stream-idmp-*"],
        [b"no-such-directive", b""],
    ),
    "password": ([b"secret"], WORDS),
    "pid": ([b"p", b"q"], WORDS),
    "protover": ([b"2", b"3"], [b"1", b"4", b"x", b""]),
    "category": ([b"stream", b"read", b"all"], [b"nosuch", b""]),
    "rule": (
        [b"on", b"off", b"nopass", b">secret", b"~*", b"~s", b"%R~t", b"allchannels", b"+@all", b"+@stream", b"-xadd"],
        [b"+nosuch", b"resetpass", b"reset", b"-@all", b"(+get ~x)", b"clearselectors", *WORDS],
    ),
    "command": ([b"XADD", b"GET", b"xread"], [b"nosuch", b""]),
    "script": (SCRIPTS, ODD_SCRIPTS),
    "sha1": ([b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db", *map(_digest, SCRIPTS)], [b"0" * 40, b"x", b""]),
    "seconds": (FAR_SECONDS, ODD_TIMES),
    "serialized-value": ([Payload(number) for number in range(4)] + [Dump(b"s"), Dump(b"t"), Dump(b"str")], WORDS),
    "start": ([b"-", b"0", *ENTRY_IDS], ODD_IDS),
    "stream-id": (ENTRY_IDS, ODD_IDS),
    "threshold": ([b"0", b"1", b"2", b"3", b"3-1", b"5"], [*ODD_INTEGERS, *ODD_IDS]),
    "timeout": ([b"0", b"50000000"], ODD_INTEGERS),
    "ttl": ([b"0", *FAR_MS], REFUSED_MS),
    "type": ([b"stream", b"string"], [b"list", b"nosuch", b""]),
    "unix-time-milliseconds": (FAR_UNIX_MS, ODD_TIMES),
    "unix-time-seconds": (FAR_UNIX_SECONDS, ODD_TIMES),
    "upperbound": ([b"7", b"8", b"100", b"1e3"], ODD_INTEGERS),
    "username": ([b"default", b"alice"], WORDS),
    "value": (NUMERIC_STRINGS, WORDS),
}

# Members of a set, and fields and values of a hash, are short: the order of a hash table is not that of Redis.
SHORT_WORDS: list[Token] = [b"x", b"foo", b"a b", b"\xff\x00", b"", b"7", b"-1", b"1.5", INT64_MAX, b"01"]
# Values of the commands of a group, before those of BY_NAME.
BY_GROUP: dict[str, Pools] = {
    "bitmap": {
        **dict.fromkeys(("key", "destkey"), ([b"str", b"str", b"num", b"num", b"b", b"no"], [b"", b"s"])),
        "encoding": ([b"u8", b"i8", b"u1", b"i5", b"i64", b"u63"], [b"u64", b"i65", b"u0", b"U8", b"x", b""]),
        "offset": ([b"0", b"3", b"7", b"8", b"100"], ODD_INTEGERS),
        "bit": ([b"0", b"1"], ODD_INTEGERS),
        **dict.fromkeys(("value", "increment"), ([b"0", b"1", b"1", b"-1", b"200"], ODD_INTEGERS)),
    },
    "hash": {
        "key": ([b"h", b"h", b"h", b"i", b"s", b"no"], [b"", b"str"]),
        "field": ([b"f", b"g", b"f1"], SHORT_WORDS),
        "value": (SHORT_WORDS, SHORT_WORDS),
        "numfields": ([b"1", b"2", b"3"], ODD_INTEGERS),
        "unix-time-seconds": ([b"4102444800", b"4102444801", b"1"], ODD_TIMES),
    },
    "set": {
        **dict.fromkeys(("key", "source", "destination"), ([b"e", b"e", b"e", b"d", b"d", b"s", b"no"], [b"", b"str"])),
        "member": ([b"x", b"y", b"1", b"2", b"3"], SHORT_WORDS),
        "limit": ([b"0", b"1", b"2"], ODD_INTEGERS),
    },
    "list": {
        "numkeys": ([b"1", b"1", b"2"], ODD_INTEGERS),
        **dict.fromkeys(("key", "source", "destination"), ([b"l", b"l", b"l", b"m", b"m", b"s", b"no"], [b"", b"str"])),
        **dict.fromkeys(("element", "pivot"), ([b"x", b"y", b"1", b"2"], SHORT_WORDS)),
        **dict.fromkeys(("index", "start", "stop", "rank"), ([b"0", b"1", b"-1", b"-2", b"5"], ODD_INTEGERS)),
        "timeout": ([b"50000000"], ODD_TIMES),
    },
    "array": {
        "key": ([b"a", b"a", b"a", b"b", b"s", b"no"], [b"", b"str"]),
        **dict.fromkeys(("value", "string", "pattern"), ([b"x", b"y", b"1", b"2"], SHORT_WORDS)),
        **dict.fromkeys(("index", "start", "end"), ([b"0", b"1", b"2", b"5", b"8"], ODD_INTEGERS)),
        **dict.fromkeys(("size", "count", "limit"), ([b"1", b"2", b"3", b"10"], ODD_INTEGERS)),
    },
    "hyperloglog": {
        **dict.fromkeys(("key", "destkey", "sourcekey"), ([b"p", b"p", b"q", b"no"], [b"", b"str", b"s"])),
        "element": ([b"x", b"y", b"1", b"2", b"3"], SHORT_WORDS),
    },
    "geo": {
        **dict.fromkeys(
            ("key", "destination", "source", "storekey", "storedistkey"),
            ([b"places", b"places", b"places", b"near", b"s", b"no"], [b"", b"str"]),
        ),
        "member": ([b"x", b"y", b"1"], SHORT_WORDS),
        **dict.fromkeys(
            ("longitude", "latitude"), ([b"1", b"2.5", b"-3", b"0"], [b"181", b"-86", b"inf", b"nan", b"x"])
        ),
        **dict.fromkeys(("radius", "width", "height"), ([b"1", b"500", b"9999999"], [b"-1", b"nan", b"x", b""])),
        "count": ([b"1", b"2", b"10"], ODD_INTEGERS),
    },
    "sorted-set": {
        "numkeys": ([b"1", b"1", b"2"], ODD_INTEGERS),
        **dict.fromkeys(("key", "destination", "dst", "src"), ([b"z", b"z", b"z", b"y", b"e", b"no"], [b"", b"str"])),
        "member": ([b"x", b"y", b"1", b"2", b"3"], SHORT_WORDS),
        "score": ([b"1", b"2", b"1.5", b"-3"], [b"inf", b"-inf", b"nan", b"x", b"", b"1e400"]),
        "weight": ([b"1", b"2", b"0.5"], [b"inf", b"x"]),
        "increment": ([b"1", b"-1", b"0.25"], [b"inf", b"x"]),
        **dict.fromkeys(
            ("start", "stop", "min", "max"), ([b"0", b"1", b"-1", b"(2", b"[x", b"+", b"-"], [b"x", b"inf"])
        ),
        "timeout": ([b"50000000"], ODD_TIMES),
        "limit": ([b"0", b"1", b"2"], ODD_INTEGERS),
    },
}

# Values of a single command, before those of BY_NAME.
BY_COMMAND: dict[str, Pools] = {
    "FUNCTION|RESTORE": {
        "serialized-value": (
            [UNCHECKED, *map(_payload, LIBRARIES)],
            [*map(_payload, ODD_LIBRARIES), Dump(b"s"), *WORDS],
        )
    },
    "MSETEX": {"numkeys": ([b"1", b"2", b"3"], ODD_INTEGERS), "key": ([b"str", b"num", b"u"], [b""])},
    "XREAD": {"id": ([b"$", b"$", b"+", b"0", *ENTRY_IDS[:4]], ODD_IDS)},
    "XREADGROUP": {"id": ([*[b">"] * 5, b"0", b"3-1"], ODD_IDS)},
}

# For names of arguments that are entry IDs if their type is not integer.
INTEGERS_BY_NAME: Pools = {
    "start": ([b"0", b"1", b"3", b"-1", b"-3"], ODD_INTEGERS),
    "end": ([b"-1", b"0", b"2", b"5", b"-2"], ODD_INTEGERS),
}

# Names of arguments that are durations.
DURATIONS = {"idmp-duration", "milliseconds", "min-idle-time", "ms", "seconds", "timeout", "ttl"}

# For names that are not in BY_NAME.
BY_TYPE: Pools = {
    "key": (KEYS, [b"", b"STREAMS", b"\xff\x01"]),
    "integer": (COUNTS, ODD_INTEGERS),
    "double": ([b"1.5", b"-2", b"0.1", b"3e2"], [b"nan", b"inf", b"x", b"", b" 1"]),
    "unix-time": (FAR_UNIX_SECONDS, ODD_TIMES),
    "pattern": (PATTERNS, WORDS),
    "string": (WORDS, NUMERIC_STRINGS),
}

# One value in so many is a mostly invalid one.
ONE_IN_ODD = 8

# Words that a bent request gets in the wrong place.
STRAY_TOKENS: list[Token] = [
    b"", b"0", b"-1", INT64_MAX, b"x", b"*", b"$", b"-", b"5-1", b"s", b"STREAMS", b"COUNT", b"GROUP", b"IDS", b"FORCE",
    b"JUSTID", b"NX", b"GET", b"MAXLEN", b"~", b"LIMIT", b"ACKED", b"BLOCK", b"\xff",
]  # fmt: skip
