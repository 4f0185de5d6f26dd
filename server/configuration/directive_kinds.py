"""How the value of a configuration directive is read, shown and written back.

A kind turns the words after a directive's name into a Python value (`parse`), that value into what CONFIG GET
prints (`show`), and into lines of a configuration file (`lines`). It knows no directive by name.

    Kind              one word
    ├── Bool          yes | no                                 bool
    ├── Integer       canonical decimal in a range             int
    ├── Octal         file permissions                         int
    ├── Memory        bytes with an optional unit              int, in bytes
    ├── MemoryOrPercent                                        int; negative means percent
    ├── Choice        one word, or several, of a fixed list    bytes
    ├── Text          any string                               bytes
    ├── CipherSuites  any string, where it has an effect       bytes
    ├── Path          a string without a null character        bytes
    ├── FileName      a path without a slash                   bytes
    ├── EventClasses  letters of notify-keyspace-events        bytes
    └── (several words) Primary, Words, Percentiles, OomScores, SavePoints, BufferLimits, GroupDefaults: all bytes

The error texts are Redis' own: CONFIG SET and the start-up error block both show them.
Source: Redis 8.10.2, as observed.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...commands.core import numbers
from ...commands.core.numbers import INT64_MAX, loose_integer
from ...commands.policies.defaults import Rule, parse_rules
from ...store.errors import GenericError

INT32_MAX = 2**31 - 1

NOT_A_MEMORY_VALUE = "argument must be a memory value"


class BadValue(ValueError):
    """A value that a directive does not accept; the text is shown to the user."""


def parse_memory(word: bytes) -> int:
    """`100mb` in bytes, see `numbers`. Raises BadValue."""
    size = numbers.parse_memory(word)
    if size is None:
        raise BadValue(NOT_A_MEMORY_VALUE)
    return size


def format_memory(size: int) -> bytes:
    """The shortest exact form in powers of 1024, as CONFIG REWRITE writes it."""
    for unit, unit_size in ((b"gb", 1 << 30), (b"mb", 1 << 20), (b"kb", 1 << 10)):
        if size and size % unit_size == 0:
            return b"%d%b" % (size // unit_size, unit)
    return b"%d" % size


def parse_integer(word: bytes) -> int:
    """A signed 64-bit decimal in its canonical form. Raises BadValue."""
    number = numbers.parse_integer(word)
    if number is None:
        raise BadValue("argument couldn't be parsed into an integer")
    return number


def quote(text: bytes) -> bytes:
    """`text` in double quotes, with escapes that `split_words` decodes."""
    named = {0x0A: b"\\n", 0x0D: b"\\r", 0x09: b"\\t", 0x07: b"\\a", 0x08: b"\\b", 0x22: b'\\"', 0x5C: b"\\\\"}
    return b'"%b"' % b"".join(
        named.get(code) or (bytes((code,)) if 0x20 <= code < 0x7F else b"\\x%02x" % code) for code in text
    )


def _in_range(number: int, minimum: int, maximum: int) -> int:
    if not minimum <= number <= maximum:
        raise BadValue(f"argument must be between {minimum} and {maximum} inclusive")
    return number


class Kind:
    """A directive of one word. `parse` gets the earlier value, for kinds whose lines in a file are added."""

    # True if the value is a list of words, which CONFIG SET takes as one argument.
    several_words = False

    def parse(self, words: list[bytes], previous: Any = None, *, adding: bool = False) -> Any:
        """The value of these words. `adding` is set from a file's second line of the directive on. Raises BadValue."""
        if len(words) != 1:
            raise BadValue("wrong number of arguments")
        return self.parse_word(words[0])

    def parse_word(self, word: bytes) -> Any:
        """The value of a single word. Raises BadValue."""
        return word

    def show(self, value: Any) -> bytes:
        """The value as CONFIG GET prints it."""
        return bytes(value)

    def lines(self, name: bytes, value: Any, default: Any) -> list[bytes]:
        """The configuration file lines that set this value."""
        return [name + b" " + self.show(value)]


class Bool(Kind):
    """`yes` or `no`."""

    def parse_word(self, word: bytes) -> bool:
        lowered = word.lower()
        if lowered not in (b"yes", b"no"):
            raise BadValue("argument must be 'yes' or 'no'")
        return lowered == b"yes"

    def show(self, value: bool) -> bytes:
        return b"yes" if value else b"no"


