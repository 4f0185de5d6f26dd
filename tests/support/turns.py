"""The rule of ORDER-BY, for models of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

ValueT = TypeVar("ValueT")


def waiting_entries(pending: Iterable[int], value_of: Mapping[int, ValueT | None]) -> set[int]:
    """The pending entries that do not have the turn: an earlier one has the same value and is pending as well.

    `value_of` has the entries that are still in the stream. Those with None do not have the field.
    """
    seen: set[ValueT] = set()
    waiting: set[int] = set()
    for entry_id in sorted(pending):
        value = value_of.get(entry_id)
        if value is None:
            continue
        if value in seen:
            waiting.add(entry_id)
        seen.add(value)
    return waiting
