"""Places: replies, results that are stored, and records for a replay."""

from __future__ import annotations

import math
import random

import pytest

from headrace.commands.geo import geohash
from headrace.commands.geo.shapes import distance
from support.inprocess import Caller, Rig

SICILY = "GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania"
SYNTAX = b"-ERR syntax error\r\n"
WRONG_TYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
EXCLUDED = b" is not compatible with WITHDIST, WITHHASH and WITHCOORD options\r\n"


def sicily() -> Caller:
    caller = Rig().connect()
    caller.call(SICILY, "GEOADD g 12.75 37.0833 edge", "SET str v")
    return caller


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        ("GEODIST g Palermo Catania", b"$11\r\n166274.1516\r\n"),
        ("GEODIST g Palermo Catania km", b"$8\r\n166.2742\r\n"),
        ("GEODIST g Palermo Catania MI", b"$8\r\n103.3182\r\n"),
        ("GEODIST g Palermo Palermo", b"$6\r\n0.0000\r\n"),
        ("GEODIST g Palermo none", b"$-1\r\n"),
        ("GEODIST none a b", b"$-1\r\n"),
        ("GEODIST g a b parsec", b"-ERR unsupported unit provided. please use M, KM, FT, MI\r\n"),
        ("GEODIST g a b m m", SYNTAX),
        ("GEOHASH g Palermo none Catania", b"*3\r\n$11\r\nsqc8b49rny0\r\n$-1\r\n$11\r\nsqdtr74hyu0\r\n"),
        ("GEOHASH none a", b"*1\r\n$-1\r\n"),
        ("GEOPOS g Palermo none", b"*2\r\n*2\r\n$18\r\n13.361389338970184\r\n$16\r\n38.1155563954963\r\n*-1\r\n"),
        ("GEOPOS str a", WRONG_TYPE),
        ("ZSCORE g Palermo", b"$16\r\n3479099956230698\r\n"),
        ("GEOADD g NX XX 1 1 a", SYNTAX),
        ("GEOADD g CH CH CH", SYNTAX),
        ("GEOADD g 1 1 a 1", SYNTAX),
        ("GEOADD g x 1 a", b"-ERR value is not a valid float\r\n"),
        ("GEOADD g 181 86 a", b"-ERR invalid longitude,latitude pair 181.000000,86.000000\r\n"),
        ("GEOADD g XX CH 13 38 Palermo 1 1 new", b":1\r\n"),
        ("GEOADD str 1 1 a", WRONG_TYPE),
    ],
)
def test_members(request_: str, reply: bytes) -> None:
    assert sicily().call(request_) == reply


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        ("FROMLONLAT 15 37 BYRADIUS 195 km ASC", b"*2\r\n$7\r\nCatania\r\n$7\r\nPalermo\r\n"),
        ("FROMLONLAT 15 37 BYBOX 400 400 km DESC", b"*3\r\n$4\r\nedge\r\n$7\r\nPalermo\r\n$7\r\nCatania\r\n"),
        ("FROMMEMBER edge BYRADIUS 150000 m COUNT 1", b"*1\r\n$4\r\nedge\r\n"),
        ("FROMMEMBER none BYRADIUS 1 m", b"-ERR could not decode requested zset member\r\n"),
        (
            "FROMLONLAT 15 37 BYRADIUS 100 km WITHHASH WITHDIST WITHCOORD",
            b"*1\r\n*4\r\n$7\r\nCatania\r\n$7\r\n56.4413\r\n:3479447370796909\r\n"
            b"*2\r\n$18\r\n15.087267458438873\r\n$17\r\n37.50266842333162\r\n",
        ),
        ("FROMLONLAT 0 0 BYRADIUS 1 m", b"*0\r\n"),
        ("FROMLONLAT 0 0 BYRADIUS -1 m", b"-ERR radius cannot be negative\r\n"),
        ("FROMLONLAT 0 0 BYRADIUS x m", b"-ERR need numeric radius\r\n"),
        ("FROMLONLAT 0 0 BYBOX x 1 m", b"-ERR need numeric width\r\n"),
        ("FROMLONLAT 0 0 BYBOX 1 x m", b"-ERR need numeric height\r\n"),
        ("FROMLONLAT 0 0 BYBOX 1 -1 m", b"-ERR height or width cannot be negative\r\n"),
        ("FROMLONLAT 0 0 BYRADIUS 1 m COUNT 0", b"-ERR COUNT must be > 0\r\n"),
        ("FROMLONLAT 0 0 BYRADIUS 1 m ANY", b"-ERR the ANY argument requires COUNT argument\r\n"),
        ("FROMLONLAT 0 0 FROMMEMBER edge BYRADIUS 1 m", SYNTAX),
        ("FROMLONLAT 0 0 BYRADIUS 1 m BYBOX 1 1 m", SYNTAX),
        ("FROMLONLAT 0 0 BYRADIUS 1 m STOREDIST", SYNTAX),
        ("BYRADIUS 1 m ASC ASC", b"-ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for geosearch\r\n"),
        ("FROMLONLAT 0 0 ASC ASC", b"-ERR exactly one of BYRADIUS and BYBOX can be specified for geosearch\r\n"),
    ],
)
def test_searches(request_: str, reply: bytes) -> None:
    assert sicily().call(f"geosearch g {request_}") == reply


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        ("GEORADIUS g 15 37 100 km", b"*1\r\n$7\r\nCatania\r\n"),
        ("GEORADIUS_RO g 15 37 100 km WITHDIST", b"*1\r\n*2\r\n$7\r\nCatania\r\n$7\r\n56.4413\r\n"),
        ("GEORADIUS_RO g 15 37 100 km STORE d", SYNTAX),
        ("GEORADIUS g 15 37 100 km STORE d WITHDIST", b"-ERR STORE option in GEORADIUS" + EXCLUDED),
        ("GEOSEARCHSTORE d g FROMLONLAT 1 1 BYRADIUS 1 m WITHHASH", b"-ERR GEOSEARCHSTORE" + EXCLUDED),
        ("GEORADIUSBYMEMBER g Palermo 200 km ASC COUNT 2", b"*2\r\n$7\r\nPalermo\r\n$4\r\nedge\r\n"),
        ("GEORADIUSBYMEMBER_RO g Palermo 1 km", b"*1\r\n$7\r\nPalermo\r\n"),
        ("GEORADIUSBYMEMBER none Palermo x y", b"*0\r\n"),
        ("GEORADIUSBYMEMBER g none 1 m", b"-ERR could not decode requested zset member\r\n"),
        ("GEORADIUS str 15 37 100 km", WRONG_TYPE),
    ],
)
def test_searches_in_a_circle(request_: str, reply: bytes) -> None:
    assert sicily().call(request_) == reply


