"""Importing this module fills the command table: every command family is named here, and nowhere else."""

from __future__ import annotations

from .admin import (
    acl,
    config,
    debug,
    info,
    introspection,
    latency,
    lolwut,
    memory,
    module,
    replication,
    server_admin,
    slow_log,
)  # fmt: skip
from .connections import client_commands, client_list, connection, pubsub, transaction, waiting
from .connections import tracking_commands as client_tracking
from .keyspace import dump, expiry, flushing
from .keyspace import keys as keyspace
from .keyspace import move as keyspace_move
from .keyspace import object as object_commands
from .keyspace import scan as keyspace_scan
from .scripting import commands as scripts
from .streams import add as stream_add
from .streams import claim, group, group_read, idempotence, pending, release
from .streams import entries as stream
from .streams import info as stream_info
from .streams import read as stream_read
from .streams import trim as stream_trim
from .strings import bounded as string_bounded
from .strings import compare as string_compare
from .strings import counter as string_counter
from .strings import many as string_many
from .strings import part as string_part
from .strings import values as string

# One module per command family, in the order in which COMMAND lists what they serve.
FAMILIES = (
    connection,
    client_commands,
    client_list,
    client_tracking,
    transaction,
    keyspace,
    keyspace_scan,
    keyspace_move,
    flushing,
    object_commands,
    dump,
    expiry,
    string,
    string_counter,
    string_bounded,
    string_part,
    string_many,
    string_compare,
    stream_add,
    stream,
    stream_trim,
    stream_read,
    group_read,
    group,
    pending,
    release,
    claim,
    stream_info,
    idempotence,
    pubsub,
    scripts,
    config,
    info,
    introspection,
    acl,
    debug,
    server_admin,
    slow_log,
    latency,
    memory,
    replication,
    module,
    lolwut,
    waiting,
)
