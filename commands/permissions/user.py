"""A user: whether it is enabled, its passwords, and its selectors."""

from __future__ import annotations

import hashlib
import hmac
import re
from sys import getsizeof
from typing import Any, Final

from ...store.memory import texts_size
from ...store.object_sizes import text_size
from ..core.table import DECLARED, Row
from .denial import Denial
from .rules import BAD_HASH, NO_SUCH_PASSWORD, BadRule
from .selector import Selector

# Bytes of a user without its name, passwords and selectors.
USER_SIZE: Final = 120

_DIGEST: Final = re.compile(rb"[0-9a-f]{64}")


def digest_of(password: bytes) -> bytes:
    """SHA-256 in hexadecimal, which is stored in place of the password."""
    return hashlib.sha256(password).hexdigest().encode()


class User:
    """A user. A new one is disabled, without passwords and without rights."""

    __slots__ = (
        "enabled",
        "is_unrestricted",
        "memory_size",
        "name",
        "nopass",
        "passwords",
        "sanitizes_payload",
        "selectors",
        "tables",
    )

    def __init__(self, name: bytes, *, all_channels: bool = False) -> None:
        self.name = name
        self.enabled = False
        # Whether any password is accepted.
        self.nopass = False
        # Only shown: RESTORE checks every payload.
        self.sanitizes_payload = True
        # Digests, in the order in which they were given.
        self.passwords: dict[bytes, None] = {}
        # The first is the user's own; the others were added in parentheses.
        self.selectors = [Selector(all_channels=all_channels)]
        # Whether no request of the user can be refused, so that none needs a check.
        self.is_unrestricted = False
        # The tables that `allowed_rows` has made since the rules changed, by their kind.
        self.tables: dict[str, dict[bytes, Any]] = {}
        # Size of the user; 0 before the first rules are applied.
        self.memory_size = 0

    def copy(self) -> User:
        """An independent copy."""
        twin = User(self.name)
        twin.become(self)
        return twin

    def become(self, other: User) -> None:
        """Copy everything but the name from another user: clients that are logged in continue under the new rules."""
        self.enabled, self.nopass, self.sanitizes_payload = other.enabled, other.nopass, other.sanitizes_payload
        self.passwords = other.passwords.copy()
        self.selectors = [selector.copy() for selector in other.selectors]
        self.is_unrestricted, self.memory_size = other.is_unrestricted, other.memory_size
        self.tables.clear()

    # -- rules -----------------------------------------------------------------------------------

    def apply_all(self, rules: list[bytes], *, all_channels: bool) -> None:
        """Apply rules in order; a new selector begins with `all_channels`. Raises BadRule after the rules before the
        wrong one.
        """
        self.tables.clear()
        for rule in rules:
            try:
                self._apply(rule, all_channels)
            except BadRule as bad:
                bad.rule = rule
                raise
        self.is_unrestricted = self.selectors[0].allows_everything
        self.memory_size = self._measure()

    def _measure(self) -> int:
        selectors = self.selectors
        return (
            USER_SIZE
            + text_size(self.name)
            + texts_size(self.passwords)
            + getsizeof(selectors)
            + sum(selector.memory_size for selector in selectors)
        )

    def _apply(self, rule: bytes, all_channels: bool) -> None:
        word = rule.lower()
        if word in (b"on", b"off"):
            self.enabled = word == b"on"
        elif word in (b"nopass", b"resetpass"):
            self.nopass = word == b"nopass"
            self.passwords.clear()
        elif word in (b"sanitize-payload", b"skip-sanitize-payload"):
            self.sanitizes_payload = word == b"sanitize-payload"
        elif word == b"reset":
            self.become(User(self.name, all_channels=all_channels))
        elif word == b"clearselectors":
            del self.selectors[1:]
        elif rule[:1] in (b">", b"#"):
            self._add_password(digest_of(rule[1:]) if rule[:1] == b">" else _checked(rule[1:]))
        elif rule[:1] in (b"<", b"!"):
            self._remove_password(digest_of(rule[1:]) if rule[:1] == b"<" else _checked(rule[1:]))
        elif rule.startswith(b"(") and rule.endswith(b")"):
            selector = Selector(all_channels=all_channels)
            for each in rule[1:-1].split():
                selector.apply(each)
            self.selectors.append(selector)
        elif rule:
            self.selectors[0].apply(rule)

    def _add_password(self, digest: bytes) -> None:
        self.nopass = False
        self.passwords[digest] = None

    def _remove_password(self, digest: bytes) -> None:
        if digest not in self.passwords:
            raise BadRule(NO_SUCH_PASSWORD)
        del self.passwords[digest]

    def flags(self) -> list[bytes]:
        """The flags in the form of ACL GETUSER."""
        return [
            b"on" if self.enabled else b"off",
            *([b"nopass"] if self.nopass else []),
            b"sanitize-payload" if self.sanitizes_payload else b"skip-sanitize-payload",
        ]

    def describe(self) -> bytes:
        """The line that declares this user, in a file or in ACL LIST."""
        return b" ".join(self.words())

    def words(self) -> list[bytes]:
        """The words of that line; a selector in parentheses is one of them."""
        own, *others = self.selectors
        words = [b"user", self.name, *self.flags(), *(b"#" + digest for digest in self.passwords)]
        return words + own.describe().split(b" ") + [b"(%b)" % selector.describe() for selector in others]

    # -- requests --------------------------------------------------------------------------------

    @property
    def needs_login(self) -> bool:
        """Whether a connection must log in to become this user; for the default user."""
        return not (self.nopass and self.enabled)

    def accepts(self, password: bytes) -> bool:
        """Whether the user may log in with this password. Takes the same time for each of its passwords."""
        if self.nopass and self.enabled:
            return True
        digest = digest_of(password)
        fits = [hmac.compare_digest(digest, each) for each in self.passwords]
        return self.enabled and any(fits)

    def check(self, row: Row, argv: list[bytes]) -> Denial | None:
        """The refusal of a request with a valid arity; None if one selector allows all of it."""
        nearest: Denial | None = None
        for selector in self.selectors:
            denial = selector.check(row, argv)
            if denial is None:
                return None
            if nearest is None or denial.rank > nearest.rank:
                nearest = denial
        return nearest

    def may_read(self, key: bytes) -> bool:
        """Whether a selector allows reading this key with any command."""
        return self.is_unrestricted or any(selector.may_read(key) for selector in self.selectors)

    def may_write(self, key: bytes) -> bool:
        """Whether a selector allows writing this key with any command."""
        return self.is_unrestricted or any(selector.may_write(key) for selector in self.selectors)

    def may_read_all(self, row: Row, argv: list[bytes]) -> bool:
        """Whether a selector allows this request, and reading every key with it."""
        if self.is_unrestricted:
            return True
        return any(selector.reads_all_keys() and selector.check(row, argv) is None for selector in self.selectors)

    def may_monitor(self) -> bool:
        """Whether a selector allows MONITOR."""
        row = DECLARED[b"MONITOR"]
        return any(selector.commands.allows(row, [b"MONITOR"]) for selector in self.selectors)

    def allows_channel(self, channel: bytes, *, is_pattern: bool = False) -> bool:
        """Whether a selector allows subscribing to this channel or pattern."""
        return any(selector.allows_channel(channel, is_pattern=is_pattern) for selector in self.selectors)


def _checked(digest: bytes) -> bytes:
    if not _DIGEST.fullmatch(digest):
        raise BadRule(BAD_HASH)
    return digest
