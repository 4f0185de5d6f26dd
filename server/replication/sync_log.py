"""What the server log says of replicas that ask for synchronization, in Redis' words, which its tests wait for."""

from __future__ import annotations

import logging

from ...commands.clients.client import Client
from ...commands.clients.replica import Replica
from ...commands.core.numbers import integer
from ...replication.history import History
from ...store.errors import GenericError
from .link import replica_address

logger = logging.getLogger(__name__)


def name_of(replica: Replica, client: Client) -> str:
    """How the server log names a replica: the address and the port at which clients reach it."""
    host = replica_address(replica, client).decode("utf-8", "replace")
    return f"{host}:{replica.port or '<unknown-replica-port>'}"


def read_wanted_offset(name: str, word: bytes) -> int:
    """The first byte that a replica asks for. The request is logged. Raises GenericError."""
    logger.info("Replica %s asks for synchronization", name)
    try:
        return integer(word)
    except GenericError:
        logger.info("Replica %s asks for synchronization but with a wrong offset", name)
        raise


def log_new_backlog(history: History) -> None:
    """The stream begins."""
    logger.info(
        "Replication backlog created, my new replication IDs are '%s' and '%s'", history.replid, history.former_id
    )


def log_full_sync(name: str, history: History, replid: str, wanted_offset: int) -> None:
    """A replica cannot continue, or does not want to (`?`)."""
    asked = replid.lower()
    if replid == "?":
        logger.info("Full resync requested by replica %s ", name)
    elif asked not in (history.replid, history.former_id):
        logger.info(
            "Partial resynchronization not accepted: Replication ID mismatch (Replica asked for '%s', my replication "
            "IDs are '%s' and '%s')",
            replid, history.replid, history.former_id,
        )  # fmt: skip
    elif not history.includes(replid, wanted_offset):
        logger.info(
            "Partial resynchronization not accepted: Requested offset for second ID was %d, but I can reply up to %d",
            wanted_offset, history.former_end,
        )  # fmt: skip
    else:
        logger.info(
            "Unable to partial resync with replica %s for lack of backlog (Replica request was: %d).",
            name, wanted_offset,
        )  # fmt: skip
        if wanted_offset > history.offset:
            logger.warning(
                "Warning: replica %s tried to PSYNC with an offset that is greater than the master replication offset.",
                name,
            )
