"""Libraries of functions, as FUNCTION LOAD makes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...store.errors import GenericError


@dataclass(slots=True, eq=False)
class Function:
    """A function of a library. `flags` are in the order of FUNCTION LIST, `script` is what Lua runs: a
    `scripting.cache.Script`."""

    name: bytes
    description: bytes | None
    flags: list[bytes]
    script: Any


@dataclass(slots=True, eq=False)
class Library:
    """A library: its text, and its functions by name in the order of their registration."""

    name: bytes
    code: bytes
    functions: dict[bytes, Function]


@dataclass(slots=True, eq=False)
class LibrarySet:
    """Libraries by name in the order in which they were loaded, and their functions by name in lower case."""

    libraries: dict[bytes, Library] = field(default_factory=dict)
    functions: dict[bytes, Function] = field(default_factory=dict)

    def copy(self) -> LibrarySet:
        """Return the same libraries as a set of their own."""
        return LibrarySet(dict(self.libraries), dict(self.functions))

    def put(self, library: Library) -> None:
        """Add a library, in the place of the one of its name.

        Raises GenericError if a function has the name of one of another library; then nothing has changed.
        """
        replaced = self.libraries.get(library.name)
        for name in library.functions:
            other = self.functions.get(name.lower())
            if other is not None and (replaced is None or replaced.functions.get(other.name) is not other):
                raise GenericError(b"Function %b already exists" % name)
        self.remove(library.name)
        self.libraries[library.name] = library
        for function in library.functions.values():
            self.functions[function.name.lower()] = function

    def remove(self, name: bytes) -> bool:
        """Remove a library. Returns False if it is missing."""
        library = self.libraries.pop(name, None)
        if library is None:
            return False
        for function in library.functions.values():
            del self.functions[function.name.lower()]
        return True
