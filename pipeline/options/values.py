"""Parsers of option values. Each raises ValueError with a description of the valid values."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime

from ...store.ids import U64_MAX, StreamID, parse_id


def boolean(text: str) -> bool:
    """Parses `true` or `false`."""
    words = {"true": True, "false": False}
    if text.lower() not in words:
        raise ValueError("true or false")
    return words[text.lower()]


def number(low: int, high: int = 2**63 - 1) -> Callable[[str], int]:
    """Returns a parser of whole numbers from `low` to `high`."""

    def parse(text: str) -> int:
        if not text.strip().lstrip("-").isdecimal() or not low <= int(text) <= high:
            raise ValueError(f"a whole number from {low}" + (f" to {high}" if high < 2**63 - 1 else ""))
        return int(text)

    return parse


def seconds(text: str) -> float:
    """Parses a time such as `5`, `0.5`, `5s`, `200ms`, `15m` or `2h`, in seconds."""
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    digits = text.strip().rstrip("hms")
    unit = text.strip()[len(digits) :] or "s"
    try:
        value = float(digits) * units[unit]
    except (ValueError, KeyError):
        raise ValueError("a time such as 500ms, 5s or 15m") from None
    if not 0 <= value < math.inf:
        raise ValueError("a finite time that is not negative")
    return value


def some_seconds(text: str) -> float:
    """Parses a time above zero, in seconds."""
    value = seconds(text)
    if not value:
        raise ValueError("a time above zero")
    return value


def rate(text: str) -> float:
    """Parses a positive number."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise ValueError("a positive number")
    return value


def choice(*words: str) -> Callable[[str], str]:
    """Returns a parser of one of these words, in upper or lower case."""

    def parse(text: str) -> str:
        for word in words:
            if text.lower() == word.lower():
                return word
        raise ValueError(f"one of {', '.join(words)}")

    return parse


def names(text: str) -> tuple[str, ...]:
    """Parses keys separated by commas; `\\,` is a comma within a key."""
    parts = text.replace("\\,", "\0").split(",")
    keys = tuple(dict.fromkeys(part.strip().replace("\0", ",") for part in parts))
    if not all(keys):
        raise ValueError("keys separated by commas")
    return keys


def addresses(text: str) -> tuple[tuple[str, int], ...]:
    """Parses addresses separated by commas: `host:port`, `[::1]:port`."""
    found = []
    for part in text.split(","):
        host, _, port = part.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError("addresses host:port separated by commas")
        found.append((host.strip("[]"), int(port)))
    return tuple(found)


def entry_id(text: str) -> StreamID:
    """Parses an entry ID: `ms-seq` or `ms`."""
    try:
        return parse_id(text.encode())
    except Exception:
        raise ValueError("an entry ID such as 1700000000000-0") from None


def timestamp_ms(text: str) -> int:
    """Parses a Unix time in milliseconds, or ISO 8601, which is UTC if it has no zone."""
    if text.isdecimal():
        return min(int(text), U64_MAX)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("a time such as 1700000000000 or 2026-01-31T12:00:00Z") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def position(*words: str) -> Callable[[str], str | dict[str, StreamID]]:
    """Returns a parser of one of these words, or of JSON that maps keys to entry IDs."""

    def parse(text: str) -> str | dict[str, StreamID]:
        if text.lower() in words:
            return text.lower()
        try:
            pairs = json.loads(text)
            return {str(key): entry_id(str(value)) for key, value in pairs.items()}
        except (ValueError, AttributeError):
            raise ValueError(f'{", ".join(words)} or JSON such as {{"orders": "1700000000000-0"}}') from None

    return parse
