"""A worker without code for retries: the server delivers again, waits between attempts, and keeps dead letters.

    pip install 'redis>=8'
    REDIS_URL=redis://127.0.0.1:6379 python examples/simple_worker.py
    redis-cli XADD orders '*' item tea quantity 2

What becomes of an order:

    packed                   acknowledged
    can never be packed      released as FATAL: the server moves it to the stream `orders:dead`
    cannot be packed now     released as FAIL: the server delivers it again, after a pause that grows
    failed DELIVERIES_MAX times             the server moves it to `orders:dead`
    left by a worker that died or hangs     the server gives it to another worker

docs/policies.md explains the options. Redis refuses `XGROUP CONFIG`; examples/worker.py works with both servers.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

try:
    import redis
except ImportError:
    sys.exit("This worker needs redis-py: pip install 'redis>=8'")

STREAM, GROUP, DEAD_STREAM = "orders", "packers", "orders:dead"
CONSUMER = f"{socket.gethostname()}-{os.getpid()}"
DELIVERIES_MAX = 5
# What the server does with orders that are delivered and not acknowledged. Times are in milliseconds.
POLICY = {
    "REDELIVER": os.environ.get("REDELIVER_MS", "30000"),
    "GUARD": "yes",
    "LEASE-MAX": 600_000,
    "BACKOFF": os.environ.get("BACKOFF_MS", "1000,10000,60000"),
    "MAX-DELIVERIES": DELIVERIES_MAX,
    "DEADLETTER": DEAD_STREAM,
    "ON-DELCONSUMER": "release",
}

stopping = False


def pack(fields: dict[str, str]) -> None:
    """The work itself. Raises ValueError for an order that can never be packed."""
    quantity = int(fields.get("quantity", ""))
    if fields.get("item") == "glass":
        raise OSError("the glass is not here yet")
    print(f"{CONSUMER} packs {quantity} x {fields['item']}", flush=True)


def prepare(client: redis.Redis) -> None:
    """Create the group if it is missing, and set its policy. Doing so again changes nothing."""
    try:
        client.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    except redis.ResponseError as error:
        if not str(error).startswith("BUSYGROUP"):
            raise
    client.execute_command("XGROUP CONFIG", STREAM, GROUP, *(word for pair in POLICY.items() for word in pair))


def stop(*_: object) -> None:
    """Let the worker end after the order that it is packing."""
    global stopping
    stopping = True


def main() -> None:
    """Work until SIGTERM or SIGINT."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    # One connection: while it is open, the server gives the orders of this worker to no other one.
    with redis.Redis.from_url(url, protocol=2, decode_responses=True).client() as client:
        prepare(client)
        print(f"{CONSUMER} is ready", flush=True)
        while not stopping:
            reply = client.xreadgroup(GROUP, CONSUMER, {STREAM: ">"}, count=1, block=2000)
            for _, entries in reply or ():
                for entry_id, fields in entries:
                    try:
                        pack(fields)
                    except ValueError:
                        client.xnack(STREAM, GROUP, "FATAL", entry_id)
                    except Exception as error:
                        print(f"{CONSUMER} could not pack {entry_id}: {error!r}", flush=True)
                        client.xnack(STREAM, GROUP, "FAIL", entry_id)
                    else:
                        client.xack(STREAM, GROUP, entry_id)
        # Orders that it still has are released: with ON-DELCONSUMER nothing is lost.
        client.xgroup_delconsumer(STREAM, GROUP, CONSUMER)


if __name__ == "__main__":
    try:
        main()
    except redis.RedisError as error:
        sys.exit(f"{CONSUMER} ends: {error}")
