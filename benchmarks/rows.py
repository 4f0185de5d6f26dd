"""All rows. Each is one function that loads one server and returns one number."""

from __future__ import annotations

from benchmarks import (
    adding,
    commands,
    conditions,
    connections,
    durability,
    files,
    growing,
    growth,
    memory,
    pending,
    random_access,
    reading,
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
    *growth.ROWS,
    *conditions.ROWS,
    *commands.ROWS,
    *files.ROWS,
    *weights.ROWS,
    *growing.ROWS,
)
