"""The option tables of docs/pipeline.md: `python -m headrace.pipeline.options` prints them as Markdown."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any, cast

from .kinds import (
    BatchOptions,
    Endpoint,
    QueueOptions,
    RangeOptions,
    ReadOptions,
    SettleOptions,
    StreamOptions,
    WriteOptions,
    option_name,
)

# The classes of options, each with the class whose options its table does not repeat.
GROUPS: dict[str, tuple[type, type | None]] = {
    "connection": (Endpoint, None),
    "reading": (ReadOptions, Endpoint),
    "ranges": (RangeOptions, ReadOptions),
    "batch": (BatchOptions, RangeOptions),
    "log": (StreamOptions, RangeOptions),
    "queue": (QueueOptions, ReadOptions),
    "write": (WriteOptions, Endpoint),
    "settle": (SettleOptions, Endpoint),
}


def table(name: str) -> list[str]:
    """Returns the lines of an option table in Markdown."""
    kind, parent = GROUPS[name]
    shared = {row.name for row in fields(cast(Any, parent))} if parent else set()
    lines = ["| option | default | meaning |", "|---|---|---|"]
    for row in fields(cast(Any, kind)):
        if row.name not in shared:
            lines.append(f"| `{option_name(row.name)}` | {_shown(row)} | {row.metadata['meaning']} |")
    return lines


def _shown(row: Field[Any]) -> str:
    if row.default is MISSING or row.default is None or row.default in ((), ""):
        return ""
    if isinstance(row.default, bool):
        return str(row.default).lower()
    if isinstance(row.default, float):
        return f"{row.default:g}s"
    return str(row.default)


if __name__ == "__main__":
    for group in GROUPS:
        print(f"{group}\n\n" + "\n".join(table(group)) + "\n")
