"""A selector: commands, keys and channels that are allowed together. Each user has one, and may have more."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ...store.glob import matches
from ...store.memory import texts_size
from ..core.keys import VARIABLE, access_of, find_keys
from ..core.table import KeySpec, Row
from .command_rules import CommandRules
from .denial import Denial
from .rules import CHANNELS_ALREADY_OPEN, KEYS_ALREADY_OPEN, SYNTAX, BadRule, has_blanks

READ: Final = 1
WRITE: Final = 2
ACCESS_LETTERS: Final = {ord("R"): READ, ord("W"): WRITE}

# Bytes of a selector without rules, as measured over ten thousand of them.
SELECTOR_SIZE: Final = 150


class Selector:
    """Rules that apply together: a request is allowed if its command, all its keys and all its channels are."""

    __slots__ = ("all_channels", "all_keys", "channels", "commands", "keys")

    def __init__(self, *, all_channels: bool = False) -> None:
        self.commands = CommandRules()
        self.all_keys = False
        # By glob: the allowed access, READ, WRITE or both.
        self.keys: dict[bytes, int] = {}
        self.all_channels = all_channels
        # Globs, in the order in which they were given.
        self.channels: dict[bytes, None] = {}

    def copy(self) -> Selector:
        """An independent copy."""
        twin = Selector(all_channels=self.all_channels)
        twin.commands, twin.all_keys = self.commands.copy(), self.all_keys
        twin.keys, twin.channels = self.keys.copy(), self.channels.copy()
        return twin

    @property
    def memory_size(self) -> int:
        """Size of the selector with its rules."""
        return SELECTOR_SIZE + self.commands.memory_size + texts_size(self.keys) + texts_size(self.channels)

    @property
    def allows_everything(self) -> bool:
        """Whether no request can be refused."""
        return self.all_keys and self.all_channels and self.commands.allows_everything

    # -- rules -----------------------------------------------------------------------------------

    def apply(self, rule: bytes) -> None:
        """Apply one rule for commands, keys or channels. Raises BadRule."""
        word = rule.lower()
        if word in (b"allcommands", b"nocommands"):
            self.commands.apply(b"+@all" if word == b"allcommands" else b"-@all")
        elif word in (b"allkeys", b"~*", b"resetkeys"):
            self.all_keys = word != b"resetkeys"
            self.keys.clear()
        elif word in (b"allchannels", b"&*", b"resetchannels"):
            self.all_channels = word != b"resetchannels"
            self.channels.clear()
        elif word[:1] in (b"+", b"-"):
            self.commands.apply(rule)
        elif word[:1] in (b"~", b"%"):
            self._add_keys(rule)
        elif word[:1] == b"&":
            self._add_channels(rule[1:])
        else:
            raise BadRule(SYNTAX)

    def _add_keys(self, rule: bytes) -> None:
        """Apply `~glob`, or `%R~glob` and `%W~glob` for one kind of access."""
        if self.all_keys:
            raise BadRule(KEYS_ALREADY_OPEN)
        letters, tilde, glob = rule.partition(b"~")
        access = 0
        for letter in letters[1:].upper():
            if not ACCESS_LETTERS.get(letter, 0) & ~access:
                raise BadRule(SYNTAX)
            access |= ACCESS_LETTERS[letter]
        if not tilde or has_blanks(glob) or bool(letters) != bool(access):
            raise BadRule(SYNTAX)
        self.keys[glob] = self.keys.get(glob, 0) | (access or READ | WRITE)

    def _add_channels(self, glob: bytes) -> None:
        if self.all_channels:
            raise BadRule(CHANNELS_ALREADY_OPEN)
        if has_blanks(glob):
            raise BadRule(SYNTAX)
        self.channels[glob] = None

    def describe_keys(self) -> bytes:
        """The key rules as ACL GETUSER shows them."""
        return b"~*" if self.all_keys else b" ".join(_PREFIXES[access] + glob for glob, access in self.keys.items())

    def describe_channels(self) -> bytes:
        """The channel rules as ACL GETUSER shows them."""
        return b"&*" if self.all_channels else b" ".join(b"&" + glob for glob in self.channels)

    def describe(self) -> bytes:
        """All rules in one line, as ACL LIST shows them."""
        channels = self.describe_channels()
        if not self.all_channels:
            channels = b"resetchannels " + channels
        return b" ".join(part for part in (self.describe_keys(), channels.strip(), self.commands.describe()) if part)

    # -- requests --------------------------------------------------------------------------------

    def check(self, row: Row, argv: list[bytes]) -> Denial | None:
        """The refusal of a request with a valid arity; None if it is allowed."""
        if not self.commands.allows(row, argv):
            return Denial("command", row.name_lower)
        if row.keys and not self.all_keys:
            for position, (key, spec) in enumerate(find_keys(row, argv)):
                if not self._allows_key(key, needed_access(spec, argv)):
                    return Denial("key", key, position)
        named = row.channels
        if named is not None and not self.all_channels:
            for position, channel in enumerate(argv[named.words]):
                if not self.allows_channel(channel, is_pattern=named.are_patterns):
                    return Denial("channel", channel, position)
        return None

    def _allows_key(self, key: bytes, access: int) -> bool:
        """Whether an access to the key is allowed. 0 is a look at the key's name or existence, which any pattern
        allows.
        """
        for glob, allowed in self.keys.items():  # noqa: SIM110 - for every key of every request a generator is too slow
            if allowed & access == access and matches(glob, key):
                return True
        return False

    def globs_for(self, access: int) -> list[bytes]:
        """The globs that allow this access to the keys that they match."""
        return [b"*"] if self.all_keys else [glob for glob, allowed in self.keys.items() if allowed & access == access]

    def may_read(self, key: bytes) -> bool:
        """Whether the content of this key may be read."""
        return self.all_keys or self._allows_key(key, READ)

    def reads_all_keys(self) -> bool:
        """Whether the content of every key may be read."""
        return self.all_keys or bool(self.keys.get(b"*", 0) & READ)

    def may_write(self, key: bytes) -> bool:
        """Whether this key may be written."""
        return self.all_keys or self._allows_key(key, WRITE)

    def allows_channel(self, channel: bytes, *, is_pattern: bool = False) -> bool:
        """Whether subscribing to this channel is allowed; to a pattern only if it is one of the rules, letter by
        letter.
        """
        if self.all_channels or is_pattern:
            return self.all_channels or channel in self.channels
        return any(matches(glob, channel) for glob in self.channels)


_PREFIXES: Final = {READ: b"%R~", WRITE: b"%W~", READ | WRITE: b"~"}


def needed_access(spec: KeySpec, argv: list[bytes]) -> int:
    """READ if the request reads the values of its keys, WRITE if it changes them."""
    names = spec.access
    return _access(tuple(access_of(spec, argv)) if VARIABLE in names else names)


@lru_cache(maxsize=256)
def _access(names: tuple[str, ...]) -> int:
    kinds = {name.lower() for name in names}
    return (READ if "access" in kinds else 0) | (WRITE if kinds & {"insert", "update", "delete"} else 0)