def test_a_result_is_stored_with_scores_or_distances() -> None:
    caller = sicily()
    assert caller.call("GEOSEARCHSTORE d g FROMLONLAT 15 37 BYRADIUS 195 km") == b":2\r\n"
    assert caller.call("ZSCORE d Palermo") == b"$16\r\n3479099956230698\r\n"
    assert caller.call("GEORADIUS g 15 37 200 km STORE x STOREDIST d COUNT 1") == b":1\r\n"
    assert caller.call("ZRANGE d 0 -1 WITHSCORES").startswith(b"*2\r\n$7\r\nCatania\r\n$16\r\n56.4412578701582")
    assert caller.call("EXISTS x") == b":0\r\n"


@pytest.mark.parametrize("source", ["g", "none"])
def test_an_empty_result_removes_the_destination(source: str) -> None:
    caller = sicily()
    assert caller.call(f"GEOSEARCHSTORE str {source} FROMLONLAT 0 0 BYRADIUS 1 m") == b":0\r\n"
    assert caller.call("EXISTS str") == b":0\r\n"


@pytest.mark.parametrize(
    ("request_", "keys"),
    [
        ("GEORADIUS g 1 1 1 km STORE a STOREDIST b", b"*2\r\n$1\r\ng\r\n$1\r\nb\r\n"),
        ("GEORADIUS g 1 1 1 km STOREDIST a store b", b"*2\r\n$1\r\ng\r\n$1\r\nb\r\n"),
        ("GEORADIUSBYMEMBER g m 1 km STORE", b"*1\r\n$1\r\ng\r\n"),
        ("GEORADIUSBYMEMBER g m 1 km STORE STORE x", b"*2\r\n$1\r\ng\r\n$5\r\nSTORE\r\n"),
    ],
)
def test_the_last_store_names_a_key(request_: str, keys: bytes) -> None:
    assert Rig().connect().call(f"COMMAND GETKEYS {request_}") == keys


def test_a_search_finds_what_is_near() -> None:
    rnd = random.Random(3)
    caller = Rig().connect()
    places = {f"m{index}": (rnd.uniform(-180, 180), rnd.uniform(-85, 85)) for index in range(500)}
    caller.call("GEOADD g " + " ".join(f"{x:.9f} {y:.9f} {name}" for name, (x, y) in places.items()))
    places = {name: geohash.place_of(geohash.score_of(x, y)) for name, (x, y) in places.items()}
    for _ in range(30):
        longitude, latitude, radius = rnd.uniform(-150, 150), rnd.uniform(-60, 60), rnd.uniform(1, 3_000_000)
        reply = caller.call(f"GEOSEARCH g FROMLONLAT {longitude!r} {latitude!r} BYRADIUS {radius!r} m")
        near = {name for name, each in places.items() if distance(longitude, latitude, *each) <= radius}
        assert set(reply.decode().split("\r\n")[2::2]) == near


@pytest.mark.parametrize("score", [0.0, 2.0**52, -5.0, 1e300, math.inf, -math.inf])
def test_every_score_is_a_place(score: float) -> None:
    longitude, latitude = geohash.place_of(score)
    assert abs(longitude) <= geohash.LONGITUDE_MAX
    assert abs(latitude) <= geohash.LATITUDE_MAX


def test_the_nearest_of_equal_places() -> None:
    """Members of one distance are sorted in another way if only some are wanted."""
    caller = Rig().connect()
    caller.call("GEOADD g 1 1 a 3 3 b 1 1 c 2 2 d 2 2 e")
    assert caller.call("GEOSEARCH g FROMLONLAT 3 3 BYRADIUS 500 km COUNT 2") == b"*2\r\n$1\r\nb\r\n$1\r\nd\r\n"
    assert caller.call("GEOSEARCH g FROMLONLAT 1 1 BYRADIUS 500 km COUNT 1 DESC") == b"*1\r\n$1\r\nb\r\n"
