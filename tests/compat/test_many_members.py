"""Commands that combine many members, in steps: replies and results as Redis has them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.commands.execution.slices import LONG_COUNT, STEP_COUNT
from support.lines import split
from support.servers import Server
from support.wire import Wire, encode

pytestmark = pytest.mark.oracle

# Members of a value that is treated at once, in the steps of one slice, and in slices.
FEW = 200
MANY = 2 * STEP_COUNT
LONG = LONG_COUNT + STEP_COUNT

# Replies with sets in an order of their own are compared sorted.
UNORDERED = [
    "SMEMBERS s1",
    "SUNION s1 s2",
    "SINTER s1 s2 s3",
    "SDIFF s1 s3",
    "SUNION s1 s1",
    "SUNION i1 i2",
    "SINTER i1 i2 s1",
    "SDIFF i2 i1",
    "SUNION s1 no",
    "SINTER s1 no",
    "SDIFF s1 s1",
    "SMEMBERS i1",
    "SSCAN i1 0 COUNT 999999",
    "HGETALL h",
    "HKEYS h",
    "HVALS h",
    "HGETALL expiring",
    "HRANDFIELD h 999999",
    "HRANDFIELD h 999999 WITHVALUES",
    "ZRANDMEMBER z1 999999 WITHSCORES",
]
ORDERED = [
    "SINTERCARD 2 s1 s2",
    "SINTERCARD 2 s1 s2 LIMIT 5000",
    "SINTERCARD 2 s1 s2 LIMIT 3",
    "SUNIONCARD 3 s1 s2 s3",
    "SUNIONCARD 2 s1 s2 LIMIT 4100",
    "SDIFFCARD 2 s1 s2",
    "SDIFFCARD 2 s1 s2 LIMIT 4",
    "ZUNION 2 z1 z2",
    "ZUNION 2 z1 z2 WITHSCORES",
    "ZUNION 3 z1 z2 s1 WEIGHTS 2 -3 0.5 AGGREGATE MAX WITHSCORES",
    "ZUNION 3 z2 s2 z3 AGGREGATE MIN WITHSCORES",
    "ZUNION 2 z1 z3 WEIGHTS inf -inf WITHSCORES",
    "ZUNION 1 z3 WITHSCORES",
    "ZUNION 3 z1 z2 s1 WEIGHTS 2 -3 7 AGGREGATE COUNT WITHSCORES",
    "ZUNION 2 z1 no",
    "ZUNION 2 z1 z1 WITHSCORES",
    "ZINTER 2 z1 z2",
    "ZINTER 3 z1 z2 s1 WEIGHTS 2 -3 0.5 AGGREGATE MAX WITHSCORES",
    "ZINTER 2 z1 no",
    "ZINTER 3 z2 s2 z3 AGGREGATE MIN WITHSCORES",
    "ZINTER 2 z1 z3 WEIGHTS inf -inf WITHSCORES",
    "ZINTER 2 few z1",
    "ZINTER 2 z1 few AGGREGATE COUNT WITHSCORES",
    "ZDIFF 2 z1 z2",
    "ZDIFF 3 z1 z3 s2 WITHSCORES",
    "ZDIFF 2 few z1",
    "ZDIFF 2 no z1",
    "ZDIFF 2 z1 no WITHSCORES",
    "ZDIFF 2 z1 z1",
    "ZINTERCARD 2 z1 z2",
    "ZINTERCARD 3 z1 s1 z2 LIMIT 9",
    "ZINTERCARD 2 z1 no",
    "ZINTERCARD 2 few z1",
    "ZRANGE z1 0 -1",
    "ZRANGE z1 0 -1 WITHSCORES",
    "ZRANGE z1 5 -9 REV",
    "ZREVRANGE z1 3 -1 WITHSCORES",
    "ZRANGEBYSCORE z1 -inf (9000 WITHSCORES",
    "ZREVRANGEBYSCORE z1 inf 7",
    "ZRANGE z1 (1 +inf BYSCORE LIMIT 3 35000",
    "ZRANGE z1 +inf (1 BYSCORE REV LIMIT 3 35000 WITHSCORES",
    "ZRANGE zero 0 -1 WITHSCORES",
    "ZUNION 1 zero WITHSCORES",
    "ZRANGEBYLEX zero - +",
    "ZREVRANGEBYLEX zero + [m3",
    "GEOSEARCH g FROMLONLAT 1 2 BYRADIUS 20000 km",
    "GEOSEARCH g FROMLONLAT 1 2 BYRADIUS 20000 km ASC",
    "GEOSEARCH g FROMLONLAT 1 2 BYRADIUS 3000 km DESC WITHDIST WITHHASH WITHCOORD",
    "GEOSEARCH g FROMLONLAT 1 2 BYBOX 9000 7000 km ASC COUNT 17 WITHDIST",
    "GEOSEARCH g FROMLONLAT 1 2 BYBOX 1 1 m",
    "GEOSEARCH g FROMLONLAT 1 2 BYRADIUS 20000 km COUNT 700 WITHDIST",
    "GEOSEARCH g FROMMEMBER p9 BYRADIUS 9000 km DESC",
    "GEOSEARCH g FROMLONLAT 1 2 BYRADIUS 20000 km COUNT 700 ANY",
    "GEOSEARCH g FROMLONLAT 1 2 BYRADIUS 90 km COUNT 1 ANY",
    "GEOSEARCH g FROMLONLAT 1 2 BYRADIUS 20000 km COUNT 700 ANY DESC",
    "GEORADIUS g 1 2 20000 km COUNT 9 DESC WITHDIST",
    "GEORADIUS_RO g 1 2 20000 km ASC",
    "GEORADIUSBYMEMBER g p7 20000 km",
    "ARGREP a - + MATCH 7",
    "ARGREP a + - GLOB *3* RE 1.5 AND WITHVALUES",
    "ARGREP a 5 + EXACT 7.5 LIMIT 1",
    "ARGREP a + - RE 7.5 LIMIT 300 WITHVALUES",
    "ARGREP a - + MATCH none",
    "ARGREP a - + MATCH 1 LIMIT 99999",
    "AROP a 0 99999 SUM",
    "AROP a 3 99999 MIN",
    "AROP a 99999 3 MAX",
    "AROP a 0 99999 AND",
    "AROP a 9 99999 OR",
    "AROP a 0 99999 XOR",
    "AROP a 0 99999 MATCH -3.5",
    "AROP words 0 99999 SUM",
    "AROP words 0 99999 OR",
    "ARGETRANGE a 3 99999",
    "ARGETRANGE a 99999 3",
    "ARLASTITEMS a 99999",
    "ARLASTITEMS a 99999 REV",
    "SINTERCARD 1 s1",
    "SINTERCARD 2 i1 i2 LIMIT 3000",
    "SUNIONCARD 2 i1 i2",
    "SDIFFCARD 2 i1 i2",
    "SUNIONCARD 1 s1 LIMIT 70",
    "ZMSCORE z1 m3 none m5",
    "HMGET h f3 none f7",
    "HTTL expiring FIELDS 3 f1 none f90",
    "GEORADIUSBYMEMBER_RO g p7 9000 mi COUNT 3",
]
# Each stores its result as `d`.
STORING = [
    "SUNIONSTORE d s1 s2",
    "SINTERSTORE d s1 s2",
    "SDIFFSTORE d s1 s3",
    "SUNIONSTORE d i1 i2",
    "SINTERSTORE d s1 no",
    "ZUNIONSTORE d 3 z1 z2 s1 WEIGHTS 2 -3 0.5",
    "ZUNIONSTORE d 2 z1 zero AGGREGATE MIN",
    "ZUNIONSTORE d 1 s1",
    "ZINTERSTORE d 3 z1 z2 s1 WEIGHTS 2 -3 0.5",
    "ZINTERSTORE d 2 z1 few",
    "ZINTERSTORE d 2 z1 no",
    "ZDIFFSTORE d 2 z1 z2",
    "ZDIFFSTORE d 2 z1 z1",
    "ZRANGESTORE d z1 3 -3",
    "ZRANGESTORE d z1 (7 +inf BYSCORE",
    "ZRANGESTORE d z1 0 -1 REV",
    "ZRANGESTORE d zero [m2 + BYLEX LIMIT 3 6000",
    "ZRANGESTORE d zero 0 -1",
    "ZRANGESTORE d zero 0 200 REV",
    "ZRANGESTORE d zero +inf -inf BYSCORE REV",
    "GEOSEARCHSTORE d g FROMLONLAT 1 2 BYRADIUS 20000 km",
    "GEORADIUS g 1 2 20000 km STORE d",
    "GEOSEARCHSTORE d g FROMLONLAT 1 2 BYBOX 8000 9000 km COUNT 30 STOREDIST",
    "GEOSEARCHSTORE d g FROMLONLAT 1 2 BYBOX 1 1 m",
    "GEOSEARCHSTORE d g FROMLONLAT 1 2 BYRADIUS 20000 km DESC STOREDIST",
    "GEORADIUSBYMEMBER g p7 20000 km STOREDIST d",
]
# Each changes `d`, a copy of the first value. What is left is compared.
CHANGING = [
    ("z1", "ZPOPMIN d 99999"),
    ("z1", "ZPOPMAX d 99999"),
    ("z1", "ZPOPMIN d 33000"),
    ("z1", "ZPOPMAX d 150"),
    ("zero", "ZPOPMAX d 99999"),
    ("zero", "ZPOPMIN d 33000"),
    ("z1", "ZMPOP 2 none d MIN COUNT 99999"),
    ("z1", "ZMPOP 1 d MAX COUNT 33000"),
    ("z1", "BZMPOP 1 1 d MIN COUNT 99999"),
    ("z1", "ZREMRANGEBYRANK d 0 -1"),
    ("z1", "ZREMRANGEBYRANK d 1 -2"),
    ("z1", "ZREMRANGEBYRANK d 70 150"),
    ("z1", "ZREMRANGEBYSCORE d 3 (40"),
    ("zero", "ZREMRANGEBYLEX d [m2 [m5"),
    ("z1", "ZREM d m1 m2 none m2"),
    ("l", "LPOP d 99999"),
    ("l", "RPOP d 99999"),
    ("l", "RPOP d 150"),
    ("l", "LMPOP 1 d RIGHT COUNT 33000"),
    ("l", "BLMPOP 1 1 d LEFT COUNT 99999"),
    ("s1", "SREM d m1 m2 none m2"),
    ("i1", "SREM d 1 2 none 2"),
    ("i1", "SREM d " + " ".join(str(each) for each in range(0, 180, 2))),
    ("h", "HDEL d f1 f2 none f2"),
    ("h", "HGETDEL d FIELDS 4 f1 f2 none f2"),
    ("expiring", "HGETDEL d FIELDS 4 f1 f2 none f2"),
    ("expiring", "HPEXPIREAT d 4102444800001 FIELDS 4 f1 f2 none f2"),
    ("expiring", "HPEXPIREAT d 4102444800001 GT FIELDS 3 f1 none f90"),
    ("expiring", "HGETEX d PXAT 4102444800001 FIELDS 4 f1 f90 none f1"),
    ("expiring", "HSETEX d PXAT 4102444800001 FIELDS 2 f1 v f1 w"),
    ("expiring", "HSETEX d KEEPTTL FIELDS 2 f1 v new w"),
    ("expiring", "HSETEX d FIELDS 2 f1 v new w"),
    ("expiring", "HPERSIST d FIELDS 3 f1 none f90"),
]


def fill(wire: Wire, size: int) -> None:
    """Values of about this size that have half of their members in common, with equal scores and places."""
    drawn = random.Random(size)

    def add(name: str, key: str, words: Iterator[tuple[object, ...]]) -> None:
        members = [str(word) for member in words for word in member]
        wire.send_bytes(encode((name, key, *members)))
        assert wire.receive().startswith(b":")

    wire.call("FLUSHALL")
    for number in (1, 2, 3):
        first = (number - 1) * size // 2
        add("SADD", f"s{number}", ((f"m{each}",) for each in range(first, first + size)))
        add(
            "ZADD",
            f"z{number}",
            ((drawn.randrange(-9, max(size // 2, 99)) / 4, f"m{each}") for each in range(first, first + size)),
        )
    add("SADD", "i1", ((each,) for each in range(size)))
    add("SADD", "i2", ((each,) for each in range(0, 3 * size, 3)))
    add("HSET", "h", ((f"f{each}", f"v{each}") for each in range(size)))
    add("HSET", "expiring", ((f"f{each}", f"v{each}") for each in range(size)))
    fields = [f"f{each}" for each in range(size // 2)]
    wire.send_bytes(encode(("HPEXPIREAT", "expiring", "4102444800000", "FIELDS", len(fields), *fields)))
    assert wire.receive().startswith(b"*")
    add("RPUSH", "l", ((each if each % 3 else f"e{each}",) for each in range(size)))
    add("ZADD", "few", ((each, f"m{each}") for each in range(9)))
    add("ZADD", "zero", ((drawn.choice(("0", "-0")), f"m{each}") for each in range(size)))
    add("ARMSET", "a", ((each, f"-{each}.5" if each % 3 else each) for each in range(size)))
    add("ARMSET", "words", ((each, f"w{each}") for each in range(size)))
    places = ((drawn.randrange(-60, 60), drawn.randrange(-50, 50), f"p{each}") for each in range(size))
    add("GEOADD", "g", places)


@pytest.fixture(scope="module", params=[FEW, MANY, LONG])
def wires(
    request: pytest.FixtureRequest, oracle_process: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Wire]]:
    """A connection to Headrace and one to Redis, with the same values."""
    folder = tmp_path_factory.mktemp("many")
    ours = Server("headrace", Path(folder), "--appendonly", "no").start()
    try:
        found = [ours.connect(), oracle_process.connect()]
        for wire in found:
            wire.socket.settimeout(60)
            fill(wire, request.param)
        yield found
    finally:
        ours.kill()


def elements(reply: bytes) -> list[bytes]:
    """The bulk strings of an array, sorted."""
    return sorted(reply.split(b"\r\n")[2::2])


@pytest.mark.parametrize("line", UNORDERED)
def test_the_same_members_in_any_order(wires: list[Wire], line: str) -> None:
    ours, redis = (wire.call(*split(line)) for wire in wires)
    assert ours.partition(b"\r\n")[0] == redis.partition(b"\r\n")[0]
    assert elements(ours) == elements(redis)


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("line", ORDERED)
def test_the_same_reply(wires: list[Wire], line: str, protocol: int) -> None:
    for wire in wires:
        wire.call("HELLO", protocol)
    ours, redis = (wire.call(*split(line)) for wire in wires)
    for wire in wires:
        wire.call("HELLO", 2)
    assert ours == redis


@pytest.mark.parametrize("line", STORING)
def test_the_same_result(wires: list[Wire], line: str) -> None:
    for wire in wires:
        wire.call("SET", "d", "old")
    ours, redis = (wire.call(*split(line)) for wire in wires)
    assert ours == redis
    shown = []
    for wire in wires:
        is_set = wire.call("TYPE", "d") == b"+set\r\n"
        value = elements(wire.call("SMEMBERS", "d")) if is_set else wire.call("ZRANGE", "d", 0, -1, "WITHSCORES")
        shown.append((wire.call("OBJECT", "ENCODING", "d"), value))
    assert shown[0] == shown[1]


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize(("source", "line"), CHANGING)
def test_the_same_change(wires: list[Wire], source: str, line: str, protocol: int) -> None:
    replies = []
    for wire in wires:
        wire.call("HELLO", protocol)
        wire.call("COPY", source, "d", "REPLACE")
        replies.append([wire.call(*split(line)), wire.call("DEBUG", "DIGEST-VALUE", "d"), wire.call("TYPE", "d")])
        wire.call("HELLO", 2)
    assert replies[0] == replies[1]


def test_random_members_are_removed(wires: list[Wire]) -> None:
    for key in ("s1", "i1"):
        for part in (3, 2, 1):
            left = []
            for wire in wires:
                size = int(wire.call("SCARD", key)[1:])
                wire.call("COPY", key, "d", "REPLACE")
                popped = elements(wire.call("SPOP", "d", size // part - 1))
                kept = elements(wire.call("SMEMBERS", "d"))
                assert sorted(popped + kept) == elements(wire.call("SMEMBERS", key))
                left.append((len(kept), wire.call("OBJECT", "ENCODING", "d")))
            assert left[0] == left[1]
