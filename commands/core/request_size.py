"""What a request takes in memory while it waits, as measured over many of one to seven words."""

from __future__ import annotations

from typing import Final

# Bytes of a request beside its words: its list, and its place in a queue.
REQUEST_SIZE: Final = 72

# Bytes of a word beside its own: its object, and its place in the list.
WORD_SIZE: Final = 41


def request_size(argv: list[bytes]) -> int:
    """Bytes that a request takes; those of one-letter words, which are shared, are counted as well."""
    return REQUEST_SIZE + WORD_SIZE * len(argv) + sum(map(len, argv))
