"""Configuration files: loading a file with its options.

The grammar is Redis': one directive per line (see `config_lines`), and `include` is expanded in place. Variables of the
environment and then options of the command line become lines after the file, so they win.
Source: redis.conf of Redis 8.10.2, and its behaviour.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader
from typing import Final

from ...commands.core.secrets import SECRET_DIRECTIVES
from ...persistence.errors import NotRegularFile
from ...persistence.files import open_regular
from .config import Config
from .config_lines import (
    COMMENT_HINT,
    ConfigError,
    ConfigLineError,
    ConfigLinesError,
    LateLine,
    likely_name,
    split_words,
)
from .directive_kinds import BadValue, Memory, MemoryOrPercent, Path, SavePoints, quote
from .directives import BY_NAME, OBSOLETE, REFUSED, Directive
from .environment import environment_lines

# A file that includes itself ends with an error at this depth, and not in a stack overflow.
INCLUDE_DEPTH_MAX: Final = 16

REMEDY: Final = "remove the line, or set 'compat-config yes' to ignore it"

# Prefixes of paths that are read whatever kind of file they are.
OPEN_PLACES: Final = (b"/dev/null", b"/dev/stdin", b"/dev/fd/", b"/proc/self/fd/")


def read_file(path: bytes) -> bytes:
    """The text of a configuration file. Raises ConfigError with Redis' line if it cannot be read."""
    try:
        with open_named(path) as file:
            return file.read()
    except OSError as error:
        shown = os.fsdecode(path)
        advice = f"; {error.advice}" if isinstance(error, NotRegularFile) else ""
        raise ConfigError(f"Fatal error, can't open config file '{shown}': {error.strerror}{advice}") from error


def open_named(path: bytes) -> BufferedReader:
    """Open a file that a person named for reading. Raises OSError, and NotRegularFile for a file whose read could block
    for ever.

    /dev/null, and a descriptor that the shell has opened (`headrace <(...)`), may be of any kind.
    """
    return open(path, "rb", opener=None if path.startswith(OPEN_PLACES) else open_regular)


def options_text(words: list[bytes]) -> bytes:
    """Command line options as configuration lines: `--port 7000 --save ''`. Raises ConfigError.

    As in Redis, an option may be one word with its values (`--save "60 1"`, or all in one: `"--save 60 1"`). The word
    after an option's name is a value even if it starts with `--`, except after `--save`, which then means `--save ""`.
    """
    lines: list[bytes] = []
    needs_value = False
    for word in words:
        if word.startswith(b"--") and not needs_value:
            lines.append(word[2:])
            needs_value = word != b"--" and len(word.split()) == 1 and word.lower() != b"--save"
        elif lines:
            lines[-1] += b" " + quote(word)
            needs_value = False
        else:
            raise ConfigError(
                f"'{os.fsdecode(word)}' is neither a configuration file nor an option: "
                "options start with --, as in --port 7000"
            )
    return b"\n".join(lines)


def load_text(config: Config, text: bytes) -> None:
    """Put every line of `text` into `config`. Raises ConfigError; `config` is then incomplete and must not be used."""
    loader = Loader(config)
    loader.load(text, "the configuration file")
    loader.finish()


@dataclass(frozen=True, slots=True)
class ForeignLine:
    """A line that asks for a part that Headrace does not have. `matters` is as in its row."""

    name: bytes
    place: str
    shown: bytes
    matters: str = ""


