"""Keyspace events: the name of each, and the letter of its class in `notify-keyspace-events`.

Source: Redis 8.10.2, as observed.
"""

from __future__ import annotations

from typing import Final


class Event:
    """One kind of event."""

    __slots__ = ("is_announced_first", "letter", "name")

    def __init__(self, letter: bytes, name: bytes, is_announced_first: bool = False) -> None:
        # Letter of the event's class in `notify-keyspace-events`.
        self.letter: Final = letter
        self.name: Final = name
        # Whether Redis announces it before it notifies clients that cache the key. Most are announced after.
        self.is_announced_first: Final = is_announced_first


DEL: Final = Event(b"g", b"del")
EXPIRE: Final = Event(b"g", b"expire")
PERSIST: Final = Event(b"g", b"persist")
RENAME_FROM: Final = Event(b"g", b"rename_from")
RENAME_TO: Final = Event(b"g", b"rename_to")
COPY_TO: Final = Event(b"g", b"copy_to")
MOVE_FROM: Final = Event(b"g", b"move_from")
MOVE_TO: Final = Event(b"g", b"move_to")
RESTORE: Final = Event(b"g", b"restore")

SET: Final = Event(b"$", b"set")
INCRBY: Final = Event(b"$", b"incrby")
INCRBYFLOAT: Final = Event(b"$", b"incrbyfloat")
SETRANGE: Final = Event(b"$", b"setrange")
APPEND: Final = Event(b"$", b"append")
SETBIT: Final = Event(b"$", b"setbit")
PFADD: Final = Event(b"$", b"pfadd")

HSET: Final = Event(b"h", b"hset")
HDEL: Final = Event(b"h", b"hdel")
HEXPIRE: Final = Event(b"h", b"hexpire")
HPERSIST: Final = Event(b"h", b"hpersist")
HEXPIRED: Final = Event(b"h", b"hexpired")
HINCRBY: Final = Event(b"h", b"hincrby")
HINCRBYFLOAT: Final = Event(b"h", b"hincrbyfloat")

SADD: Final = Event(b"s", b"sadd")
SREM: Final = Event(b"s", b"srem")
SPOP: Final = Event(b"s", b"spop")
SINTERSTORE: Final = Event(b"s", b"sinterstore")
SUNIONSTORE: Final = Event(b"s", b"sunionstore")
SDIFFSTORE: Final = Event(b"s", b"sdiffstore")

ZADD: Final = Event(b"z", b"zadd")
ZINCR: Final = Event(b"z", b"zincr")
ZREM: Final = Event(b"z", b"zrem")
ZREMRANGEBYRANK: Final = Event(b"z", b"zremrangebyrank")
ZREMRANGEBYSCORE: Final = Event(b"z", b"zremrangebyscore")
ZREMRANGEBYLEX: Final = Event(b"z", b"zremrangebylex")
ZPOPMIN: Final = Event(b"z", b"zpopmin")
ZPOPMAX: Final = Event(b"z", b"zpopmax")
ZRANGESTORE: Final = Event(b"z", b"zrangestore")
ZUNIONSTORE: Final = Event(b"z", b"zunionstore")
ZINTERSTORE: Final = Event(b"z", b"zinterstore")
ZDIFFSTORE: Final = Event(b"z", b"zdiffstore")
GEORADIUSSTORE: Final = Event(b"z", b"georadiusstore")
GEOSEARCHSTORE: Final = Event(b"z", b"geosearchstore")
LPUSH: Final = Event(b"l", b"lpush")
RPUSH: Final = Event(b"l", b"rpush")
LPOP: Final = Event(b"l", b"lpop")
RPOP: Final = Event(b"l", b"rpop")
LSET: Final = Event(b"l", b"lset")
LINSERT: Final = Event(b"l", b"linsert")
LREM: Final = Event(b"l", b"lrem")
LTRIM: Final = Event(b"l", b"ltrim")
SORTSTORE: Final = Event(b"l", b"sortstore")

ARSET: Final = Event(b"a", b"arset")
ARMSET: Final = Event(b"a", b"armset")
ARINSERT: Final = Event(b"a", b"arinsert")
ARRING: Final = Event(b"a", b"arring")
ARSEEK: Final = Event(b"a", b"arseek")
ARDEL: Final = Event(b"a", b"ardel")
ARDELRANGE: Final = Event(b"a", b"ardelrange")

XADD: Final = Event(b"t", b"xadd", is_announced_first=True)
XTRIM: Final = Event(b"t", b"xtrim", is_announced_first=True)
XDEL: Final = Event(b"t", b"xdel")
XSETID: Final = Event(b"t", b"xsetid")
XGROUP_CREATE: Final = Event(b"t", b"xgroup-create")
XGROUP_SETID: Final = Event(b"t", b"xgroup-setid")
XGROUP_DESTROY: Final = Event(b"t", b"xgroup-destroy")
XGROUP_CREATECONSUMER: Final = Event(b"t", b"xgroup-createconsumer")
XGROUP_DELCONSUMER: Final = Event(b"t", b"xgroup-delconsumer")

# Not in Redis: what policies do.
XREDELIVER: Final = Event(b"t", b"xredeliver")
XDEADLETTER: Final = Event(b"t", b"xdeadletter")

EXPIRED: Final = Event(b"x", b"expired", is_announced_first=True)
EVICTED: Final = Event(b"e", b"evicted")
KEY_MISS: Final = Event(b"m", b"keymiss")
# The key is new. Announced before the event that created it.
NEW: Final = Event(b"n", b"new")
OVERWRITTEN: Final = Event(b"o", b"overwritten")
TYPE_CHANGED: Final = Event(b"c", b"type_changed")
