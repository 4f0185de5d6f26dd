"""Members that are looked at before all others where a few are wanted."""

from __future__ import annotations

from typing import Final

# So many times as many as are wanted.
SHARE: Final = 2
# So many times as many as that must be there: to find each by its index takes longer than to look at the next one.
REST: Final = 32
# More that are wanted take long to look at.
WANTED_MAX: Final = 1_000


def samples(size: int, wanted: int) -> list[list[int]]:
    """The indexes of the first of `size` members, and of some that are spread over all: the first may have in common
    what others have not. There are none if members are few, or many are wanted."""
    if wanted > WANTED_MAX or size < REST * SHARE * wanted:
        return []
    count = SHARE * wanted
    return [list(range(count)), list(range(0, size, size // count))]
