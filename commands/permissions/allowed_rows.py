"""The ordinary commands that a user may run, decided when its rules change and not at each request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from ...persistence.grammar.kept import KEPT_COUNT
from ...persistence.grammar.streams import words_of
from ...store.glob import matches
from ..core.keys import VARIABLE, key_positions
from ..core.table import NOT_KEY, TABLE, Handler, KeySpec, Row
from .selector import READ, WRITE, Selector, needed_access
from .user import User

# Largest number of words where the arity has no upper end; the reader allows fewer.
WORDS_COUNT_MAX: Final = 2**31


class Check(ABC):
    """What the arguments of a request with a valid arity decide."""

    @abstractmethod
    def allows(self, argv: list[bytes]) -> bool:
        """Whether the request may be run."""


class RulesCheck(Check):
    """All rules of the user."""

    def __init__(self, user: User, row: Row) -> None:
        self._user = user
        self._row = row

    def allows(self, argv: list[bytes]) -> bool:
        """Whether the request may be run."""
        return self._user.check(self._row, words_of(argv)) is None


class KeyCheck(Check):
    """The rules of the selectors that allow the command: one must allow all keys."""

    def __init__(self, row: Row, selectors: list[Selector]) -> None:
        specs = [spec for spec in row.keys if NOT_KEY not in spec.access]
        # For each selector, the specs with the globs that allow their access.
        self._rules = [[(spec, selector.globs_for(_access_of(spec))) for spec in specs] for selector in selectors]

    def allows(self, argv: list[bytes]) -> bool:
        """Whether the request may be run."""
        return any(_allow_keys(rules, argv) for rules in self._rules)


class OneKeyCheck(Check):
    """The key rules for a command whose only key is its first argument."""

    def __init__(self, row: Row, selectors: list[Selector]) -> None:
        access = _access_of(row.keys[0])
        self._globs = [glob for selector in selectors for glob in selector.globs_for(access)]

    def allows(self, argv: list[bytes]) -> bool:
        """Whether the request may be run. Hot (benchmark: condition-worker-user-xadd)."""
        for glob in self._globs:  # noqa: SIM110 - for every request a generator is too slow
            if matches(glob, argv[1]):
                return True
        return False


def _access_of(spec: KeySpec) -> int:
    """The access that a request needs at most."""
    return READ | WRITE if VARIABLE in spec.access else needed_access(spec, [])


def _allow_keys(rules: list[tuple[KeySpec, list[bytes]]], argv: list[bytes]) -> bool:
    for spec, globs in rules:
        for position in key_positions(spec, argv):
            for glob in globs:
                if matches(glob, argv[position]):
                    break
            else:
                return False
    return True


# (handler, fewest words, most words, row, its histogram of short calls, the check of its arguments if they need one).
AllowedRow = tuple[Handler, int, int, Row, "list[int]", "Check | None"]
# By the command word in its usual spellings, or the mark of a request that is kept as it was sent.
AllowedRows = dict[bytes, AllowedRow]

NO_ROWS: Final[AllowedRows] = {}


def allowed_rows(user: User, table: Mapping[bytes, Row] = TABLE) -> AllowedRows:
    """The ordinary commands that this user may run. A request that a check refuses may still be allowed: the rules
    decide it.
    """
    found: AllowedRows = {}
    for name, row in table.items():
        if row.handler is None or not row.is_ordinary:
            continue
        check = None if user.is_unrestricted else _check_of(user, row)
        words_max = row.arity if row.arity > 0 else WORDS_COUNT_MAX
        short_calls = row.recorder.short
        found[name] = found[name.lower()] = (row.handler, abs(row.arity), words_max, row, short_calls, check)
        if row.sent_form is not None:
            mark, handler = row.sent_form
            found[mark] = (handler, KEPT_COUNT, KEPT_COUNT, row, short_calls, check)
    return found


def _check_of(user: User, row: Row) -> Check | None:
    """The check that the arguments of this command need; None if they need none."""
    has_keys = any(NOT_KEY not in spec.access for spec in row.keys)
    selectors = [each for each in user.selectors if each.commands.allows(row, [])]
    for each in selectors:
        if (each.all_keys or not has_keys) and (each.all_channels or row.channels is None):
            return None
    if row.channels is not None or not selectors:
        return RulesCheck(user, row)
    return OneKeyCheck(row, selectors) if row.has_one_key else KeyCheck(row, selectors)
