"""Keys and arguments that several commands on lists share, as COMMAND DOCS prints them."""

from __future__ import annotations

from typing import Final

from ..core.table import Argument, KeySpec

_SIDES: Final = (
    Argument("left", "pure-token", token="LEFT"),
    Argument("right", "pure-token", token="RIGHT"),
)
WHERE: Final = Argument("where", "oneof", arguments=_SIDES)

# Of commands that move elements.
MOVE_KEYS: Final = (KeySpec(1, 1, 1, ("RW", "access", "delete")), KeySpec(2, 2, 1, ("RW", "insert")))
MOVE_ARGUMENTS: Final = (
    Argument("source", "key", key_spec_index=0),
    Argument("destination", "key", key_spec_index=1),
    Argument("wherefrom", "oneof", arguments=_SIDES),
    Argument("whereto", "oneof", arguments=_SIDES),
)
HOW_MANY: Final = Argument(
    "how-many",
    "block",
    optional=True,
    arguments=(
        Argument(
            "selector",
            "oneof",
            arguments=(
                Argument("count", "integer", token="COUNT"),
                Argument("exactly", "integer", token="EXACTLY"),
            ),
        ),
        Argument(
            "ordering",
            "oneof",
            arguments=(
                Argument("obo", "pure-token", token="OBO"),
                Argument("bulk", "pure-token", token="BULK"),
            ),
        ),
    ),
)
