"""The forms of commands on values with members, as the table of members measures them: by the number of members.

A form is text, as in `command_forms.py`. Before it is sent, words in braces are replaced: `{count}` is the number of
members, and `places_of` has the others. A name with `{n}`, a number that is different in each request, is a new key:
`hash{n}` is a copy of `hash`, for requests that consume or change it, and `new{n}` does not exist. `to` is a
destination, which is removed after each run. All other keys keep their number of members.

A command of these groups that is not named here has one form, made from its `arguments=`, so a new row joins by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from benchmarks.command_forms import Form, made

from headrace.commands import registry
from headrace.commands.core.table import Row, all_rows

assert registry.FAMILIES

GROUPS: Final = (
    "hash", "list", "set", "sorted-set", "geo", "array", "hyperloglog", "string", "bitmap", "generic",
)  # fmt: skip
# The largest number of names, elements or fields that one request has.
NAMES_MAX: Final = 1_000
# With more members, there are no copies for each request, which take long to make.
COPIED_COUNT_MAX: Final = 1_000

# A prime that divides no number of members. Its multiples, modulo that number, are all integers below it in another
# order.
MIXING_FACTOR: Final = 7_919

# What is sent to a new server, for each NAMES_MAX members or fewer, and then once.
FILL: Final = (
    "HSET hash {all_pairs}",
    "HSET timed {all_pairs}",
    "HPEXPIREAT timed 4102444800000 FIELDS {half_counted}",
    "HSET counts {all_counts}",
    "RPUSH list {all_names}",
    "RPUSH rotated {all_names}",
    "RPUSH integer_list {mixed_integers}",
    "SADD set {all_names}",
    "SADD other_set {other_names}",
    "SADD integer_set {all_integers}",
    "ZADD zset {all_scores}",
    "ZADD other_zset {other_scores}",
    "ZADD equal_zset {equal_scores}",
    "GEOADD places {all_places}",
    "ARSET array {first} {all_names}",
    "ARSET integer_array {first} {all_integers}",
    "ARRING ring {count} {all_names}",
    "PFADD hll {all_names}",
    "PFADD other_hll {other_names}",
)
FILL_ONCE: Final = ("SET text {text}", "SET other_text {other_text}", r'SETRANGE zeros {last} "\x00"')
# Keys whose number of members no form changes, each with the request that counts them.
COUNTED_BY: Final = {
    "hash": "HLEN hash",
    "timed": "HLEN timed",
    "counts": "HLEN counts",
    "list": "LLEN list",
    "rotated": "LLEN rotated",
    "integer_list": "LLEN integer_list",
    "set": "SCARD set",
    "other_set": "SCARD other_set",
    "integer_set": "SCARD integer_set",
    "zset": "ZCARD zset",
    "other_zset": "ZCARD other_zset",
    "equal_zset": "ZCARD equal_zset",
    "places": "ZCARD places",
    "array": "ARCOUNT array",
    "integer_array": "ARCOUNT integer_array",
    "ring": "ARCOUNT ring",
    "hll": "PFCOUNT hll",
    "other_hll": "PFCOUNT other_hll",
    "text": "STRLEN text",
    "other_text": "STRLEN other_text",
    "zeros": "STRLEN zeros",
}
# Keys whose values RESTORE gets: `{hash_dump}` is what DUMP returns of `hash`.
DUMPED: Final = ("hash", "timed", "list", "integer_list", "set", "integer_set", "zset", "array", "hll", "text")
# The key in forms that are made from `arguments=`, by the group of the command.
KEYS: Final = {
    "hash": "hash", "list": "list", "set": "set", "sorted-set": "zset", "geo": "places", "array": "array",
    "hyperloglog": "hll", "string": "text", "bitmap": "text", "generic": "hash",
}  # fmt: skip

FIELD_EXPIRY: Final = {
    "HEXPIRE": "100000", "HPEXPIRE": "100000000", "HEXPIREAT": "4102444800", "HPEXPIREAT": "4102444800000",
}  # fmt: skip
PLACES_FROM: Final = "places FROMLONLAT 0 0"

FORMS: Final[dict[str, tuple[str, ...]]] = {
    # Hashes.
    "HDEL": ("HDEL hash{n} m1", "HDEL hash{n} {half_names}", "HDEL hash{n} {all_names}", "HDEL hash missing"),
    "HEXISTS": ("HEXISTS hash m1",),
    "HGET": ("HGET hash m1", "HGET hash missing"),
    "HGETALL": ("HGETALL hash", "HGETALL timed"),
    "HGETDEL": (
        "HGETDEL hash{n} FIELDS 1 m1",
        "HGETDEL hash{n} FIELDS {half_counted}",
        "HGETDEL hash{n} FIELDS {all_counted}",
    ),
    "HGETEX": (
        "HGETEX hash FIELDS 1 m1",
        "HGETEX hash FIELDS {all_counted}",
        "HGETEX timed EX 100000 FIELDS 1 m1",
        "HGETEX timed PXAT 4102444800000 FIELDS 1 m1",
        "HGETEX timed{n} PERSIST FIELDS 1 m1",
        "HGETEX hash{n} EX 100000 FIELDS {half_counted}",
    ),
    "HIMPORT|SET": ("HIMPORT SET new{n} fields {all_names}",),
    "HINCRBY": ("HINCRBY counts m1 1",),
    "HINCRBYFLOAT": ("HINCRBYFLOAT counts m2 0.5",),
    "HKEYS": ("HKEYS hash", "HKEYS timed"),
    "HLEN": ("HLEN hash",),
    "HMGET": ("HMGET hash m0 m1 m2 m3 m4", "HMGET hash {all_names}"),
    "HMSET": ("HMSET hash m1 v1", "HMSET new{n} {all_pairs}"),
    "HPERSIST": (
        "HPERSIST timed{n} FIELDS 1 m1",
        "HPERSIST timed{n} FIELDS {half_counted}",
        "HPERSIST hash FIELDS 1 m1",
    ),
    "HRANDFIELD": (
        "HRANDFIELD hash",
        "HRANDFIELD hash 5",
        "HRANDFIELD hash {half}",
        "HRANDFIELD hash {count}",
        "HRANDFIELD hash 5 WITHVALUES",
        "HRANDFIELD hash {count} WITHVALUES",
        "HRANDFIELD hash -5",
        "HRANDFIELD hash -{count} WITHVALUES",
    ),
    "HSCAN": (
        "HSCAN hash 0",
        "HSCAN hash 0 COUNT 1000",
        "HSCAN hash 0 COUNT 1000 NOVALUES",
        "HSCAN hash 0 MATCH *1 COUNT 1000",
        "HSCAN timed 0 COUNT 1000",
    ),
    "HSET": ("HSET hash m1 v1", "HSET hash {all_pairs}", "HSET hash{n} new value", "HSET new{n} {all_pairs}"),
    "HSETEX": (
        "HSETEX timed EX 100000 FIELDS 1 m1 v1",
        "HSETEX timed KEEPTTL FIELDS 1 m1 v1",
        "HSETEX timed FXX KEEPTTL FIELDS 1 m1 v1",
        "HSETEX hash FNX FIELDS 1 m1 v1",
        "HSETEX timed{n} FIELDS 1 m1 v1",
        "HSETEX hash{n} EX 100000 FIELDS {half_counted_pairs}",
        "HSETEX new{n} EX 100000 FIELDS {all_counted_pairs}",
    ),
    "HSETNX": ("HSETNX hash m1 value", "HSETNX hash{n} new value"),
    "HSTRLEN": ("HSTRLEN hash m1",),
    "HVALS": ("HVALS hash", "HVALS timed"),
    **{
        name: (
            f"{name} hash{{n}} {time} FIELDS 1 m1",
            f"{name} hash{{n}} {time} FIELDS {{half_counted}}",
            f"{name} timed{{n}} {time} FIELDS {{half_counted}}",
            f"{name} timed {time} NX FIELDS 1 m1",
            f"{name} timed {time} GT FIELDS 1 m1",
        )
        for name, time in FIELD_EXPIRY.items()
    },
    **{
        name: (
            f"{name} timed FIELDS 1 m1",
            f"{name} timed FIELDS {{all_counted}}",
            f"{name} hash FIELDS {{all_counted}}",
        )
        for name in ("HTTL", "HPTTL", "HEXPIRETIME", "HPEXPIRETIME")
    },
    # Lists. Each server receives as many requests as fit in a time: the ends of `rotated` differ, and no form asks for
    # its elements.
    "BLMOVE": ("BLMOVE rotated rotated LEFT RIGHT 1",),
    "BLMOVEM": ("BLMOVEM list{n} to LEFT RIGHT 1 COUNT 5 BULK",),
    "BLMPOP": ("BLMPOP 1 1 list{n} LEFT COUNT 5",),
    "BLPOP": ("BLPOP list{n} 1", "BLPOP missing list{n} 1"),
    "BRPOP": ("BRPOP list{n} 1",),
    "BRPOPLPUSH": ("BRPOPLPUSH rotated rotated 1",),
    "LINDEX": ("LINDEX list 0", "LINDEX list {half}", "LINDEX list -1"),
    "LINSERT": ("LINSERT list{n} BEFORE {middle} x", "LINSERT list{n} AFTER m1 x", "LINSERT list BEFORE missing x"),
    "LLEN": ("LLEN list",),
    "LMOVE": ("LMOVE rotated rotated LEFT RIGHT", "LMOVE rotated rotated RIGHT LEFT", "LMOVE list{n} to LEFT RIGHT"),
    "LMOVEM": (
        "LMOVEM list{n} to LEFT RIGHT COUNT 5 BULK",
        "LMOVEM list{n} to LEFT RIGHT COUNT 5 OBO",
        "LMOVEM list{n} new{n} LEFT RIGHT COUNT {half} BULK",
    ),
    "LMPOP": ("LMPOP 1 list{n} LEFT", "LMPOP 2 missing list{n} LEFT COUNT 5", "LMPOP 1 list{n} RIGHT COUNT {half}"),
    "LPOP": ("LPOP list{n}", "LPOP list{n} 5", "LPOP list{n} {half}", "LPOP list{n} {count}"),
    "LPOS": (
        "LPOS list missing",
        "LPOS list {middle}",
        "LPOS list m1 RANK -1",
        "LPOS list m1 COUNT 0",
        "LPOS list {middle} MAXLEN {half}",
        "LPOS integer_list 5 COUNT 0",
    ),
    "LPUSH": ("LPUSH list{n} x", "LPUSH list{n} a b c d e f g h i j", "LPUSH new{n} {all_names}"),
    "LPUSHX": ("LPUSHX list{n} x",),
    "LRANGE": ("LRANGE list 0 -1", "LRANGE integer_list 0 -1", "LRANGE list 0 4", "LRANGE list -5 -1"),
    "LREM": (
        "LREM list{n} 1 m1",
        "LREM list{n} 0 {middle}",
        "LREM list{n} -1 {middle}",
        "LREM list 0 missing",
    ),
    "LSET": ("LSET list 0 m0", "LSET list {half} {middle}"),
    "LTRIM": (
        "LTRIM list{n} 1 -1",
        "LTRIM list{n} 0 4",
        "LTRIM list{n} {half} -1",
        "LTRIM list{n} 1 0",
        "LTRIM list 0 -1",
    ),
    "RPOP": ("RPOP list{n}", "RPOP list{n} 5", "RPOP list{n} {half}", "RPOP list{n} {count}"),
    "RPOPLPUSH": ("RPOPLPUSH rotated rotated",),
    "RPUSH": ("RPUSH list{n} x", "RPUSH list{n} a b c d e f g h i j", "RPUSH new{n} {all_names}"),
    "RPUSHX": ("RPUSHX list{n} x",),
    # Sets.
    "SADD": (
        "SADD set m1",
        "SADD set{n} new",
        "SADD set {all_names}",
        "SADD new{n} {all_names}",
        "SADD integer_set 1",
        "SADD integer_set{n} 555555",
        "SADD integer_set{n} x",
        "SADD new{n} {all_integers}",
    ),
    "SCARD": ("SCARD set",),
    "SISMEMBER": ("SISMEMBER set m1", "SISMEMBER set missing", "SISMEMBER integer_set 1"),
    "SMEMBERS": ("SMEMBERS set", "SMEMBERS integer_set"),
    "SMISMEMBER": ("SMISMEMBER set m0 m1 m2 m3 m4", "SMISMEMBER set {all_names}", "SMISMEMBER integer_set 1 2 3"),
    "SMOVE": ("SMOVE set{n} to m1", "SMOVE set to missing"),
    "SPOP": (
        "SPOP set{n}",
        "SPOP set{n} 5",
        "SPOP set{n} {half}",
        "SPOP set{n} {last}",
        "SPOP set{n} {count}",
        "SPOP integer_set{n}",
        "SPOP integer_set{n} {half}",
    ),
    "SRANDMEMBER": (
        "SRANDMEMBER set",
        "SRANDMEMBER set 5",
        "SRANDMEMBER set {half}",
        "SRANDMEMBER set {count}",
        "SRANDMEMBER set -5",
        "SRANDMEMBER set -{count}",
        "SRANDMEMBER integer_set",
        "SRANDMEMBER integer_set {half}",
        "SRANDMEMBER integer_set -{count}",
    ),
    "SREM": (
        "SREM set{n} m1",
        "SREM set{n} {half_names}",
        "SREM set{n} {all_names}",
        "SREM set missing",
        "SREM integer_set{n} 1",
    ),
    "SSCAN": (
        "SSCAN set 0",
        "SSCAN set 0 COUNT 1000",
        "SSCAN set 0 MATCH *1 COUNT 1000",
        "SSCAN integer_set 0",
        "SSCAN integer_set 0 MATCH *1",
    ),
    **{
        name: (
            f"{name} set other_set",
            f"{name} integer_set integer_set",
            f"{name} integer_set set",
            f"{name} set",
            f"{name} set missing",
        )
        for name in ("SINTER", "SUNION", "SDIFF")
    },
    **{
        name: (f"{name} to set other_set", f"{name} to integer_set integer_set", f"{name} to set")
        for name in ("SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE")
    },
    **{
        name: (
            f"{name} 2 set other_set",
            f"{name} 2 integer_set integer_set",
            f"{name} 1 set",
            f"{name} 2 set other_set LIMIT 3",
        )
        for name in ("SINTERCARD", "SUNIONCARD", "SDIFFCARD")
    },
    # Sorted sets. The score of `m1` is 1.5, that of `m2` is 3. In `equal_zset`, `m0` and `m1` are the first members.
    "BZMPOP": ("BZMPOP 1 1 zset{n} MIN COUNT 5",),
    "BZPOPMAX": ("BZPOPMAX zset{n} 1",),
    "BZPOPMIN": ("BZPOPMIN zset{n} 1", "BZPOPMIN missing zset{n} 1"),
    "ZADD": (
        "ZADD zset 1.5 m1",
        "ZADD zset NX 5 m1",
        "ZADD zset XX 1.5 m1",
        "ZADD zset GT 1 m1",
        "ZADD zset CH 1.5 m1",
        "ZADD zset XX INCR 0 m1",
        "ZADD zset {all_scores}",
        "ZADD zset{n} 1 new",
        "ZADD zset{n} 77 m1",
        "ZADD new{n} {all_scores}",
    ),
    "ZCARD": ("ZCARD zset",),
    "ZCOUNT": ("ZCOUNT zset -inf +inf", "ZCOUNT zset 1 (8"),
    "ZDIFF": ("ZDIFF 2 zset other_zset", "ZDIFF 2 zset other_zset WITHSCORES", "ZDIFF 1 zset"),
    "ZDIFFSTORE": ("ZDIFFSTORE to 2 zset other_zset",),
    "ZINCRBY": ("ZINCRBY zset{n} 1 m1", "ZINCRBY zset 0 m1"),
    "ZINTER": (
        "ZINTER 2 zset other_zset",
        "ZINTER 2 zset other_zset WITHSCORES",
        "ZINTER 2 zset other_zset WEIGHTS 2 3 AGGREGATE MAX",
        "ZINTER 2 zset set",
    ),
    "ZINTERCARD": ("ZINTERCARD 2 zset other_zset", "ZINTERCARD 2 zset other_zset LIMIT 3"),
    "ZINTERSTORE": ("ZINTERSTORE to 2 zset other_zset", "ZINTERSTORE to 2 zset other_zset AGGREGATE MIN"),
    "ZLEXCOUNT": ("ZLEXCOUNT equal_zset - +", "ZLEXCOUNT equal_zset [m2 (m5"),
    "ZMPOP": ("ZMPOP 1 zset{n} MIN", "ZMPOP 2 missing zset{n} MAX COUNT 5", "ZMPOP 1 zset{n} MIN COUNT {half}"),
    "ZMSCORE": ("ZMSCORE zset m0 m1 m2 m3 m4", "ZMSCORE zset {all_names}"),
    "ZPOPMAX": ("ZPOPMAX zset{n}", "ZPOPMAX zset{n} 5", "ZPOPMAX zset{n} {half}"),
    "ZPOPMIN": ("ZPOPMIN zset{n}", "ZPOPMIN zset{n} 5", "ZPOPMIN zset{n} {half}", "ZPOPMIN zset{n} {count}"),
    "ZRANDMEMBER": (
        "ZRANDMEMBER zset",
        "ZRANDMEMBER zset 5",
        "ZRANDMEMBER zset {half}",
        "ZRANDMEMBER zset {count}",
        "ZRANDMEMBER zset 5 WITHSCORES",
        "ZRANDMEMBER zset {count} WITHSCORES",
        "ZRANDMEMBER zset -5",
        "ZRANDMEMBER zset -{count} WITHSCORES",
    ),
    "ZRANGE": (
        "ZRANGE zset 0 -1",
        "ZRANGE zset 0 -1 WITHSCORES",
        "ZRANGE zset 0 4",
        "ZRANGE zset 0 -1 REV",
        "ZRANGE zset 0 -1 REV WITHSCORES",
        "ZRANGE zset -inf +inf BYSCORE",
        "ZRANGE zset 1 8 BYSCORE WITHSCORES",
        "ZRANGE zset -inf +inf BYSCORE LIMIT 1 3",
        "ZRANGE zset 8 1 BYSCORE REV",
        "ZRANGE equal_zset - + BYLEX",
        "ZRANGE equal_zset - [m1 BYLEX",
        "ZRANGE equal_zset + - BYLEX REV LIMIT 0 3",
    ),
    "ZRANGEBYLEX": (
        "ZRANGEBYLEX equal_zset - +",
        "ZRANGEBYLEX equal_zset [m2 (m5",
        "ZRANGEBYLEX equal_zset - + LIMIT 1 3",
    ),
    "ZRANGEBYSCORE": (
        "ZRANGEBYSCORE zset -inf +inf",
        "ZRANGEBYSCORE zset -inf +inf WITHSCORES",
        "ZRANGEBYSCORE zset 1 8 WITHSCORES",
        "ZRANGEBYSCORE zset (1 (8 LIMIT 1 3",
    ),
    "ZRANGESTORE": (
        "ZRANGESTORE to zset 0 -1",
        "ZRANGESTORE to zset 0 -1 REV",
        "ZRANGESTORE to zset 1 8 BYSCORE",
        "ZRANGESTORE to zset -inf +inf BYSCORE LIMIT 1 3",
        "ZRANGESTORE to equal_zset - + BYLEX",
    ),
    "ZRANK": ("ZRANK zset {middle}", "ZRANK zset {middle} WITHSCORE", "ZRANK zset missing"),
    "ZREM": ("ZREM zset{n} m1", "ZREM zset{n} {half_names}", "ZREM zset{n} {all_names}", "ZREM zset missing"),
    "ZREMRANGEBYLEX": (
        "ZREMRANGEBYLEX equal_zset{n} - [m1",
        "ZREMRANGEBYLEX equal_zset{n} - +",
        "ZREMRANGEBYLEX equal_zset [a [b",
    ),
    "ZREMRANGEBYRANK": (
        "ZREMRANGEBYRANK zset{n} 0 0",
        "ZREMRANGEBYRANK zset{n} 0 {half}",
        "ZREMRANGEBYRANK zset{n} 0 -1",
        "ZREMRANGEBYRANK zset 999999 -1",
    ),
    "ZREMRANGEBYSCORE": (
        "ZREMRANGEBYSCORE zset{n} 0 2",
        "ZREMRANGEBYSCORE zset{n} 0 {half}",
        "ZREMRANGEBYSCORE zset{n} -inf +inf",
        "ZREMRANGEBYSCORE zset -5 -1",
    ),
    "ZREVRANGE": ("ZREVRANGE zset 0 -1", "ZREVRANGE zset 0 -1 WITHSCORES", "ZREVRANGE zset 0 4"),
    "ZREVRANGEBYLEX": (
        "ZREVRANGEBYLEX equal_zset + -",
        "ZREVRANGEBYLEX equal_zset (m5 [m2",
        "ZREVRANGEBYLEX equal_zset + - LIMIT 1 3",
    ),
    "ZREVRANGEBYSCORE": (
        "ZREVRANGEBYSCORE zset +inf -inf",
        "ZREVRANGEBYSCORE zset 8 1 WITHSCORES",
        "ZREVRANGEBYSCORE zset 8 1 LIMIT 1 3",
    ),
    "ZREVRANK": ("ZREVRANK zset {middle}", "ZREVRANK zset {middle} WITHSCORE"),
    "ZSCAN": ("ZSCAN zset 0", "ZSCAN zset 0 COUNT 1000", "ZSCAN zset 0 MATCH *1 COUNT 1000"),
    "ZSCORE": ("ZSCORE zset m1", "ZSCORE zset missing"),
    "ZUNION": (
        "ZUNION 2 zset other_zset",
        "ZUNION 2 zset other_zset WITHSCORES",
        "ZUNION 2 zset other_zset WEIGHTS 2 3 AGGREGATE MAX WITHSCORES",
        "ZUNION 2 zset set",
        "ZUNION 1 zset",
    ),
    "ZUNIONSTORE": (
        "ZUNIONSTORE to 2 zset other_zset",
        "ZUNIONSTORE to 2 zset other_zset WEIGHTS 2 3 AGGREGATE MIN",
        "ZUNIONSTORE to 2 zset set",
        "ZUNIONSTORE to 1 zset",
    ),
    # Places: in an area of 550 by 330 km, with 0 0 in its corner.
    "GEOADD": (
        "GEOADD places 0 0 m0",
        "GEOADD places NX 1 1 m1",
        "GEOADD places CH 0 0 m0",
        "GEOADD places{n} 1 1 new",
        "GEOADD new{n} {all_places}",
    ),
    "GEODIST": ("GEODIST places m1 m2", "GEODIST places m1 m2 km", "GEODIST places m1 missing"),
    "GEOHASH": ("GEOHASH places m1", "GEOHASH places {all_names}"),
    "GEOPOS": ("GEOPOS places m1", "GEOPOS places missing", "GEOPOS places {all_names}"),
    "GEORADIUS": (
        "GEORADIUS places 0 0 5000 km",
        "GEORADIUS places 0 0 5000 km WITHDIST ASC",
        "GEORADIUS places 0 0 5000 km STORE to",
    ),
    "GEORADIUSBYMEMBER": ("GEORADIUSBYMEMBER places m1 5000 km", "GEORADIUSBYMEMBER places m1 5000 km STOREDIST to"),
    "GEORADIUSBYMEMBER_RO": ("GEORADIUSBYMEMBER_RO places m1 5000 km ASC WITHDIST",),
    "GEORADIUS_RO": ("GEORADIUS_RO places 0 0 5000 km", "GEORADIUS_RO places 0 0 2 km WITHCOORD"),
    "GEOSEARCH": (
        f"GEOSEARCH {PLACES_FROM} BYRADIUS 5000 km",
        f"GEOSEARCH {PLACES_FROM} BYRADIUS 5000 km ASC",
        f"GEOSEARCH {PLACES_FROM} BYRADIUS 5000 km DESC COUNT 3",
        f"GEOSEARCH {PLACES_FROM} BYRADIUS 5000 km COUNT 3 ANY",
        f"GEOSEARCH {PLACES_FROM} BYRADIUS 5000 km WITHDIST",
        f"GEOSEARCH {PLACES_FROM} BYRADIUS 5000 km WITHCOORD",
        f"GEOSEARCH {PLACES_FROM} BYRADIUS 5000 km WITHHASH",
        f"GEOSEARCH {PLACES_FROM} BYRADIUS 5000 km ASC WITHDIST",
        f"GEOSEARCH {PLACES_FROM} BYRADIUS 5000 km ASC WITHDIST WITHCOORD WITHHASH",
        f"GEOSEARCH {PLACES_FROM} BYRADIUS 2 km",
        f"GEOSEARCH {PLACES_FROM} BYBOX 3 3 km ASC WITHDIST",
        "GEOSEARCH places FROMMEMBER m1 BYBOX 5000 5000 km",
        "GEOSEARCH places FROMLONLAT 90 60 BYRADIUS 2 km",
    ),
    "GEOSEARCHSTORE": (
        f"GEOSEARCHSTORE to {PLACES_FROM} BYRADIUS 5000 km",
        f"GEOSEARCHSTORE to {PLACES_FROM} BYRADIUS 5000 km ASC STOREDIST",
        "GEOSEARCHSTORE to places FROMMEMBER m1 BYBOX 5 5 km",
    ),
    # Arrays.
    "ARCOUNT": ("ARCOUNT array",),
    "ARDEL": ("ARDEL array{n} 0", "ARDEL array{n} 0 1 2 3 4", "ARDEL array{n} {all_integers}"),
    "ARDELRANGE": ("ARDELRANGE array{n} 0 1", "ARDELRANGE array{n} 0 {half}", "ARDELRANGE array{n} 0 {count}"),
    "ARGET": ("ARGET array 1", "ARGET integer_array 1"),
    "ARGETRANGE": ("ARGETRANGE array 0 {last}", "ARGETRANGE array 0 4", "ARGETRANGE integer_array 0 {last}"),
    "ARGREP": (
        "ARGREP array - + EXACT m1",
        "ARGREP array - + EXACT M1 NOCASE",
        "ARGREP array - + MATCH 1",
        "ARGREP array - + GLOB *1",
        "ARGREP array - + RE 1$",
        "ARGREP array - + MATCH m WITHVALUES",
        "ARGREP array - + MATCH m LIMIT 3",
        "ARGREP array - + MATCH m MATCH 1 AND",
    ),
    "ARINFO": ("ARINFO array",),
    "ARINSERT": ("ARINSERT array{n} x", "ARINSERT new{n} {all_names}"),
    "ARLASTITEMS": ("ARLASTITEMS ring 5", "ARLASTITEMS ring {count} REV"),
    "ARLEN": ("ARLEN array",),
    "ARMGET": ("ARMGET array 0 1 2 3 4", "ARMGET array {all_integers}"),
    "ARMSET": (
        "ARMSET array 0 m0",
        "ARMSET array 0 m0 1 m1 2 m2",
        "ARMSET array{n} 50000 x",
        "ARMSET new{n} {all_indexed}",
    ),
    "ARNEXT": ("ARNEXT ring",),
    "AROP": (
        "AROP integer_array 0 {last} SUM",
        "AROP integer_array 0 {last} MIN",
        "AROP integer_array 0 {last} MAX",
        "AROP integer_array 0 {last} USED",
        "AROP integer_array 0 {last} AND",
        "AROP integer_array 0 {last} OR",
        "AROP integer_array 0 {last} XOR",
        "AROP array 0 {last} MATCH m1",
    ),
    "ARRING": ("ARRING ring {count} x",),
    "ARSCAN": ("ARSCAN array 0 {last}", "ARSCAN array 0 {last} LIMIT 3"),
    "ARSEEK": ("ARSEEK ring 3",),
    "ARSET": ("ARSET array 0 m0", "ARSET array 0 m0 m1 m2 m3 m4", "ARSET new{n} 0 {all_names}"),
    # HyperLogLogs.
    "PFADD": ("PFADD hll m1", "PFADD hll {all_names}", "PFADD hll{n} new", "PFADD new{n} {all_names}"),
    "PFCOUNT": ("PFCOUNT hll", "PFADD hll{n} new; PFCOUNT hll{n}", "PFCOUNT hll other_hll"),
    "PFMERGE": ("PFMERGE to hll", "PFMERGE new{n} hll other_hll", "PFMERGE hll{n} other_hll"),
    # Strings and their bits, of so many bytes.
    "APPEND": ("APPEND text{n} x", "APPEND new{n} {text}"),
    "BITCOUNT": ("BITCOUNT text", "BITCOUNT text 1 5", "BITCOUNT text 1 15 BIT"),
    "BITFIELD": (
        "BITFIELD text GET u8 0",
        "BITFIELD text SET u8 0 1",
        "BITFIELD text INCRBY i5 10 1",
        "BITFIELD text OVERFLOW SAT INCRBY u4 0 1",
        "BITFIELD text GET u8 0 GET u8 8 GET i16 #1",
    ),
    "BITFIELD_RO": ("BITFIELD_RO text GET u8 0",),
    "BITOP": (
        "BITOP AND to text other_text",
        "BITOP OR to text other_text",
        "BITOP XOR to text other_text",
        "BITOP DIFF to text other_text",
        "BITOP DIFF1 to text other_text",
        "BITOP ANDOR to text other_text",
        "BITOP ONE to text other_text",
        "BITOP NOT to text",
    ),
    "BITPOS": ("BITPOS zeros 1", "BITPOS text 1", "BITPOS text 0 1 5", "BITPOS text 1 1 15 BIT"),
    "DELEX": ("DELEX text{n}", "DELEX text IFEQ other"),
    "DIGEST": ("DIGEST text",),
    "GET": ("GET text",),
    "GETBIT": ("GETBIT text 7",),
    "GETDEL": ("GETDEL text{n}",),
    "GETEX": ("GETEX text", "GETEX text EX 100000", "GETEX text PERSIST"),
    "GETRANGE": ("GETRANGE text 0 -1", "GETRANGE text 1 3"),
    "GETSET": ("GETSET text {text}",),
    "LCS": ("LCS text other_text", "LCS text other_text LEN", "LCS text other_text IDX"),
    "MGET": ("MGET text other_text missing zeros text",),
    "MSET": ("MSET to {text} text {text}",),
    "MSETEX": ("MSETEX 1 new{n} {text} EX 1000", "MSETEX 2 text {text} other_text {other_text} XX"),
    "MSETNX": ("MSETNX new{n} {text}", "MSETNX text {text}"),
    "PSETEX": ("PSETEX new{n} 100000 {text}",),
    "SET": (
        "SET text {text}",
        "SET text {text} XX",
        "SET text {text} GET",
        "SET text {text} KEEPTTL",
        "SET text {text} IFNE other",
        "SET new{n} {text} NX",
        "SET new{n} {text} EX 1000",
    ),
    "SETBIT": ("SETBIT text 7 1", "SETBIT text{n} 7 1"),
    "SETEX": ("SETEX new{n} 1000 {text}",),
    "SETNX": ("SETNX new{n} {text}", "SETNX text {text}"),
    "SETRANGE": ("SETRANGE text 1 x", "SETRANGE text{n} {count} x"),
    "STRLEN": ("STRLEN text",),
    "SUBSTR": ("SUBSTR text 0 -1", "SUBSTR text 1 3"),
    # All types.
    "COPY": tuple(f"COPY {key} to REPLACE" for key in DUMPED),
    "DEL": tuple(f"DEL {key}{{n}}" for key in DUMPED),
    "DUMP": tuple(f"DUMP {key}" for key in DUMPED),
    "EXISTS": ("EXISTS hash", "EXISTS hash missing zset"),
    "EXPIRE": ("EXPIRE zset 100000", "EXPIRE zset 100000 NX", "EXPIRE hash{n} 100000", "EXPIRE zset{n} -1"),
    "EXPIREAT": ("EXPIREAT zset 4102444800",),
    "EXPIRETIME": ("EXPIRETIME zset",),
    "MEMORY|USAGE": tuple(f"MEMORY USAGE {key}" for key in DUMPED),
    "MOVE": ("MOVE hash{n} 1",),
    "OBJECT|ENCODING": tuple(f"OBJECT ENCODING {key}" for key in DUMPED),
    "OBJECT|IDLETIME": ("OBJECT IDLETIME hash",),
    "OBJECT|REFCOUNT": ("OBJECT REFCOUNT hash",),
    "PERSIST": ("PERSIST hash",),
    "PEXPIRE": ("PEXPIRE zset 100000000",),
    "PEXPIREAT": ("PEXPIREAT zset 4102444800000 GT",),
    "PEXPIRETIME": ("PEXPIRETIME zset",),
    "PTTL": ("PTTL zset",),
    "RENAME": ("RENAME hash{n} new{n}", "RENAME zset{n} to"),
    "RENAMENX": ("RENAMENX hash zset", "RENAMENX hash{n} new{n}"),
    "RESTORE": tuple(f"RESTORE to 0 {{{key}_dump}} REPLACE" for key in DUMPED),
    "SORT": (
        "SORT integer_list",
        "SORT integer_list DESC",
        "SORT integer_list LIMIT 0 3",
        "SORT integer_list BY nosort",
        "SORT integer_list BY missing_*",
        "SORT integer_list GET #",
        "SORT integer_list STORE to",
        "SORT integer_list BY missing_* GET # GET missing_*",
        "SORT integer_list BY counts->m* GET hash->m*",
        "SORT integer_set",
        "SORT list ALPHA",
        "SORT set ALPHA",
        "SORT zset ALPHA",
    ),
    "SORT_RO": ("SORT_RO integer_list",),
    "TOUCH": ("TOUCH hash",),
    "TTL": ("TTL zset", "TTL hash"),
    "TYPE": ("TYPE hash",),
    "UNLINK": tuple(f"UNLINK {key}{{n}}" for key in DUMPED),
}  # fmt: skip
# Sent by each connection before the requests of a command.
OPENINGS: Final = {"HIMPORT|SET": "HIMPORT PREPARE fields {all_names}"}
# The largest number of members of commands that take a time in proportion to its square.
COUNTS_MAX: Final = {"LCS": 1_000}

# Commands without a form, and why.
SKIP: Final = {
    "DECR": "its value is a number",
    "DECRBY": "its value is a number",
    "HIMPORT|DISCARD": "it is about names that a connection has, not about values",
    "HIMPORT|DISCARDALL": "it is about names that a connection has, not about values",
    "HIMPORT|PREPARE": "it is about names that a connection has, not about values",
    "INCR": "its value is a number",
    "INCRBY": "its value is a number",
    "INCRBYFLOAT": "its value is a number",
    "INCREX": "its value is a number",
    "KEYS": "it is about names of keys",
    "MIGRATE": "it needs a second server",
    "OBJECT|FREQ": "it needs another policy of eviction",
    "OBJECT|HELP": "it has no key",
    "PFDEBUG": "it is for tests of the server",
    "PFSELFTEST": "it is for tests of the server",
    "RANDOMKEY": "it is about names of keys",
    "SCAN": "it is about names of keys",
    "WAIT": "it has no key",
    "WAITAOF": "it has no key",
}


def texts_of(row: Row) -> tuple[str, ...]:
    """The forms of a row, whatever the number of members; empty for a row without forms."""
    if row.name in FORMS or row.name in SKIP or row.group not in GROUPS:
        return FORMS.get(row.name, ())
    keys = {group: f"{key}{{n}}" if row.is_write else key for group, key in KEYS.items()}
    return (" ".join([*row.name.split("|"), *made(row, keys)]),)


def all_texts() -> Iterator[tuple[str, str, str]]:
    """The name, the command and the text of every form, in the order of the command table."""
    for row in all_rows():
        if row.handler is None:
            continue
        for number, text in enumerate(texts_of(row)):
            name = row.name.lower().replace("|", "-")
            yield f"{name}-{number + 1}" if number else name, row.name, text


def copied(text: str) -> list[str]:
    """The keys of which each request of the form has a copy."""
    return [key for key in dict.fromkeys(re.findall(r"(\w+)\{n\}", text)) if key in COUNTED_BY]


def is_measured(command: str, text: str, count: int) -> bool:
    """Whether the form is measured with so many members."""
    return count <= COUNTS_MAX.get(command, COPIED_COUNT_MAX if copied(text) else count)


def form_of(command: str, text: str, count: int) -> Form:
    """The form with so many members. Its requests still have `{n}` and dumps."""
    places = places_of(range(min(count, NAMES_MAX)), count)
    fresh = "; ".join(f"COPY {key} {key}{{n}}" for key in copied(text))
    return Form(text.format_map(places), fresh=fresh, opening=OPENINGS.get(command, "").format_map(places))


def fill_texts(count: int) -> Iterator[str]:
    """The requests that make all values, with so many members."""
    for first in range(0, count, NAMES_MAX):
        places = places_of(range(first, min(first + NAMES_MAX, count)), count)
        yield from (text.format_map(places) for text in FILL)
    yield from (text.format_map(places_of(range(0), count)) for text in FILL_ONCE)


@lru_cache(maxsize=4)
def places_of(numbers: range, count: int) -> dict[str, str]:
    """What words in braces are replaced by in requests that name the members of these numbers, of `count` in all."""
    half, shift = numbers[: len(numbers) // 2], count // 2
    names, half_names = ([f"m{number}" for number in part] for part in (numbers, half))
    pairs, half_pairs = ([f"m{number} v{number}" for number in part] for part in (numbers, half))
    lists = {
        "all_names": names,
        "half_names": half_names,
        "other_names": [f"m{number + shift}" for number in numbers],
        "all_integers": map(str, numbers),
        "mixed_integers": [str(number * MIXING_FACTOR % count) for number in numbers],
        "all_indexed": [f"{number} m{number}" for number in numbers],
        "all_pairs": pairs,
        "all_counts": [f"m{number} {number}" for number in numbers],
        "all_scores": [f"{number * 1.5} m{number}" for number in numbers],
        "other_scores": [f"{number} m{number + shift}" for number in numbers],
        "equal_scores": [f"0 m{number}" for number in numbers],
        "all_places": [f"{number * 0.618034 % 5:.5f} {number * 0.414214 % 3:.5f} m{number}" for number in numbers],
        # With their number before them.
        "all_counted": [str(len(names)), *names],
        "half_counted": [str(len(half_names)), *half_names],
        "all_counted_pairs": [str(len(pairs)), *pairs],
        "half_counted_pairs": [str(len(half_pairs)), *half_pairs],
    }
    return {
        "n": "{n}",
        "first": str(numbers.start),
        "count": str(count),
        "half": str(shift),
        "last": str(count - 1),
        "middle": f"m{shift}",
        "text": _text(count, 7),
        "other_text": _text(count, 5),
        **{f"{key}_dump": f"{{{key}_dump}}" for key in DUMPED},
        **{name: " ".join(words) for name, words in lists.items()},
    }


@lru_cache(maxsize=4)
def _text(count: int, period: int) -> str:
    return "".join(str(number % period) for number in range(count))
