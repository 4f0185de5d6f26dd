"""The changes that a CONFIG SET asks for: whether they are allowed, and their values. `config` puts them in force.

These are functions, because the class `Config` cannot be compiled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from ...commands.core.directives import Directives
from ...store.errors import GenericError, shown
from .directive_kinds import BadValue
from .directives import BY_NAME, IMMUTABLE, PROTECTED, Directive

# The name as it was typed, in lower case, the directive, and the text of the value.
Request = tuple[bytes, Directive, bytes]

# The directives whose value depends on the one of the other.
COMPARED: Final = frozenset((b"array-sparse-kmax", b"array-sparse-kmin"))


def set_failed(name: bytes, why: str) -> GenericError:
    """The error of a directive that cannot be set."""
    return GenericError(
        b"CONFIG SET failed (possibly related to argument '%b') - %b" % (name, why.encode("utf-8", "surrogateescape"))
    )


def requested(protected: bytes, pairs: Iterable[tuple[bytes, bytes]], *, is_local: bool) -> list[Request]:
    """The requests of these (name, value) pairs. Raises GenericError unless all directives exist and may change now.

    `protected` is the value of `enable-protected-configs`. `is_local`: the client is on this machine.
    """
    may_change_protected = protected == b"yes" or (is_local and protected == b"local")
    requests: list[Request] = []
    seen: set[bytes] = set()
    for typed, value in pairs:
        name = typed.lower()
        directive = BY_NAME.get(name)
        if directive is None:
            raise GenericError(b"Unknown option or number of arguments for CONFIG SET - '%b'" % shown(typed))
        if directive.change is IMMUTABLE:
            raise set_failed(typed, "can't set immutable config")
        if directive.change is PROTECTED and not may_change_protected:
            raise set_failed(typed, "can't set protected config")
        if directive.name in seen:
            raise set_failed(typed, "duplicate parameter")
        seen.add(directive.name)
        requests.append((name, directive, value))
    return requests


def assign_all(
    config: Directives, requests: list[Request], reread: Collection[bytes]
) -> tuple[list[tuple[Directive, Any]], list[tuple[bytes, Directive]]]:
    """Set all values, or none. Raises GenericError. Returns the values before, and the directives that have changed;
    those in `reread` always count as changed.
    """
    before: list[tuple[Directive, Any]] = [(each, getattr(config, each.attribute)) for _, each, _ in requests]
    changed: list[tuple[bytes, Directive]] = []
    for index, (typed, directive, text) in enumerate(requests):
        kind, old_value = directive.kind, before[index][1]
        words = [text]
        if kind.several_words:
            words = text.split(b" ") if text else []
        try:
            value = kind.parse(words, old_value)
            setattr(config, directive.attribute, value)
            if directive.name in COMPARED:
                config.compare(directive)
        except BadValue as bad:
            for each, earlier in before:
                setattr(config, each.attribute, earlier)
            raise set_failed(typed, str(bad)) from None
        if value != old_value or directive.name in reread:
            changed.append((typed, directive))
    return before, changed
