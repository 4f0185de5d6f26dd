"""PSYNC, SYNC and REPLCONF: what replicas send to their primary."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...persistence.rows.streams import CAN_USE, CAPABILITY
from ...protocol.replies import OK, Reply
from ...store.errors import GenericError, shown, shown_last, syntax_error
from ..clients.replica import Replica
from ..core.numbers import INT64_MAX, integer, integer_between
from ..core.table import Argument, Flag, command

if TYPE_CHECKING:
    from ..execution.context import Context

SYNC_FLAGS: Final = Flag.ADMIN | Flag.NOSCRIPT | Flag.NO_ASYNC_LOADING | Flag.NO_MULTI

NO_REPLY: Final[tuple[bytes, ...]] = ()

# Redis keeps the address in a buffer of this size, with the end of the text.
ADDRESS_SIZE_MAX: Final = 255
NOT_A_SWITCH: Final = b"value is out of range, value must between 0 and 1"


@command(
    "PSYNC",
    arity=-3,
    flags=SYNC_FLAGS,
    group="server",
    since="2.8.0",
    summary="Lets the client follow as a replica, from its place in the history or after a snapshot.",
    complexity="O(N) for a snapshot, where N is the size of the dataset; O(1) to continue",
    arguments=(Argument("replicationid"), Argument("offset", "integer")),
)
def psync(context: Context, argv: list[bytes]) -> Reply:
    """PSYNC replid offset

    Answers +CONTINUE, or +FULLRESYNC when the snapshot begins, outside of the order of replies. With FAILOVER, this
    replica first becomes the primary of the client. Raises ReplyError.
    Source: Redis 2.8; the dialogue is that of Redis 8.10.
    """
    client = context.client
    if client.is_replica:
        return NO_REPLY
    if len(argv) > 3 and argv[3].upper() == b"FAILOVER":
        context.server.failover.accept(client, argv[1])
    return context.server.replicas.psync(client, argv[1], argv[2])


@command(
    "SYNC",
    arity=1,
    flags=SYNC_FLAGS,
    group="server",
    since="1.0.0",
    summary="Lets the client follow as a replica, after a snapshot.",
    complexity="O(N) where N is the size of the dataset",
)
def sync(context: Context, argv: list[bytes]) -> Reply:
    """SYNC. Sends a snapshot, and then the stream. Raises GenericError. Source: Redis 1.0."""
    return context.server.replicas.sync(context.client)


@command(
    "REPLCONF",
    arity=-1,
    flags=Flag.ADMIN | Flag.NOSCRIPT | Flag.LOADING | Flag.STALE | Flag.ALLOW_BUSY,
    group="server",
    since="3.0.0",
    summary="Says what a replica can do and what it has: replicas send it.",
    complexity="O(1)",
)
def replconf(context: Context, argv: list[bytes]) -> Reply:
    """REPLCONF

    Options that a replica confirms with (ACK, FACK, GETACK) have no reply. Options before a wrong one stay in force.
    Raises GenericError. Source: Redis 3.0.
    """
    if len(argv) % 2 == 0:
        raise syntax_error()
    client = context.client
    if client.replica is None:
        client.replica = Replica()
    for index in range(1, len(argv), 2):
        option = argv[index].lower()
        if option == b"ack":
            return _confirm(context, argv)
        if option == b"getack":
            return NO_REPLY
        setter = SETTERS.get(option)
        if setter is None:
            raise GenericError(b"Unrecognized REPLCONF option: %b" % shown_last(argv[index]))
        setter(client.replica, argv[index + 1])
    return OK


def _confirm(context: Context, argv: list[bytes]) -> Reply:
    """REPLCONF ACK offset [FACK offset]. Words that are no numbers are ignored, as in Redis."""
    options = {word.lower(): value for word, value in zip(argv[1::2], argv[2::2], strict=True)}
    try:
        offset = integer(options[b"ack"])
        synced_offset = integer(options[b"fack"]) if b"fack" in options else None
    except GenericError:
        return NO_REPLY
    context.server.replicas.confirm(context.client, offset, synced_offset)
    return NO_REPLY


def _set_port(replica: Replica, value: bytes) -> None:
    replica.port = integer(value)


def _set_address(replica: Replica, value: bytes) -> None:
    if len(value) > ADDRESS_SIZE_MAX:
        raise GenericError(b"REPLCONF ip-address provided by replica instance is too long: %d bytes" % len(value))
    replica.address = value


def _add_capability(replica: Replica, value: bytes) -> None:
    """What the replica understands; unknown words are from later versions."""
    capability = value.lower()
    replica.accepts_eof = replica.accepts_eof or capability == b"eof"
    replica.accepts_new_id = replica.accepts_new_id or capability == b"psync2"
    replica.takes_rows = replica.takes_rows or (CAN_USE and capability == CAPABILITY)


def _set_only_snapshot(replica: Replica, value: bytes) -> None:
    replica.wants_only_snapshot = bool(_switch(value))


def _set_filter(replica: Replica, value: bytes) -> None:
    """What the snapshot shall have besides nothing."""
    words = value.split()
    for word in words:
        if word.lower() != b"functions":
            raise GenericError(b"Unsupported rdb-filter-only option: %b" % shown(word))
    replica.wants_no_keys, replica.wants_no_libraries = True, not words


def _switch(value: bytes) -> int:
    return integer_between(value, 0, 1, NOT_A_SWITCH)


def _note_switch(replica: Replica, value: bytes) -> None:
    """A wish that a snapshot here need not heed: it always has a checksum, and is compressed as the directive says."""
    _switch(value)


def _refuse_channel(replica: Replica, value: bytes) -> None:
    raise GenericError(b"Unrecognized RDB client id: %d" % integer_between(value, 0, INT64_MAX, NOT_A_SWITCH))


def _refuse_compression(replica: Replica, value: bytes) -> None:
    integer(value)
    raise GenericError(b"Master has not enabled replication compression")


SETTERS: Final[dict[bytes, Callable[[Replica, bytes], None]]] = {
    b"listening-port": _set_port,
    b"ip-address": _set_address,
    b"capa": _add_capability,
    b"rdb-only": _set_only_snapshot,
    b"rdb-filter-only": _set_filter,
    b"rdb-channel": _note_switch,
    b"rdb-no-compress": _note_switch,
    b"rdb-no-checksum": _note_switch,
    b"main-ch-client-id": _refuse_channel,
    b"compression": _refuse_compression,
}
