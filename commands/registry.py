"""Importing this module fills the command table: every command family is named here, and nowhere else."""

from __future__ import annotations

from . import (
    client_commands,
    client_tracking,
    config,
    connection,
    debug,
    dump,
    expiry,
    group,
    idempotence,
    info,
    introspection,
    keyspace,
    pending,
    server_admin,
    stream,
    stream_info,
    stream_read,
    stream_trim,
    string,
    transaction,
    waiting,
)

FAMILIES = (
    connection,
    client_commands,
    client_tracking,
    transaction,
    keyspace,
    dump,
    expiry,
    string,
    stream,
    stream_trim,
    stream_read,
    group,
    pending,
    stream_info,
    idempotence,
    config,
    info,
    introspection,
    debug,
    server_admin,
    waiting,
)
"""One module per command family, in the order in which the README shows them."""
