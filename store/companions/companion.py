"""What hashes and sets have in common."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from ..class_marks import mypyc_attr
from ..due_times import NEVER_DUE_MS
from ..limits import Limits


@mypyc_attr(acyclic=True)
class Companion:
    """A value of several members. No key has an empty one: the caller that removes the last member removes the key."""

    __slots__ = ("counted_size", "first_due_ms", "image_number", "limits", "used_ms")

    # The name that TYPE shows, the number of the type in DEBUG DIGEST, and the letter of its class of events.
    type_name: ClassVar[bytes]
    type_number: ClassVar[int]
    # Number of the newest `StoreImage`.
    newest_image_number: ClassVar[int] = 0

    def __init__(self, limits: Limits) -> None:
        self.limits: Final = limits
        # No member expires before this Unix time in ms; NEVER_DUE_MS if none expires at all.
        self.first_due_ms = NEVER_DUE_MS
        # Unix ms of the last command that used the value; 0 if there was none since it was loaded.
        self.used_ms = 0
        # See `Stream.image_number`.
        self.image_number = Companion.newest_image_number
        # Bytes that the database counts for this value, as of the last `Database.recount`.
        self.counted_size = 0

    def __len__(self) -> int:
        """Number of members."""
        raise NotImplementedError

    @property
    def encoding(self) -> bytes:
        """How Redis would keep the value, as OBJECT ENCODING shows it."""
        raise NotImplementedError

    @property
    def memory_size(self) -> int:
        """Bytes of the value, in a time that does not grow with it."""
        raise NotImplementedError

    def copy(self) -> Companion:
        """Another value with the same members. A change of one does not change the other."""
        raise NotImplementedError

    def heaps(self) -> list[Any]:
        """The tables of a value that has lost its key and is too large to be freed at once: see `Garbage`."""
        raise NotImplementedError

    def check(self) -> None:
        """Assert that the parts agree. Raises AssertionError."""
        raise NotImplementedError
