"""Commands of a primary that are not served here, those of modules above all: what they write, and where."""

from __future__ import annotations

from typing import Final

from ..protocol.requests import Request

# Commands that write a type which is not served.
TYPES: Final = dict.fromkeys((b"vadd", b"vrem", b"vsetattr"), "vector set")
# Commands that write no key.
KEYLESS: Final = frozenset((b"module",))


def describe(request: Request) -> str:
    """A command, with the type and the name of the first key that it writes."""
    name = request[0].lower()
    text = request[0].decode("utf-8", "backslashreplace")
    if name in KEYLESS or len(request) < 2:
        return text
    key = request[1].decode("utf-8", "backslashreplace")
    type_name = TYPES.get(name)
    return f"{text} on the {type_name} '{key}'" if type_name else f"{text} on '{key}'"
