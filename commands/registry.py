"""Importing this module fills the command table: every command family is named here, once."""

from __future__ import annotations

from importlib import import_module
from typing import Final

# The modules that declare commands, in the order in which COMMAND lists them.
FAMILIES: Final = (
    "admin.acl",
    "admin.config",
    "admin.debug",
    "admin.failover",
    "admin.hot_keys",
    "admin.info",
    "admin.introspection",
    "admin.latency",
    "admin.lolwut",
    "admin.memory",
    "admin.module",
    "admin.replica_sync",
    "admin.replication",
    "admin.server_admin",
    "admin.slow_log",
    "connections.transaction",
    "connections.connection",
    "connections.client_commands",
    "connections.client_list",
    "connections.tracking_commands",
    "connections.pubsub",
    "connections.waiting",
    # Before hashes, which add to numbers as these do.
    "strings.values",
    "strings.counter",
    "strings.bounded",
    "strings.compare",
    "strings.many",
    "strings.part",
    "hashes.fields",
    "hashes.counters",
    "hashes.picks",
    "hashes.expiry",
    "hashes.options",
    "keyspace.keys",
    "keyspace.dump",
    "keyspace.expiry",
    "keyspace.flushing",
    "keyspace.move",
    "keyspace.object",
    "keyspace.scan",
    "scripting.commands",
    "sets.members",
    "sets.picks",
    "sets.algebra",
    "streams.trim",
    "streams.entries",
    "streams.add",
    "streams.pending",
    "streams.ownership",
    "streams.claim",
    "streams.group",
    "streams.policy",
    "streams.group_read",
    "streams.idempotence",
    "streams.release",
    "streams.redrive",
    "streams.info",
    "streams.policy_info",
    "streams.read",
)

for _family in FAMILIES:
    import_module(f"{__package__}.{_family}")
