"""The transfers of MIGRATE: each has a connection of its own to the other server. Other work continues meanwhile."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from ...commands.clients.client import Client
from ...commands.execution.migration import Order, Outcome

# Bytes that are sent at a time: the timeout applies to each.
PIECE_SIZE: Final = 64 * 1024
# Before a transfer that has ended during a pause of writes is asked for again.
PAUSE_S: Final = 0.05

CONNECTING: Final = b"connecting to the client"
WRITING: Final = b"writing to target instance"
READING: Final = b"reading to target instance"


class Migrations:
    """The transfers of one server: `commands.execution.services.Migrations`. `run_again` runs the command of a client
    whose transfer has ended, and returns False while it must not run; `finish_turn` sends its reply. `call_soon` calls
    a function when the running command has ended, if clients are served.
    """

    def __init__(
        self,
        run_again: Callable[[Client], bool],
        finish_turn: Callable[[], None],
        call_soon: Callable[[Callable[[], None]], None],
    ) -> None:
        self._call_soon = call_soon
        self._run_again = run_again
        self._finish_turn = finish_turn
        self._tasks: set[asyncio.Task[None]] = set()
        # Transfers that have ended, by the ID of the client.
        self._finished: dict[int, tuple[Order, Outcome]] = {}

    def begin(self, client: Client, order: Order) -> None:
        """Begin a transfer."""
        self._call_soon(partial(self._start, client, order))

    def _start(self, client: Client, order: Order) -> None:
        task = asyncio.get_running_loop().create_task(self._carry_out(client, order))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def take(self, client: Client) -> tuple[Order, Outcome] | None:
        """The transfer of a client that has ended, once; None if there is none."""
        return self._finished.pop(client.id, None)

    def stop(self) -> None:
        """End all transfers."""
        for task in self._tasks:
            task.cancel()

    async def _carry_out(self, client: Client, order: Order) -> None:
        try:
            self._finished[client.id] = order, await transfer(order)
            while not self._run_again(client):
                await asyncio.sleep(PAUSE_S)
        finally:
            # The client may have gone.
            self._finished.pop(client.id, None)
            order.release()
        self._finish_turn()


async def transfer(order: Order) -> Outcome:
    """Send keys to another server, and take its answers."""
    outcome = Outcome()
    timeout_s = order.timeout_ms / 1000
    try:
        host = order.host.decode()
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, order.port), timeout_s)
    except (TimeoutError, socket.gaierror, ValueError):
        outcome.failure = CONNECTING
        return outcome
    except OSError:
        # As in Redis: that a connection is refused shows when something is sent.
        outcome.failure = WRITING
        return outcome
    try:
        outcome.failure = WRITING
        for request in order.opening:
            await _send(writer, request, timeout_s)
        for sent in order.keys:
            await _send(writer, order.request(sent), timeout_s)
        outcome.failure = READING
        refusal: bytes | None = None
        for _ in order.opening:
            own_refusal = await _refusal(reader, timeout_s)
            refusal = refusal or own_refusal
        for _ in order.keys:
            own_refusal = await _refusal(reader, timeout_s)
            outcome.refusals.append(refusal or own_refusal)
        outcome.failure = b""
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()
    return outcome


async def _send(writer: asyncio.StreamWriter, request: bytes, timeout_s: float) -> None:
    """Send a request. Raises OSError if the other server takes nothing in time."""
    for start in range(0, len(request), PIECE_SIZE):
        writer.write(request[start : start + PIECE_SIZE])
        await asyncio.wait_for(writer.drain(), timeout_s)


async def _refusal(reader: asyncio.StreamReader, timeout_s: float) -> bytes | None:
    """The next answer if it is an error, without its first byte. Raises OSError if there is none in time, or one that
    RESTORE has not: no Redis listens there, and a key that it did not take must not be deleted here.
    """
    line = await asyncio.wait_for(reader.readuntil(b"\r\n"), timeout_s)
    if line.startswith(b"-"):
        return line[1:-2]
    if not line.startswith(b"+"):
        raise ConnectionError("what listens there does not speak RESP")
    return None