@dataclass(frozen=True)
class Integer(Kind):
    """A number between two bounds, both included. `clamp` then moves it silently into the range that works."""

    minimum: int = 0
    maximum: int = INT64_MAX
    clamp: tuple[int, int] | None = None

    def parse_word(self, word: bytes) -> int:
        number = _in_range(parse_integer(word), self.minimum, self.maximum)
        return number if self.clamp is None else max(self.clamp[0], min(number, self.clamp[1]))

    def show(self, value: int) -> bytes:
        return b"%d" % value


@dataclass(frozen=True)
class PowerOfTwo(Integer):
    """A power of two between two bounds, both included. `name` is that of the directive, for its error."""

    name: str = ""

    def parse_word(self, word: bytes) -> int:
        number = super().parse_word(word)
        if number & (number - 1):
            raise BadValue(f"{self.name} must be a power of two")
        return number


class Octal(Kind):
    """File permissions, 0 to 777."""

    def parse_word(self, word: bytes) -> int:
        if not re.fullmatch(rb"[0-7]+", word):
            raise BadValue("argument couldn't be parsed as an octal number")
        number = int(word, 8)
        if number > 0o777:
            raise BadValue("argument must be between 0 and 777 inclusive")
        return number

    def show(self, value: int) -> bytes:
        return b"%o" % value


@dataclass(frozen=True)
class Memory(Kind):
    """A size in bytes, with an optional unit. Sizes below `floor`, the smallest that works, become `floor`."""

    minimum: int = 0
    maximum: int = INT64_MAX
    floor: int = 0

    def parse_word(self, word: bytes) -> int:
        return max(_in_range(parse_memory(word), self.minimum, self.maximum), self.floor)

    def show(self, value: int) -> bytes:
        return b"%d" % value

    def lines(self, name: bytes, value: int, default: Any) -> list[bytes]:
        return [name + b" " + format_memory(value)]


class MemoryOrPercent(Kind):
    """A size in bytes, or `N%` of maxmemory, which is stored as -N. A 64-bit size whose highest bit is set is read as a
    negative number, as in Redis: 2^64 - 1 is 1%.
    """

    def parse_word(self, word: bytes) -> int:
        try:
            if word.endswith(b"%"):
                percent = parse_integer(word[:-1])
            else:
                size = parse_memory(word)
                if size <= INT64_MAX:
                    return size
                percent = 2**64 - size
        except BadValue:
            raise BadValue("argument must be a memory or percent value") from None
        if percent < 0:
            raise BadValue("argument must be a memory or percent value")
        if percent > 100:
            raise BadValue("percentage argument must be less or equal to 100")
        return -percent

    def show(self, value: int) -> bytes:
        return b"%d%%" % -value if value < 0 else b"%d" % value

    def lines(self, name: bytes, value: int, default: Any) -> list[bytes]:
        return [name + b" " + (self.show(value) if value < 0 else format_memory(value))]


@dataclass(frozen=True)
class Choice(Kind):
    """One word of `choices`; with `combine` one or more of them."""

    choices: tuple[bytes, ...]
    combine: bool = False

    @property
    def several_words(self) -> bool:  # type: ignore[override]
        return self.combine

    def parse(self, words: list[bytes], previous: Any = None, *, adding: bool = False) -> bytes:
        if len(words) != 1 and not self.combine:
            raise BadValue("wrong number of arguments")
        spelled = {choice.lower(): choice for choice in self.choices}
        chosen = {spelled.get(word.lower(), b"") for word in words}
        if not chosen or not chosen <= set(self.choices):
            names = ", ".join(choice.decode() for choice in self.choices)
            raise BadValue(f"argument(s) must be one of the following: {names}")
        if {b"save", b"nosave"} <= chosen:
            raise BadValue("shutdown options SAVE and NOSAVE can't be used simultaneously")
        return b" ".join(choice for choice in self.choices if choice in chosen)


class Text(Kind):
    """Any string; the empty one if unset."""

    def lines(self, name: bytes, value: bytes, default: Any) -> list[bytes]:
        return [name + b" " + quote(value)]


CAN_CHOOSE_CIPHERSUITES = hasattr(ssl.SSLContext, "set_ciphersuites")
NO_CIPHERSUITES = "This Python cannot choose tls-ciphersuites (3.15 can): leave it empty for those of OpenSSL"


