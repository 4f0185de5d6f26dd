"""Maps whose fields are always the same, such as the groups of a stream, which are encoded without a dict for each.

This module imports the compiled twin if it was built, else the other.
"""

from __future__ import annotations

try:
    from .map_forms import MapForm
except ImportError:  # there was no C compiler at installation
    from .map_forms_plain import MapForm  # type: ignore[assignment]

__all__ = ["MapForm", "map_forms"]


def map_forms(*names: bytes, more: int = 0) -> dict[int, MapForm]:
    """The map with these fields, and `more` that the caller encodes, by protocol version."""
    return {protocol: MapForm(protocol, names, more) for protocol in (2, 3)}
