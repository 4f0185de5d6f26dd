"""Importing this module fills the command table: every command family is named here, and nowhere else."""

from __future__ import annotations

from . import (
    client_commands,
    config,
    connection,
    debug,
    group,
    idempotence,
    info,
    introspection,
    pending,
    server_admin,
    stream,
    stream_info,
    stream_read,
    stream_trim,
    transaction,
)

FAMILIES = (
    connection,
    client_commands,
    transaction,
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
)
"""One module per command family, in the order in which the README shows them."""
