"""ACL categories, and the categories of each command."""

from __future__ import annotations

from functools import cache
from typing import Final

from .table import DECLARED, Flag, Row, all_rows

# All ACL categories, in the order in which Redis lists them.
CATEGORIES: Final = (
    "keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "array", "bitmap", "hyperloglog", "geo",
    "stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting",
)  # fmt: skip


@cache
def acl_categories(row: Row) -> tuple[str, ...]:
    """A command's ACL categories: those of its row, and those that follow from its flags."""
    found = set(row.categories)
    flags = row.flags
    if Flag.WRITE in flags:
        found.add("write")
    if Flag.READONLY in flags and "scripting" not in found:
        found.add("read")
    if Flag.ADMIN in flags:
        found |= {"admin", "dangerous"}
    if Flag.PUBSUB in flags:
        found.add("pubsub")
    if Flag.BLOCKING in flags:
        found.add("blocking")
    found.add("fast" if Flag.FAST in flags else "slow")
    return tuple(category for category in CATEGORIES if category in found)


@cache
def rows_in(category: str) -> dict[Row, None]:
    """The rows of a category, in the order in which they were declared. No directive removes or adds any."""
    rows = [each for row in DECLARED.values() for each in (row, *row.subcommands.values())]
    return {row: None for row in rows if category in acl_categories(row)}


def names_in(category: str) -> list[bytes]:
    """The names of the commands of a category that clients may call; none of an unknown one."""
    if category not in CATEGORIES:
        return []
    members = rows_in(category)
    return [row.name_lower for row in all_rows() if row in members]
