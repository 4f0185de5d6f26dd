"""ACL categories, and the categories of each command."""

from __future__ import annotations

from functools import cache
from typing import Final

from .table import Flag, Row

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
