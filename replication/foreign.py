"""The commands of Redis whose types no server of this kind has, as a primary sends them: what they write, and where."""

from __future__ import annotations

from typing import Final

from ..protocol.requests import Request

_WRITES: Final = {
    "list": "blmove blmovem linsert lmove lmovem lpop lpush lpushx lrem lset ltrim rpop rpoplpush rpush rpushx",
    "set": "sadd sdiffstore sinterstore smove spop srem sunionstore",
    "sorted set": "geoadd geosearchstore zadd zdiffstore zincrby zinterstore zmpop zpopmax zpopmin zrangestore zrem "
    "zremrangebylex zremrangebyrank zremrangebyscore zunionstore",
    "hash": "hdel hexpire hexpireat hgetdel hgetex hincrby hincrbyfloat hmset hpersist hpexpire hpexpireat "
    "hset hsetex hsetnx",
    "vector set": "vadd vrem vsetattr",
}
TYPES: Final = {name.encode(): type_name for type_name, names in _WRITES.items() for name in names.split()}
# Commands that write no key.
KEYLESS: Final = frozenset((b"module",))


def describe(request: Request) -> str:
    """A command, with the type and the name of the first key that it writes."""
    name = request[0].lower()
    text = request[0].decode("utf-8", "backslashreplace")
    if name in KEYLESS or len(request) < 2:
        return text
    key = request[1].decode("utf-8", "backslashreplace")
    type_name = TYPES.get(name)
    return f"{text} on the {type_name} '{key}'" if type_name else f"{text} on '{key}'"
