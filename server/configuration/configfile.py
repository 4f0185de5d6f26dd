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
from io import BufferedReader
from typing import Final

from ...persistence.errors import NotRegularFile
from ...persistence.files import open_regular
from .config import Config
from .config_lines import ConfigError, ConfigLineError, LateLine, likely_name, split_words
from .directive_kinds import BadValue, Memory, MemoryOrPercent, Path, SavePoints, quote
from .directives import BY_NAME, NOT_HERE, REFUSED, Directive
from .environment import environment_lines

# A file that includes itself ends with an error at this depth, and not in a stack overflow.
INCLUDE_DEPTH_MAX: Final = 16

REMEDY: Final = "remove the line, or set 'compat-config yes' to ignore it"

_CLEAR_PASSWORD: Final = re.compile(rb"(?:^|(?<=[\s(]))([<>]).*", re.DOTALL)


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
    """Command line options as configuration lines: `--port 7000 --save ''`. Raises ConfigError."""
    lines: list[bytes] = []
    for word in words:
        if word.startswith(b"--"):
            lines.append(word[2:])
        elif lines:
            lines[-1] += b" " + quote(word)
        else:
            raise ConfigError(
                f"'{os.fsdecode(word)}' is neither a configuration file nor an option: options start with --"
            )
    return b"\n".join(lines)


def load_text(config: Config, text: bytes) -> None:
    """Put every line of `text` into `config`. Raises ConfigError; `config` is then incomplete and must not be used."""
    loader = Loader(config)
    loader.load(text, "the configuration file")
    loader.finish()


class Loader:
    """Puts files and options into `config`, one after another; later ones win.

    Remembers which accumulating directives it has read: their first line replaces the default. All methods raise
    ConfigError; `config` is then incomplete and must not be used.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._seen: set[bytes] = set()
        # Directives that Headrace does not have, each with its error.
        self._foreign: list[tuple[bytes, ConfigLineError]] = []

    def finish(self) -> None:
        """Ignore directives that Headrace does not have, if `compat-config` says so. Called last."""
        if self._foreign and not self._config.compat_config:
            raise self._foreign[0][1]
        self._config.ignored_directives = list(dict.fromkeys(name for name, _ in self._foreign))

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
            name = os.fsdecode(line.partition(b" ")[0])
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
            raise ConfigLineError(place, shown, "Unbalanced quotes in configuration line") from None
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
            raise ConfigLineError(place, shown, f"{bad}{_advice(words)}") from None

    def _take(self, words: list[bytes], place: str, shown: bytes, depth: int) -> None:
        name = words[0].lower()
        directive = BY_NAME.get(name)
        if name in REFUSED:
            if not turns_off(name, words[1:]):
                self._foreign.append((name, ConfigLineError(place, shown, f"{REFUSED[name]}: {REMEDY}")))
        elif name == b"include" and len(words) == 2:
            self._include(Path().parse_word(words[1]), depth)
        elif directive is None:
            raise BadValue(f"Bad directive or wrong number of arguments{_hint(name)}")
        else:
            self._assign(directive, words[1:])
            if not directive.has_effect and not directive.is_off(self._config.value(directive)):
                self._foreign.append((name, ConfigLineError(place, shown, f"{NOT_HERE}: {REMEDY}")))

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
        self._config.assign(directive, values, adding=directive.name in self._seen)
        self._seen.add(directive.name)

    def _include(self, pattern: bytes, depth: int) -> None:
        if depth >= INCLUDE_DEPTH_MAX:
            raise BadValue(f"include is nested more than {INCLUDE_DEPTH_MAX} deep")
        # As in Redis, a pattern may match nothing, but a missing file is an error.
        paths = sorted(glob.glob(pattern)) if glob.has_magic(pattern) else [pattern]
        for path in paths:
            self.load_file(path, depth=depth + 1)


def turns_off(name: bytes, values: list[bytes]) -> bool:
    """Whether a refused directive is set to the value that means "off"."""
    if name in (b"replicaof", b"slaveof"):
        return [value.lower() for value in values] == [b"no", b"one"]
    if name == b"cluster-enabled":
        return [value.lower() for value in values] == [b"no"]
    return False


def _hint(name: bytes) -> str:
    likely = likely_name(name)
    return f": did you mean {os.fsdecode(likely)}?" if likely else ""


def _advice(words: list[bytes]) -> str:
    """The remedy for a refused value of a directive; empty if there is none."""
    directive = BY_NAME.get(words[0].lower())
    if directive is None:
        return ""
    if isinstance(directive.kind, SavePoints):
        return ': write seconds and changes in pairs, as in save 3600 1 300 100, or save "" for no snapshots'
    if isinstance(directive.kind, Memory | MemoryOrPercent) and len(words) > 2:
        joined = b"".join(words[1:])
        with contextlib.suppress(BadValue):
            directive.kind.parse([joined])
            return f": write it without a blank, {os.fsdecode(directive.name)} {os.fsdecode(joined)}"
    return ""
