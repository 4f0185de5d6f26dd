"""Showing the first difference of two replies."""

from __future__ import annotations

# One wrong reply often causes many others, so only the first few are shown.
SHOWN_MAX = 12
SHOWN_BEFORE = 60
# Bytes of a reply shown around the first difference.
SHOWN_AFTER = 160


def first_difference(headrace: bytes, redis: bytes) -> str:
    """Both replies around the first byte that differs."""
    parting = (index for index, (ours, theirs) in enumerate(zip(headrace, redis, strict=False)) if ours != theirs)
    same = next(parting, min(len(headrace), len(redis)))
    start = max(same - SHOWN_BEFORE, 0)
    return "\n".join(
        f"  {name:8} {'..' if start else ''}{reply[start : same + SHOWN_AFTER]!r}"
        for name, reply in (("redis", redis), ("headrace", headrace))
    )


def report(title: str, wrong: list[str]) -> str:
    """A failure text: the number of differences, and the first of them."""
    return f"{len(wrong)} differ in {title}:\n" + "\n".join(wrong[:SHOWN_MAX])
