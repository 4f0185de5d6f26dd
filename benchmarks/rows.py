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
    reading,
    weights,
)

ROWS = (
    *adding.ROWS,
    *reading.ROWS,
    *pending.ROWS,
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
