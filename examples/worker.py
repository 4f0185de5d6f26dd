"""A worker on a stream of orders, with redis-py 8: it reads, claims what others abandoned, acknowledges and releases.

    pip install 'redis>=8'
    REDIS_URL=redis://127.0.0.1:6379 python examples/worker.py
    REDIS_SENTINELS=10.0.0.1:26379,10.0.0.2:26379 REDIS_MASTER=mymaster python examples/worker.py
    REDIS_URL=redis://user:password@ REDIS_SENTINELS=.. REDIS_SENTINEL_PASSWORD=another python examples/worker.py
    REDIS_URL='rediss://user:password@?ssl_ca_certs=ca.crt' REDIS_SENTINELS=.. python examples/worker.py
    redis-cli XADD orders '*' item tea quantity 2

What becomes of an order:

    packed                 acknowledged
    can never be packed    released as FATAL; the next worker moves it to the stream `orders:dead`
    cannot be packed now   left pending, and claimed by any worker once it has been idle for CLAIM_IDLE_MS
    tried too often        moved to `orders:dead`
    not begun at SIGTERM   released as SILENT: another worker gets it at once, and it does not count as a delivery
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import Any

try:
    import redis
    from redis.backoff import ExponentialBackoff, NoBackoff
    from redis.connection import SSLConnection, parse_url
    from redis.retry import Retry
    from redis.sentinel import MasterNotFoundError, Sentinel, SentinelManagedConnection
except ImportError:
    sys.exit("This worker needs redis-py: pip install 'redis>=8'")

STREAM = "orders"
DEAD_STREAM = "orders:dead"
GROUP = "packers"
CONSUMER = f"{socket.gethostname()}-{os.getpid()}"

COUNT = 10
# How long a read waits; also how late a SIGTERM may be noticed while the server is there. Docker gives ten seconds.
BLOCK_MS = 2_000
# After this time, a delivered order counts as abandoned: longer than packing takes.
CLAIM_IDLE_MS = int(os.environ.get("CLAIM_IDLE_MS", "30000"))
DELIVERIES_MAX = 5


class SpokenBackoff(ExponentialBackoff):
    """Waits longer after each failure, and says once that the worker waits. A worker that stops does not wait."""

    def compute(self, failures: int) -> float:
        """Seconds until the next try. Raises SystemExit if the worker is to stop."""
        if failures == 1:
            reason = sys.exc_info()[1]  # of the call that failed
            print(f"{CONSUMER} cannot reach the server, and tries again for a minute: {reason}", flush=True)
        if stopping:
            sys.exit(f"{CONSUMER} ends without its server; others claim the orders that it holds")
        return super().compute(failures)


# Retry for about a minute while the server restarts.
PATIENCE = Retry(SpokenBackoff(cap=5, base=0.1), retries=20)

stopping = False


class FoundConnection(SentinelManagedConnection):
    """Asks the Sentinels before each new try: redis-py 8.1 continues with the address of the lost server."""

    def send_packed_command(self, *arguments: Any, **options: Any) -> None:
        """Send a command to the primary. Raises redis.ConnectionError."""
        self.connect()  # does nothing while there is a connection
        super().send_packed_command(*arguments, **options)

    def read_response(self, *arguments: Any, **options: Any) -> Any:
        """Read a reply. A primary that lacks replicas may be a former one, or one that they have not found yet: raises
        redis.ConnectionError, so that the command is tried again.
        """
        try:
            return super().read_response(*arguments, **options)
        except redis.ResponseError as error:
            if str(error).startswith("NOREPLICAS"):
                raise redis.ConnectionError(str(error)) from error
            raise


class FoundSSLConnection(FoundConnection, SSLConnection):
    """A connection over TLS to the primary that the Sentinels name."""


class SpokenSentinel(Sentinel):
    """Says why the primary is not found: redis-py 8.1 leaves the reason out."""

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """The address of the primary. Raises redis.ConnectionError and redis.TimeoutError."""
        try:
            return super().discover_master(service_name)
        except MasterNotFoundError:
            self.sentinels[0].ping()  # raises the reason if it cannot be reached
            raise redis.ConnectionError(f"the Sentinels name no primary {service_name} that is up") from None


def connect() -> redis.Redis:
    """A client of the server in REDIS_URL, or of the primary that the Sentinels in REDIS_SENTINELS name. Then REDIS_URL
    has the user, the password and the database alone, and for TLS (`rediss://`) the `ssl_` options of redis-py, which
    are used with the Sentinels too.
    """
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    options: dict[str, Any] = {"protocol": 2, "decode_responses": True, "retry": PATIENCE}
    sentinels = os.environ.get("REDIS_SENTINELS")
    if not sentinels:
        return redis.Redis.from_url(url, **options)
    known = parse_url(url)
    has_tls = known.get("connection_class") is SSLConnection
    tls = {name: value for name, value in known.items() if name.startswith("ssl_")}
    options |= tls | {name: known[name] for name in ("username", "password", "db") if name in known}
    addresses = [address.rsplit(":", 1) for address in sentinels.split(",")]
    # A primary that hangs is left after the time of a read, and some more.
    found = FoundSSLConnection if has_tls else FoundConnection
    options |= {"connection_class": found, "socket_timeout": BLOCK_MS / 1000 + 3}
    of_sentinels = {"password": os.environ.get("REDIS_SENTINEL_PASSWORD"), "ssl": has_tls, **tls}
    # Where a Sentinel does not answer, the next one is asked at once.
    of_sentinels |= {"socket_timeout": 1, "retry": Retry(NoBackoff(), 0)}
    manager = SpokenSentinel(addresses, sentinel_kwargs=of_sentinels, socket_timeout=1)
    return manager.master_for(os.environ.get("REDIS_MASTER", "mymaster"), **options)


def pack(fields: dict[str, str]) -> None:
    """The work itself. Raises ValueError for an order that can never be packed."""
    quantity = int(fields.get("quantity", ""))
    print(f"{CONSUMER} packs {quantity} x {fields['item']}", flush=True)


def read(client: redis.Redis) -> list[tuple[str, dict[str, str], int, int]]:
    """The next orders, abandoned and released ones first: (entry ID, fields, idle ms, deliveries before this one)."""
    try:
        reply = client.xreadgroup(
            GROUP, CONSUMER, {STREAM: ">"}, count=COUNT, block=BLOCK_MS, claim_min_idle_time=CLAIM_IDLE_MS
        )
    except redis.ResponseError as error:
        if not str(error).startswith("UNBLOCKED"):  # the server has become a replica, and has closed the connection
            raise
        return []
    return [tuple(entry) for _, entries in reply or () for entry in entries]


def handle(client: redis.Redis, entry_id: str, fields: dict[str, str], deliveries_count: int) -> None:
    """Pack one order, and say so to the group."""
    if deliveries_count >= DELIVERIES_MAX:
        with client.pipeline(transaction=True) as pipe:
            pipe.xadd(DEAD_STREAM, {**fields, "order": entry_id})
            pipe.xack(STREAM, GROUP, entry_id)
            pipe.execute()
        print(f"{CONSUMER} gives up {entry_id}", flush=True)
        return
    try:
        pack(fields)
    except ValueError:
        client.xnack(STREAM, GROUP, "FATAL", entry_id)
    except Exception as error:
        print(f"{CONSUMER} could not pack {entry_id}: {error!r}", flush=True)
    else:
        client.xack(STREAM, GROUP, entry_id)


def main() -> None:
    """Work until SIGTERM or SIGINT."""
    client = connect()
    try:
        client.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    except redis.ResponseError as error:
        if not str(error).startswith("BUSYGROUP"):
            raise

    def stop(*_: object) -> None:
        global stopping
        stopping = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    print(f"{CONSUMER} is ready", flush=True)
    while not stopping:
        entries = read(client)
        while entries and not stopping:
            entry_id, fields, _, deliveries_count = entries.pop(0)
            handle(client, entry_id, fields, deliveries_count)
        if entries:
            client.xnack(STREAM, GROUP, "SILENT", *(entry[0] for entry in entries))
    # A consumer without pending orders leaves no trace in the group; one with some must stay, or they would be lost.
    if not client.xpending_range(STREAM, GROUP, "-", "+", 1, consumername=CONSUMER):
        client.xgroup_delconsumer(STREAM, GROUP, CONSUMER)


if __name__ == "__main__":
    try:
        main()
    except (redis.RedisError, ValueError) as error:
        sys.exit(f"{CONSUMER} ends: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{CONSUMER} ends before it is ready")