class CipherSuites(Text):
    """Ciphers of TLS 1.3. If Python cannot choose them, only the empty value is accepted."""

    def parse_word(self, word: bytes) -> bytes:
        if word and not CAN_CHOOSE_CIPHERSUITES:
            raise BadValue(NO_CIPHERSUITES)
        return word


class Path(Text):
    """The path of a file or folder."""

    def parse_word(self, word: bytes) -> bytes:
        if b"\0" in word:
            raise BadValue("a path cannot contain a null character")
        return word


@dataclass(frozen=True)
class FileName(Path):
    """The bare name of a file or folder inside the data directory."""

    message: str

    def parse_word(self, word: bytes) -> bytes:
        if b"/" in word:
            raise BadValue(self.message)
        return super().parse_word(word)


class EventClasses(Text):
    """The letters of notify-keyspace-events, shown in Redis' order with `A` for its nine classes.

    Unlike in Redis, `n`, `o` and `c` are shown after `A`: otherwise CONFIG REWRITE would lose them.
    """

    _ALL = b"g$lshzxetd"

    def parse_word(self, word: bytes) -> bytes:
        if not set(word) <= set(b"Ag$lshzxeKEtmdnocaSTIV"):
            raise BadValue("Invalid event class character. Use 'Ag$lshzxeKEtmdnocaSTIV'.")
        letters = set(word)
        if ord("A") in letters or set(self._ALL + b"a") <= letters:
            letters -= set(self._ALL + b"a")
            letters.add(ord("A"))
        return bytes(letter for letter in b"A" + self._ALL + b"anocKEmSTIV" if letter in letters)


@dataclass(frozen=True)
class Words(Kind):
    """A list of words, such as addresses, stored joined by one space. `check` checks each word."""

    count_max: int
    too_many: str
    check: Callable[[bytes], bytes] | None = None

    several_words = True

    def parse(self, words: list[bytes], previous: Any = None, *, adding: bool = False) -> bytes:
        if words == [b""]:
            return b""
        if len(words) > self.count_max:
            raise BadValue(self.too_many)
        return b" ".join(self.check(word) if self.check else word for word in words)

    def lines(self, name: bytes, value: bytes, default: Any) -> list[bytes]:
        return [name + b" " + (value or b'""')]


def check_percentile(word: bytes) -> bytes:
    """A percentile from 0 to 100, with at most six decimals. Raises BadValue."""
    number = numbers.parse_float(word)
    if number is None:
        raise BadValue("Invalid latency-tracking-info-percentiles parameters")
    if not 0 <= number <= 100:
        raise BadValue("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")
    return f"{number:.6f}".rstrip("0").rstrip(".").encode()


PORT_MAX = 65535


class Primary(Kind):
    """The host and port of a server to follow, kept as one text; empty for `no one`."""

    several_words = True

    def parse(self, words: list[bytes], previous: Any = None, *, adding: bool = False) -> bytes:
        if len(words) != 2:
            raise BadValue("wrong number of arguments")
        if [word.lower() for word in words] == [b"no", b"one"]:
            return b""
        port = loose_integer(words[1])
        if port is None or not 0 <= port <= PORT_MAX:
            raise BadValue("Invalid master port")
        return b"%b %d" % (words[0], port)

    def lines(self, name: bytes, value: bytes, default: Any) -> list[bytes]:
        return [name + b" " + value] if value else []


OOM_SCORE_MAX = 2000


class OomScores(Kind):
    """Three numbers for the kernel's out-of-memory killer; accepted and shown, not used."""

    several_words = True

    def parse(self, words: list[bytes], previous: Any = None, *, adding: bool = False) -> bytes:
        if len(words) != 3:
            raise BadValue("wrong number of arguments")
        scores = [score for score in map(loose_integer, words) if score is not None and abs(score) <= OOM_SCORE_MAX]
        if len(scores) != len(words):
            raise BadValue("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")
        return b" ".join(b"%d" % score for score in scores)