class Loader:
    """Puts files and options into `config`, one after another; later ones win.

    Remembers which accumulating directives it has read: their first line replaces the default. All methods raise
    ConfigError; `config` is then incomplete and must not be used.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._seen: set[bytes] = set()
        # Place and text of the line that set each directive, the last one at the end.
        self._lines: dict[bytes, tuple[str, bytes]] = {}
        # The lines that ask for parts that Headrace does not have, by directive: a later line replaces an earlier one.
        # Lines of which each counts are stored by their text.
        self._foreign: dict[bytes, ForeignLine] = {}

    def finish(self) -> None:
        """Compare directives that depend on each other, and ignore those that Headrace does not have. Called last.

        Those that matter stop the start, unless `compat-config` says to ignore them as well.
        """
        config = self._config
        for name, (place, shown) in reversed(self._lines.items()):
            try:
                config.compare(BY_NAME[name])
            except BadValue as bad:
                raise ConfigLineError(place, shown, str(bad)) from None
        stops: list[ConfigLineError] = []
        for each in self._foreign.values():
            if not each.matters:
                config.ignored.append(each.name)
            elif config.compat_config:
                config.overruled[each.name] = each.matters
            else:
                stops.append(ConfigLineError(each.place, each.shown, f"{each.matters}: {REMEDY}"))
        if stops:
            raise ConfigLinesError(stops)

    def load_file(self, path: bytes, *, depth: int = 0) -> None:
        """Everything in the file at `path`."""
        self.load(read_file(path), f"the configuration file {os.fsdecode(path)}", depth=depth)

    def load_environment(self, environment: Mapping[bytes, bytes]) -> None:
        """The variables that set directives. They override files, and options override them."""
        before, self._seen = self._seen, set()
        for variable, line in environment_lines(environment):
            self._load_line(line, f"the environment variable {variable}", line, depth=0)
        self._seen = before - self._seen

    def load_options(self, words: list[bytes]) -> None:
        """The options of a command line."""
        for line in options_text(words).split(b"\n"):
            name = os.fsdecode(re.split(b"[ =]", line, maxsplit=1)[0])
            self._load_line(line, f"option --{name}", b"--" + line, depth=0)

    def load(self, text: bytes, source: str, *, depth: int = 0) -> None:
        """Read every line of `text`; `source` names its origin to a person."""
        for number, raw_line in enumerate(text.split(b"\n"), start=1):
            line = raw_line.strip(b" \t\r\n")
            if not line.startswith(b"#"):
                self._load_line(line, f"{source}, at line {number}", line, depth=depth)

    def _load_line(self, line: bytes, place: str, shown: bytes, *, depth: int) -> None:
        try:
            words = split_words(line)
        except ValueError:
            hint = COMMENT_HINT if re.search(rb"\s#", line) else ""
            raise ConfigLineError(place, shown, f"Unbalanced quotes in configuration line{hint}") from None
        if not words:
            return
        try:
            name = words[0].lower()
            if name == b"user":
                self._declare_user(LateLine(place, shown, words[1:]))
            elif name == b"rename-command" and len(words) == 3:
                self._config.renamings.append(LateLine(place, shown, words[1:]))
            else:
                self._take(words, place, shown, depth)
        except BadValue as bad:
            raise ConfigLineError(place, shown, f"{bad}{_advice(words, is_option=shown.startswith(b'--'))}") from None

    def _take(self, words: list[bytes], place: str, shown: bytes, depth: int) -> None:
        name = words[0].lower()
        directive = BY_NAME.get(name)
        if name in REFUSED and len(words) > 1:
            self._foreign[shown] = ForeignLine(name, place, shown, REFUSED[name])
        elif name in OBSOLETE and len(words) == 2:
            self._foreign[name] = ForeignLine(name, place, shown)
        elif name == b"include" and len(words) == 2:
            self._include(Path().parse_word(words[1]), depth)
        elif name == b"sentinel":
            raise BadValue("sentinel directive while not in sentinel mode: Headrace has no Sentinel, remove the line")
        elif directive is None:
            raise BadValue("Bad directive or wrong number of arguments")
        else:
            self._assign(directive, words[1:])
            self._lines.pop(directive.name, None)
            self._lines[directive.name] = place, shown
            self._foreign.pop(directive.name, None)
            if directive.is_foreign(self._config.value(directive)):
                self._foreign[directive.name] = ForeignLine(directive.name, place, shown, directive.matters)

    def _declare_user(self, declared: LateLine) -> None:
        if not declared.words:
            raise BadValue("Bad directive or wrong number of arguments")
        name = declared.words[0]
        if any(earlier.words[0] == name for earlier in self._config.declared_users):
            shown = os.fsdecode(name)
            raise BadValue(
                f"Error in user declaration '{shown}': Duplicate user found. A user can only be defined once in config "
                "files"
            )
        self._config.declared_users.append(declared)

    def _assign(self, directive: Directive, values: list[bytes]) -> None:
        if directive.kind.several_words and len(values) == 1:
            # As in Redis, several words may be quoted as one.
            with contextlib.suppress(ValueError):
                values = split_words(values[0]) or values
        self._config.assign(directive, values, adding=directive.name in self._seen)
        self._config.chosen.add(directive.name)
        self._seen.add(directive.name)

    def _include(self, pattern: bytes, depth: int) -> None:
        if depth >= INCLUDE_DEPTH_MAX:
            raise BadValue(f"include is nested more than {INCLUDE_DEPTH_MAX} deep")
        # As in Redis, a pattern may match nothing, but a missing file is an error.
        paths = sorted(glob.glob(pattern)) if glob.has_magic(pattern) else [pattern]
        for path in paths:
            self.load_file(path, depth=depth + 1)


def _advice(words: list[bytes], *, is_option: bool) -> str:
    """The remedy for a refused line; empty if there is none. It never shows a secret."""
    name, equals, value = words[0].partition(b"=")
    name = name.lower()
    if name != b"user" and any(word.startswith(b"#") for word in words[1:]):
        return COMMENT_HINT
    directive = BY_NAME.get(name)
    if directive is None:
        likely = likely_name(name)
        return f": did you mean {os.fsdecode(likely)}?" if likely not in (None, name) else ""
    values = [value, *words[1:]] if equals else words[1:]
    if equals or (values and values[0].startswith(b"=")):
        joined = b" ".join(values).removeprefix(b"=").strip()
        shown = b"VALUE" if not joined or name in SECRET_DIRECTIVES else joined
        return f": write {'--' if is_option else ''}{os.fsdecode(name)} {os.fsdecode(shown)}"
    if isinstance(directive.kind, SavePoints):
        return ': write seconds and changes in pairs, as in save 3600 1 300 100, or save "" for no snapshots'
    if isinstance(directive.kind, Memory | MemoryOrPercent) and len(words) > 2:
        joined = b"".join(words[1:])
        with contextlib.suppress(BadValue):
            directive.kind.parse([joined])
            return f": write it without a blank, {os.fsdecode(directive.name)} {os.fsdecode(joined)}"
    return ""
