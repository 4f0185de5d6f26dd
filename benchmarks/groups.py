"""The rows of the benchmark by what they are about: the panels of a plot."""

from __future__ import annotations

from typing import Final

# The panels of the plot of ratios, in two columns: title, and the names of its rows.
GROUPS: Final = (
    (
        "Adding",
        ("xadd", "xadd-p16", "xadd-maxlen", "xadd-keys", "xadd-1kb"),
    ),
    (
        "Reading",
        ("xrange-10", "xrange-1000", "xread-100", "xreadgroup-1", "xreadgroup-1-p16", "xreadgroup-100", "cycle"),
    ),
    (
        "Pending entries",
        (
            "xack", "xack-100", "xclaim", "xnack", "xautoclaim-justid", "xautoclaim", "xautoclaim-idle",
            "xpending-idle",
        ),
    ),
    (
        "Entries at random in a long stream",
        (
            "random-xrange", "random-xrange-10", "random-xrevrange", "random-xdel", "random-xackdel", "random-xclaim",
        ),
    ),
    (
        "Clients, memory and restart",
        (
            "ping", "wake-up", "producers", "entry-bytes", "small-entry-bytes", "left-entry-bytes", "pending-bytes",
            "reload", "rewrite", "idle",
        ),
    ),
)  # fmt: skip
