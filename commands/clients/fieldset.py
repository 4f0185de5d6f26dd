"""A fieldset of HIMPORT: the names of fields that a connection has prepared for the hashes it imports."""

from __future__ import annotations

from typing import Final

from ...store.companions.hash_value import template_order

# Bytes of the object with its lists, and of a name in them.
FIELDSET_SIZE: Final = 256
NAME_SIZE: Final = 49


class Fieldset:
    """Names of fields, all different, in the order in which the values of HIMPORT SET come."""

    __slots__ = ("fields", "memory_size", "positions")

    def __init__(self, names: list[bytes]) -> None:
        # The names as a hash has them, and for each one the position of its value.
        self.positions = sorted(range(len(names)), key=[template_order(name) for name in names].__getitem__)
        self.fields = [names[position] for position in self.positions]
        self.memory_size = FIELDSET_SIZE + sum([NAME_SIZE + len(name) for name in names])

    def arranged(self, values: list[bytes]) -> list[bytes]:
        """The values in the order of `fields`."""
        return [values[position] for position in self.positions]