class SavePoints(Kind):
    """`<seconds> <changes>` pairs, stored as `3600 1 300 100`; the lines of a file are added."""

    several_words = True

    def parse(self, words: list[bytes], previous: Any = None, *, adding: bool = False) -> bytes:
        if len(words) == 1:
            words = words[0].split()
        if not words:
            return b""
        points = [-1 if number is None else number for number in map(loose_integer, words)]
        if len(points) % 2 or min(points) < 0 or 0 in points[::2]:
            raise BadValue("Invalid save parameters")
        earlier = [previous] if adding and previous else []
        return b" ".join([*earlier, *(b"%d" % number for number in points)])

    def lines(self, name: bytes, value: bytes, default: Any) -> list[bytes]:
        points = self.pairs(value)
        return [b"%b %d %d" % (name, *point) for point in points] or [name + b' ""']

    @staticmethod
    def pairs(value: bytes) -> list[tuple[int, int]]:
        """(seconds, changes) of each save point."""
        numbers = [int(word) for word in value.split()]
        return list(zip(numbers[::2], numbers[1::2], strict=True))


class GroupDefaults(Kind):
    """`<glob> <option> <value> ...` rules, joined by the word `;`; the lines of a file are added."""

    several_words = True

    def parse(self, words: list[bytes], previous: Any = None, *, adding: bool = False) -> bytes:
        if words == [b""]:
            return b""
        try:
            rules = parse_rules(words)
        except GenericError as error:
            raise BadValue(error.text.decode("utf-8", "surrogateescape")) from None
        # A rule that is given again takes the later place: it may be in an included file as well.
        earlier = [rule for rule in self.rules(previous or b"") if rule not in rules] if adding else []
        return b" ; ".join(b" ".join((glob, *options)) for glob, options in [*earlier, *rules])

    @staticmethod
    def rules(value: bytes) -> list[Rule]:
        """The globs, each with its options and their values."""
        return parse_rules(value.split())

    def lines(self, name: bytes, value: bytes, default: Any) -> list[bytes]:
        rules = self.rules(value)
        return [b" ".join((name, *map(_in_file, (glob, *options)))) for glob, options in rules] or [name + b' ""']


def _in_file(word: bytes) -> bytes:
    """A word without blanks, as a configuration file has it."""
    return word if re.fullmatch(rb"[^\"'\\#\x00-\x20\x7f-\xff]+", word) else quote(word)


# Of client-output-buffer-limit: (hard bytes, soft bytes, soft seconds); 0 turns a limit off.
Limit = tuple[int, int, int]


class BufferLimits(Kind):
    """`<class> <hard> <soft> <seconds>` groups; classes that are not named keep their limits."""

    several_words = True

    def parse(self, words: list[bytes], previous: Any = None, *, adding: bool = False) -> bytes:
        if len(words) % 4:
            raise BadValue("Wrong number of arguments in buffer limit configuration.")
        limits = self.by_class(previous or b"")
        for start in range(0, len(words), 4):
            name = words[start].lower()
            name = b"slave" if name == b"replica" else name
            if name not in (b"normal", b"slave", b"pubsub"):
                raise BadValue("Invalid client class specified in buffer limit configuration.")
            limits[name] = self._limit(words[start + 1 : start + 4])
        return b" ".join(b"%b %d %d %d" % (name, *limit) for name, limit in limits.items())

    @staticmethod
    def _limit(words: list[bytes]) -> Limit:
        try:
            seconds = loose_integer(words[2])
            if seconds is None:
                raise BadValue("argument couldn't be parsed into an integer")
            return parse_memory(words[0]), parse_memory(words[1]), _in_range(seconds, 0, INT32_MAX)
        except BadValue:
            raise BadValue("Error in hard, soft or soft_seconds setting in buffer limit configuration.") from None

    @staticmethod
    def by_class(value: bytes) -> dict[bytes, Limit]:
        """The limits of `normal`, `slave` (replicas) and `pubsub`."""
        words = value.split()
        return {
            words[start]: (int(words[start + 1]), int(words[start + 2]), int(words[start + 3]))
            for start in range(0, len(words), 4)
        }

    def lines(self, name: bytes, value: bytes, default: Any) -> list[bytes]:
        usual = self.by_class(default)
        return [
            b"%b %b %b %b %d"
            % (name, b"replica" if group == b"slave" else group, format_memory(hard), format_memory(soft), seconds)
            for group, (hard, soft, seconds) in self.by_class(value).items()
            if usual.get(group) != (hard, soft, seconds)
        ]
