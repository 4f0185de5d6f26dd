"""The libraries of one server and their functions: FUNCTION LOAD adds them, FCALL runs them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from ...store.errors import GenericError
from ..execution.library_set import Function, Library, LibrarySet
from ..execution.script_engine import Outcome
from .cache import Script
from .engine import Engine
from .errors import Failure, LuaMissing
from .shebang import split_library

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..execution.context import Context
    from .deadline import Deadline

logger = logging.getLogger(__name__)

# Time in ms in which a library must be loaded, as in Redis.
LOAD_TIME_MS: Final = 500
LOAD_TIMEOUT: Final = b"ERR FUNCTION LOAD timeout"

# The flags of functions, in the order in which FUNCTION LIST shows them.
FLAG_NAMES: Final = (b"no-writes", b"allow-oom", b"allow-stale", b"no-cluster", b"allow-cross-slot-keys")

# Bytes that a library and a function take in addition to their texts; about the number that Redis counts.
LIBRARY_SIZE: Final = 200
FUNCTION_SIZE: Final = 200


class Libraries:
    """The `LibraryEngine`: loads libraries and runs functions. Lua starts with the first library."""

    def __init__(self, context: Context, deadline: Deadline) -> None:
        """`deadline` is that of scripts too."""
        self._context = context
        self._deadline = deadline
        self._engine = Engine(context, deadline, has_libraries=True)
        # The libraries that there are.
        self.present = LibrarySet()

    @property
    def memory_size(self) -> int:
        """Memory of Lua in bytes."""
        return self._engine.memory_size

    @property
    def cache_size(self) -> int:
        """Bytes of the libraries."""
        libraries = self.present.libraries.values()
        return FUNCTION_SIZE * len(self.present.functions) + sum(
            [LIBRARY_SIZE + len(each.name) + len(each.code) for each in libraries]
        )

    @property
    def codes(self) -> list[bytes]:
        """The texts of the libraries, with their first lines, in the order in which they were loaded."""
        return [each.code for each in self.present.libraries.values()]

    def load(self, code: bytes, *, replace: bool) -> bytes:
        """Adds a library and returns its name. Raises ReplyError; then nothing has changed."""
        name, text = split_library(code)
        if name in self.present.libraries and not replace:
            raise GenericError(b"Library '%b' already exists" % name)
        self.present.put(self._compiled(name, code, text, is_from_file=self._is_replaying))
        return name

    def restore(self, codes: Iterable[bytes], *, replace: bool) -> None:
        """Adds several libraries. Raises ReplyError; then nothing has changed."""
        added = self.prepared(codes, is_from_file=self._is_replaying)
        joined = self.present.copy()
        for name in added.libraries:
            if joined.remove(name) and not replace:
                raise GenericError(b"Library %b already exists" % name)
        for library in added.libraries.values():
            joined.put(library)
        self.present = joined

    def prepared(self, codes: Iterable[bytes], *, is_from_file: bool) -> LibrarySet:
        """Returns libraries that stand alone. Those of a file have no time limit, and are kept as texts without lupa.

        Raises ReplyError.
        """
        libraries = LibrarySet()
        for code in codes:
            name, text = split_library(code)
            if name in libraries.libraries:
                raise GenericError(b"Library '%b' already exists" % name)
            libraries.put(self._compiled(name, code, text, is_from_file=is_from_file))
        return libraries

    def flush(self) -> None:
        """Removes all libraries, and the Lua state."""
        self.present = LibrarySet()
        self._engine.drop()

    def find(self, name: bytes) -> Function | None:
        """Returns a function, whose name may be in any case; None if it is missing. Raises LuaMissing."""
        function = self.present.functions.get(name.lower())
        if function is None:
            self._engine.started()
        return function

    def run(self, function: Function, keys: list[bytes], arguments: list[bytes], *, read_only: bool) -> Outcome:
        """Runs a function for the current client. Raises ReplyError if it is refused before it starts."""
        return self._engine.run(function.script, keys, arguments, read_only=read_only)

    @property
    def _is_replaying(self) -> bool:
        """Whether the running command is a record of a log or of a primary, which has loaded its library before."""
        return self._context.loading or self._context.replaying

    def _compiled(self, name: bytes, code: bytes, text: bytes, *, is_from_file: bool) -> Library:
        try:
            lua, deadline = self._engine.started(), self._deadline
        except LuaMissing as missing:
            if not is_from_file:
                raise
            logger.warning("The functions of the library %s cannot be called: %s", name.decode(), missing)
            return Library(name, code, {})
        deadline.begin(0 if is_from_file else LOAD_TIME_MS)
        try:
            registered = lua.load(text, (LOAD_TIMEOUT, deadline.reasons[1]))
        except Failure as failure:
            raise GenericError(b"Error registering functions: " + failure.text) from None
        if not registered:
            raise GenericError(b"No functions registered")
        functions: dict[bytes, Function] = {}
        lowered: set[bytes] = set()
        for each in registered:
            function = _function(each)
            # Redis takes such a library, and stops when it removes it.
            if function.name.lower() in lowered:
                raise GenericError(b"Error registering functions: ERR Function already exists in the library")
            lowered.add(function.name.lower())
            functions[function.name] = function
        return Library(name, code, functions)


def _function(registered: Any) -> Function:
    """Returns a function that a library has registered."""
    name: bytes = registered[b"name"]
    given = frozenset(registered[b"flags"])
    flags = [flag for flag in FLAG_NAMES if flag in given]
    script = Script(name, b"", registered[b"callback"], has_shebang=True, flags=given)
    return Function(name, registered[b"description"] or None, flags, script)
