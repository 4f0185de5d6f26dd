"""redis-py's helpers that work by Lua scripts: locks, registered scripts, pipelines of them."""

from __future__ import annotations

import time

import pytest
import redis
import redis.asyncio
from redis.exceptions import LockError, LockNotOwnedError, NoScriptError

from support.servers import Server

# A rate limiter: ARGV are how many are allowed, and in how many milliseconds.
TAKE_A_TOKEN = """
local used = redis.call('INCR', KEYS[1])
if used == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return used <= tonumber(ARGV[1])
"""

# Moves entries from one stream to another.
MOVE = """
local entries = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', ARGV[1])
for _, entry in ipairs(entries) do
    redis.call('XADD', KEYS[2], entry[1], unpack(entry[2]))
    redis.call('XDEL', KEYS[1], entry[1])
end
return #entries
"""


def test_a_lock_is_taken_extended_and_given_back_by_its_owner(client: redis.Redis) -> None:
    lock, other = client.lock("lock", timeout=60), client.lock("lock", timeout=60)
    assert lock.acquire(blocking=False)
    assert not other.acquire(blocking=False)
    assert lock.extend(60)
    assert 60 < client.ttl("lock") <= 120
    assert lock.reacquire()
    assert client.ttl("lock") <= 60
    client.set("lock", "somebody else")
    with pytest.raises(LockNotOwnedError):
        lock.release()
    client.delete("lock")
    with pytest.raises(LockError):
        lock.release()
    with client.lock("lock", timeout=60):
        assert client.exists("lock")
    assert not client.exists("lock")


def test_a_registered_script_is_sent_once_and_called_by_its_digest(client: redis.Redis) -> None:
    take = client.register_script(TAKE_A_TOKEN)
    assert [take(keys=["rate"], args=[2, 60_000]) for _ in range(3)] == [1, 1, None]
    assert client.script_exists(take.sha) == [True]
    client.script_flush()
    with pytest.raises(NoScriptError):
        client.evalsha(take.sha, 1, "rate", 2, 60_000)
    assert take(keys=["rate"], args=[2, 60_000]) is None


def test_scripts_run_in_pipelines_and_transactions(client: redis.Redis) -> None:
    for number in range(5):
        client.xadd("from", {"n": number}, id=f"{number + 1}-1")
    move = client.register_script(MOVE)
    with client.pipeline() as pipe:
        move(keys=["from", "to"], args=[3], client=pipe)
        pipe.xlen("from")
        pipe.xlen("to")
        assert pipe.execute() == [3, 2, 3]
    assert [entry[0] for entry in client.xrange("to")] == ["1-1", "2-1", "3-1"]


def test_errors_of_scripts_become_exceptions(client: redis.Redis) -> None:
    client.set("str", "x")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        client.eval("return redis.call('XLEN', KEYS[1])", 1, "str")
    with pytest.raises(redis.ResponseError, match="Error compiling script"):
        client.script_load("return (")
    with pytest.raises(redis.ResponseError, match="Write commands are not allowed"):
        client.eval_ro("return redis.call('SET', KEYS[1], 'x')", 1, "k")


async def test_the_lock_of_asyncio_waits_for_its_turn(server: Server) -> None:
    async with redis.asyncio.Redis(port=server.port) as own, redis.asyncio.Redis(port=server.port) as other:
        lock = own.lock("lock", timeout=60)
        assert await lock.acquire()
        waiting = other.lock("lock", timeout=60, sleep=0.01, blocking_timeout=30)
        assert not await waiting.acquire(blocking=False)
        await lock.release()
        started = time.monotonic()
        assert await waiting.acquire()
        assert time.monotonic() - started < 30
        await waiting.release()
