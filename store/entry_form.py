"""The reply form of an entry, in which streams store it: an array of its ID and of its fields and values."""

from __future__ import annotations


def fields_of(entry: bytes) -> list[bytes]:
    """The fields and values of an entry in its reply form, one after the other."""
    # `*2`, the ID in two lines, and the number of fields and values.
    position = 0
    for _ in range(4):
        position = entry.index(b"\r\n", position) + 2
    fields: list[bytes] = []
    while position < len(entry):
        start = entry.index(b"\r\n", position) + 2
        end = start + int(entry[position + 1 : start - 2])
        fields.append(entry[start:end])
        position = end + 2
    return fields
