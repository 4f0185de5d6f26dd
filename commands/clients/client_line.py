"""The line that describes a client in CLIENT LIST and CLIENT INFO."""

from __future__ import annotations

from collections.abc import Sequence

from .client import Client

# Sizes are bytes. Output waits in the transport, as one block: `oll` is 1 while there is any. No empty buffers are
# kept, so `qbuf-free` and `rbs` are 0.
LINE = (
    b"id=%d addr=%b laddr=%b fd=%d name=%b age=%d idle=%d flags=%b db=%d sub=%d psub=%d ssub=%d multi=%d watch=%d "
    b"qbuf=%d qbuf-free=0 argv-mem=%d multi-mem=%d rbs=0 rbp=0 obl=0 oll=%d omem=%d omem-shared=0 omem-unshared=%d "
    b"tot-mem=%d events=%b cmd=%b user=%b redir=%d resp=%d lib-name=%b lib-ver=%b io-thread=0 tot-net-in=%d "
    b"tot-net-out=%d tot-cmds=%d read-events=%d avg-pipeline-len-sum=%d avg-pipeline-len-cnt=%d"
)


def describe(client: Client, now_ms: int, running: Sequence[bytes] = ()) -> bytes:
    """The line without its end. `running` is the request that this client is running."""
    transaction = client.transaction
    queue = transaction.queue
    output_size = client.output_buffer_size
    running_size = sum(map(len, running))
    arguments_size = running_size if client.blocked is None else sum(map(len, client.blocked.argv))
    return LINE % (
        client.id,
        client.address,
        client.local_address,
        client.descriptor,
        client.name,
        max(0, now_ms - client.created_ms) // 1000,
        max(0, now_ms - client.last_active_ms) // 1000,
        client_flags(client),
        client.db.index,
        len(client.channels),
        len(client.patterns),
        len(client.shard_channels),
        -1 if queue is None else len(queue),
        0 if transaction.shows_no_keys else len(transaction.watched),
        client.query_buffer_size,
        arguments_size,
        transaction.queue_size,
        bool(output_size),
        output_size,
        output_size,
        client.held_size + output_size + running_size,
        b"rw" if output_size else b"r",
        client.last_command,
        client.user.name,
        -1 if client.tracking is None else client.tracking.redirect_id,
        client.protocol,
        client.library_name,
        client.library_version,
        client.received_size,
        client.sent_size,
        client.commands_count,
        client.reads_count,
        client.pipeline_length_sum,
        client.reads_count,
    )


def client_flags(client: Client) -> bytes:
    """The letters of `flags=`, in Redis' order."""
    flags = b"O" if client.is_monitor else b"S" if client.is_replica else b"M" if client.is_primary else b""
    if client.is_subscriber:
        flags += b"P"
    if client.transaction.queue is not None:
        flags += b"x"
    if client.blocked is not None or client.is_held:
        flags += b"b"
    if client.tracking is not None:
        flags += b"t"
    if client.is_redirect_broken:
        flags += b"R"
    if client.tracking is not None and client.tracking.is_broadcast:
        flags += b"B"
    if client.transaction.dirty:
        flags += b"d"
    if client.close_after_reply:
        flags += b"c"
    if client.killed:
        flags += b"A"
    if client.is_unix:
        flags += b"U"
    if client.no_evict:
        flags += b"e"
    if client.no_touch:
        flags += b"T"
    return flags or b"N"
