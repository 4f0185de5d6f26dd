"""All rows. Each is one function that loads one server and returns one number."""

from __future__ import annotations

from benchmarks import (
    adding,
    commands,
    conditions,
    connections,
    durability,
    files,
    growth,
    long_streams,
    members,
    memory,
    pending,
    random_access,
    reading,
    replicas,
    tails,
    weights,
)

ROWS = (
    *adding.ROWS,
    *reading.ROWS,
    *pending.ROWS,
    *random_access.ROWS,
    *connections.ROWS,
    *memory.ROWS,
    *durability.ROWS,
    *long_streams.ROWS,
    *conditions.ROWS,
    *commands.ROWS,
    *files.ROWS,
    *weights.ROWS,
    *growth.ROWS,
    *members.ROWS,
    *tails.ROWS,
    *replicas.ROWS,
)
