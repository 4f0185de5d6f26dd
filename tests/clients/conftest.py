"""Fixtures: redis-py clients of every kind, on each server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import redis
import redis.asyncio

from support.servers import Server


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def protocol(request: pytest.FixtureRequest) -> int:
    """The protocol version the client asks for."""
    version: int = request.param
    return version


@pytest.fixture
def client(server: Server, protocol: int) -> Iterator[redis.Redis]:
    """A synchronous client with default settings otherwise: its whole connect sequence runs."""
    with redis.Redis(port=server.port, protocol=protocol, decode_responses=True) as connected:
        yield connected


@pytest.fixture
async def async_client(server: Server, protocol: int) -> AsyncIterator[redis.asyncio.Redis]:
    """An asyncio client."""
    async with redis.asyncio.Redis(port=server.port, protocol=protocol, decode_responses=True) as connected:
        yield connected
