"""The memory of a waiting request, as measured over many requests of one to seven words."""

from __future__ import annotations

from typing import Final

# Bytes of a request without its words: its list, and its place in a queue.
REQUEST_SIZE: Final = 72

# Bytes of a word without its characters: its object, and its place in the list.
WORD_SIZE: Final = 41


def request_size(argv: list[bytes]) -> int:
    """Size of a request; one-letter words are counted as well, although they are shared."""
    return REQUEST_SIZE + WORD_SIZE * len(argv) + sum(map(len, argv))
