"""The configuration in force: directives as attributes, CONFIG GET, CONFIG SET and CONFIG REWRITE.

    config.stream_node_max_entries      int       a count, or a size in bytes, or a time in the directive's unit
    config.appendonly                   bool
    config.appendfsync                  bytes     lower case
    config.bind, config.save, ...       bytes     as CONFIG GET prints them; see also `save_points`, `buffer_limits`

`set_many` makes all of its changes or none. First, every `before_change` of the changed directives may refuse its new
value. Then every `on_change` applies its value, and may not fail.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from ...persistence.files import open_regular
from ...store.errors import GenericError
from ...store.glob import matches
from .changes import COMPARED, assign_all, requested, set_failed
from .config_lines import LateLine
from .config_rewrite import replace_file, rewrite_text
from .directive_kinds import BadValue, BufferLimits, Limit, SavePoints
from .directives import BY_NAME, DIRECTIVES, Directive

logger = logging.getLogger(__name__)

GLOB_CHARACTER: Final = re.compile(rb"[*?\[]")

INCLUDE: Final = re.compile(rb"^\s*include\s", re.MULTILINE | re.IGNORECASE)

# The only user of a server whose file declares none: CONFIG REWRITE adds no line for it.
OPEN_DEFAULT_USER: Final = b"user default on nopass sanitize-payload ~* &* +@all"

# The directives that patterns of CONFIG GET match.
SHOWN_BY_NAME: Final = {name: directive for name, directive in BY_NAME.items() if not directive.is_hidden}

# Called with a directive's new value, which `config` already shows.
Callback = Callable[[Any], None]

# Takes back what a `Preparation` did.
Undo = Callable[[], None]

# Called with a directive's new value, which `config` already shows. It returns a function that undoes what it did, None
# if there is nothing to undo. It refuses the value by raising ChangeRefused, OSError or GenericError, without having
# changed anything.
Preparation = Callable[[Any], Undo | None]


class ChangeRefused(Exception):
    """Raised by a `Preparation`: the value is valid but cannot be applied. The text says why."""


class Config:
    """All directives. Each has its default until a file, an option or CONFIG SET changes it."""

    # The data directory; absolute once the server has entered it.
    dir: bytes
    # The primary to follow, `host port`; empty for none. REPLICAOF changes it.
    replicaof: bytes

    def __init__(self) -> None:
        # Absolute path of the program, found before the server enters the folder `dir`.
        self.executable = os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] else sys.executable
        # Absolute path of the configuration file, None without one.
        self.file_path: bytes | None = None
        # The `user` lines.
        self.declared_users: list[LateLine] = []
        # The `rename-command` lines: old name and new one.
        self.renamings: list[LateLine] = []
        # Returns the lines that declare the present users, for CONFIG REWRITE; set by the owner of the users.
        self.list_users: Callable[[], list[bytes]] = list
        # Directives that Headrace does not have, whose values do nothing: harmless ones, and those that matter and were
        # ignored because of `compat-config`, with the reason why they matter.
        self.ignored: list[bytes] = []
        self.overruled: dict[bytes, str] = {}
        # Directives that a file, an option, a variable or CONFIG SET has set, also to their defaults.
        self.chosen: set[bytes] = set()
        self._preparations: dict[bytes, list[Preparation]] = {}
        self._callbacks: dict[bytes, list[Callback]] = {}
        # Directives that name files: setting one to its present value reads the file again.
        self._reread: set[bytes] = set()
        # Directives whose preparations are called after those of all others.
        self._prepared_last: set[bytes] = set()
        for directive in DIRECTIVES:
            setattr(self, directive.attribute, directive.default)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Returns the value of a directive. Directives are attributes, set from their rows."""

    # -- reading ---------------------------------------------------------------------------------

    @property
    def save_points(self) -> list[tuple[int, int]]:
        """The (seconds, changes) pairs of `save`."""
        return SavePoints.pairs(self.save)

    @property
    def buffer_limits(self) -> dict[bytes, Limit]:
        """The (hard bytes, soft bytes, soft seconds) of the classes `normal`, `slave`, `pubsub`; 0 is no limit."""
        return BufferLimits.by_class(self.client_output_buffer_limit)

    def value(self, directive: Directive) -> Any:
        """The value in force of a row."""
        return getattr(self, directive.attribute)

    def get_matching(self, patterns: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
        """CONFIG GET: (name, value) of every directive that a pattern matches, each once.

        A pattern without glob characters must be a whole name, and is returned as it was typed. One with them ends at
        its first zero byte, as in Redis.
        """
        found: dict[bytes, tuple[bytes, bytes]] = {}
        for pattern in patterns:
            text = pattern.partition(b"\0")[0]
            if GLOB_CHARACTER.search(text) is None:
                lowered = pattern.lower()
                if lowered in BY_NAME:
                    found.setdefault(lowered, (pattern, self._shown(BY_NAME[lowered])))
                continue
            for name, directive in SHOWN_BY_NAME.items():
                if name not in found and matches(text, name, ignore_case=True):
                    found[name] = (name, self._shown(directive))
        return list(found.values())

    def _shown(self, directive: Directive) -> bytes:
        return directive.kind.show(getattr(self, directive.attribute))

    # -- changing --------------------------------------------------------------------------------

    def before_change(
        self, name: str, preparation: Preparation, *, is_reread: bool = False, is_last: bool = False
    ) -> None:
        """Call `preparation` before a CONFIG SET changes the directive `name`, spelled as in the file.

        `is_reread`: it is called for an equal value, too, because the directive names a file. `is_last`: it is called
        after those of all other directives, because it changes files that they name.
        """
        directive = BY_NAME[name.encode()].name
        self._preparations.setdefault(directive, []).append(preparation)
        if is_last:
            self._prepared_last.add(directive)
        if is_reread:
            self._reread.add(directive)

    def on_change(self, name: str, callback: Callback) -> None:
        """Call `callback` once a CONFIG SET has changed the directive `name`, spelled as in the file.

        The command can no longer be refused then, so `callback` must not fail.
        """
        self._callbacks.setdefault(BY_NAME[name.encode()].name, []).append(callback)

    def assign(self, directive: Directive, words: list[bytes], *, adding: bool = False) -> None:
        """Set a value, before callbacks are registered. Raises BadValue."""
        setattr(self, directive.attribute, directive.kind.parse(words, self.value(directive), adding=adding))

    def compare(self, directive: Directive) -> None:
        """Check a value in force that depends on the one of another directive. Raises BadValue."""
        if directive.name in COMPARED and self.array_sparse_kmax and self.array_sparse_kmax <= self.array_sparse_kmin:
            if directive.name == b"array-sparse-kmax":
                raise BadValue("array-sparse-kmax must be greater than array-sparse-kmin when non-zero")
            raise BadValue("array-sparse-kmin must be less than array-sparse-kmax")

    def set_many(self, pairs: Iterable[tuple[bytes, bytes]], *, is_local: bool = False) -> None:
        """CONFIG SET: set all of these (name, value) pairs, or none. Raises GenericError with Redis' text.

        `is_local`: the client is on this machine.
        """
        requests = requested(self.enable_protected_configs, pairs, is_local=is_local)
        before, changed = assign_all(self, requests, self._reread)
        if changed:
            self._prepare(changed, before)
        for _, directive, _ in requests:
            self.chosen.add(directive.name)
        for _, directive in changed:
            if not directive.has_effect:
                self._log_ignored(directive)
            for callback in self._callbacks.get(directive.name, ()):
                callback(self.value(directive))

    def _log_ignored(self, directive: Directive) -> None:
        """Log the first CONFIG SET of each directive whose new value does nothing."""
        if directive.is_foreign(self.value(directive)) and directive.name not in self.ignored:
            self.ignored.append(directive.name)
            logger.info("CONFIG SET %s does nothing, since Headrace has no such part", directive.name.decode())

    def _prepare(self, changed: list[tuple[bytes, Directive]], before: list[tuple[Directive, Any]]) -> None:
        """Call the preparations of every change. If one refuses, undo what the others have done, the last one first."""
        undos: list[Undo] = []
        for typed, directive in sorted(changed, key=lambda each: each[1].name in self._prepared_last):
            preparations = self._preparations.get(directive.name, ())
            try:
                if directive.needs_listener and not preparations and directive.name not in self._callbacks:
                    raise ChangeRefused("it cannot be changed while the server runs")
                for prepare in preparations:
                    undo = prepare(self.value(directive))
                    if undo is not None:
                        undos.append(undo)
            except (ChangeRefused, OSError, GenericError) as refusal:
                self._restore(before)
                for undo in reversed(undos):
                    undo()
                raise set_failed(typed, _reason(refusal)) from refusal

    def _restore(self, before: list[tuple[Directive, Any]]) -> None:
        for directive, value in before:
            setattr(self, directive.attribute, value)

    # -- writing back ----------------------------------------------------------------------------

    def rewrite(self) -> None:
        """CONFIG REWRITE: update the file with the values in force, in one atomic step.

        Comments, order and included files stay. No line is added for a directive that has its default, except `dir`,
        whose default depends on where the server is started. Raises GenericError if there is no file or it cannot be
        written.
        """
        if self.file_path is None:
            raise GenericError(b"The server is running without a config file")
        try:
            try:
                with open(self.file_path, "rb", opener=open_regular) as file:
                    old_text = file.read()
            except FileNotFoundError:
                old_text = b""
            replace_file(self.file_path, rewrite_text(old_text, self._wanted_lines(old_text), BY_NAME))
        except OSError as error:
            raise GenericError(b"Rewriting config file: " + os.strerror(error.errno or 0).encode()) from error

    def _wanted_lines(self, old_text: bytes) -> dict[bytes, tuple[list[bytes], bool]]:
        """By directive: its lines, and whether they are written even if the file had none."""
        includes = INCLUDE.search(old_text) is not None
        wanted: dict[bytes, tuple[list[bytes], bool]] = {}
        for directive in DIRECTIVES:
            value = self.value(directive)
            lines = directive.kind.lines(directive.name, value, directive.default)
            is_needed = directive.is_always_written or value != directive.default
            if isinstance(directive.kind, SavePoints):
                # With a log, save points apply if they were chosen, also the default ones. These may also have replaced
                # others of an included file, and a start must not go back to those.
                is_needed = is_needed or includes or (self.appendonly and directive.name in self.chosen)
            wanted[directive.name] = (lines, is_needed)
        if not self.aclfile:
            lines = self.list_users()
            wanted[b"user"] = (lines, lines != [OPEN_DEFAULT_USER])
        return wanted


def _reason(refusal: Exception) -> str:
    if isinstance(refusal, GenericError):
        return refusal.text.decode("utf-8", "replace")
    if isinstance(refusal, OSError) and refusal.strerror:
        return refusal.strerror
    return str(refusal)
