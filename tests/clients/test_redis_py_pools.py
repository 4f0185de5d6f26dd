"""redis-py's connection pools, retries and health checks."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import redis
import redis.asyncio
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from support.servers import Server

THREADS_COUNT = 8
CALLS_COUNT = 200
WAIT_S = 30


def kill_all_others(control: redis.Redis) -> int:
    """Cut all other connections; how many there were."""
    return control.client_kill_filter(_type="normal", skipme=True)


def test_threads_share_a_pool(server: Server, protocol: int) -> None:
    pool = redis.BlockingConnectionPool(port=server.port, protocol=protocol, max_connections=3, timeout=WAIT_S)
    client = redis.Redis(connection_pool=pool)
    with ThreadPoolExecutor(THREADS_COUNT) as threads:
        list(threads.map(lambda number: client.xadd("s", {"n": number}), range(CALLS_COUNT)))
    fields = sorted(int(fields[b"n"]) for _, fields in client.xrange("s"))
    assert fields == list(range(CALLS_COUNT))
    assert len(client.client_list()) <= 3
    pool.disconnect()


async def test_tasks_share_a_pool(server: Server, protocol: int) -> None:
    pool = redis.asyncio.BlockingConnectionPool(port=server.port, protocol=protocol, max_connections=3, timeout=WAIT_S)
    async with redis.asyncio.Redis(connection_pool=pool) as client:
        await asyncio.gather(*(client.xadd("s", {"n": number}) for number in range(CALLS_COUNT)))
        assert await client.xlen("s") == CALLS_COUNT
        assert len(await client.client_list()) <= 3
    await pool.aclose()


def test_a_pool_of_other_databases_and_names(server: Server, protocol: int) -> None:
    url = f"redis://127.0.0.1:{server.port}/3?protocol={protocol}&client_name=packer"
    with redis.Redis.from_url(url) as client:
        info = client.client_info()
    assert (int(info["db"]), info["name"], int(info["resp"])) == (3, "packer", protocol)


def test_a_call_is_tried_again_after_its_connection_was_cut(server: Server, protocol: int) -> None:
    retry = Retry(ConstantBackoff(0), 3)
    with (
        redis.Redis(port=server.port, protocol=protocol, retry=retry) as client,
        redis.Redis(port=server.port) as control,
    ):
        before = client.client_id()
        assert kill_all_others(control) == 1
        assert client.xadd("s", {"f": "v"}, id="1-1") == b"1-1"
        assert client.client_id() != before
        assert control.xlen("s") == 1


async def test_an_asyncio_call_is_tried_again_after_its_connection_was_cut(server: Server, protocol: int) -> None:
    retry = redis.asyncio.retry.Retry(ConstantBackoff(0), 3)
    with redis.Redis(port=server.port) as control:
        async with redis.asyncio.Redis(port=server.port, protocol=protocol, retry=retry) as client:
            before = await client.client_id()
            assert kill_all_others(control) == 1
            assert await client.xadd("s", {"f": "v"}, id="1-1") == b"1-1"
            assert await client.client_id() != before


def test_an_idle_connection_is_checked_before_it_is_used(server: Server, protocol: int) -> None:
    """A health check is a PING; a connection that fails it is made anew, so that the call itself is sent once."""
    with (
        redis.Redis(port=server.port, protocol=protocol, health_check_interval=1e-9) as client,
        redis.Redis(port=server.port) as control,
    ):
        client.xadd("s", {"f": "v"}, id="1-1")
        control.config_resetstat()
        assert client.xlen("s") == 1
        assert control.info("commandstats")["cmdstat_ping"]["calls"] == 1
        kill_all_others(control)
        assert client.xadd("s", {"f": "v"}, id="2-1") == b"2-1"
