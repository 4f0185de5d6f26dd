"""What `loglevel verbose` and `debug` add to the server log: connections, and the size of the dataset, as in Redis.

Each function costs one comparison if its level is off. No line shows what a client sent, except its name.
"""

from __future__ import annotations

import logging
from typing import Final

from ...commands.clients.client import Client
from ...commands.clients.client_line import describe
from ...protocol.reader import ProtocolError
from ...store.database import Store
from .logs import VERBOSE

logger = logging.getLogger(__name__)

# Time between two reports on the dataset and the clients.
REPORT_INTERVAL_S: Final = 5


def _line(client: Client, now_ms: int) -> str:
    return describe(client, now_ms).decode("utf-8", "replace")


def log_accepted(client: Client) -> None:
    """A client has connected."""
    if logger.isEnabledFor(VERBOSE):
        what = "connection to " if client.is_unix else ""
        address = client.address.removesuffix(b":0") if client.is_unix else client.address
        logger.log(VERBOSE, "Accepted %s%s", what, address.decode("utf-8", "replace"))


def log_closed_by_peer(client: Client, now_ms: int) -> None:
    """A client has closed its connection."""
    if logger.isEnabledFor(VERBOSE):
        logger.log(VERBOSE, "Client closed connection %s", _line(client, now_ms))


def log_broken(client: Client, error: Exception, now_ms: int) -> None:
    """A connection broke."""
    if logger.isEnabledFor(VERBOSE):
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        logger.log(VERBOSE, "Reading from client: %s %s", reason, _line(client, now_ms))


def log_protocol_error(client: Client, error: ProtocolError, now_ms: int) -> None:
    """A client has sent something that is not the protocol."""
    if logger.isEnabledFor(VERBOSE):
        logger.log(
            VERBOSE, "Protocol error (%s) from client: %s", error.text.decode("utf-8", "replace"), _line(client, now_ms)
        )


def log_idle(client: Client, now_ms: int) -> None:
    """A client was silent for longer than `timeout`."""
    if logger.isEnabledFor(VERBOSE):
        logger.log(VERBOSE, "Closing idle client %s", _line(client, now_ms))


def log_over_query_limit(client: Client, now_ms: int) -> None:
    """The requests of a client are larger than `client-query-buffer-limit`."""
    logger.warning("Closing client that reached max query buffer length: %s", _line(client, now_ms))


def log_sizes(store: Store, clients_count: int, used_size: int) -> None:
    """The keys of each database, the clients and the memory."""
    if logger.isEnabledFor(VERBOSE):
        for db in store.databases:
            if db.keys:
                logger.log(VERBOSE, "DB %d: %d keys (%d volatile).", db.index, len(db.keys), len(db.expires))
        logger.debug("%d clients connected (0 replicas), %d bytes in use", clients_count, used_size)
