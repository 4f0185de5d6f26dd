"""The commands that a user may run, decided when its rules change and not at each request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from ...persistence.grammar.kept import KEPT_COUNT
from ...persistence.grammar.streams import words_of
from ...store.glob import matches
from ..core.keys import VARIABLE, key_positions
from ..core.table import NOT_KEY, TABLE, Flag, Handler, KeySpec, Row, Trait
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


class AllowedRow:
    """A command that a user may run, and what its requests must look like."""

    __slots__ = ("check", "handler", "row", "short_calls", "words_max", "words_min")

    def __init__(self, row: Row, handler: Handler, check: Check | None, words_min: int, words_max: int) -> None:
        self.row: Final = row
        self.handler: Final = handler
        # Of the arguments, if they need one.
        self.check: Final = check
        # Fewest and most words of a request.
        self.words_min: Final = words_min
        self.words_max: Final = words_max
        # The histogram of short calls.
        self.short_calls: Final = row.recorder.short


# By the command word in its usual spellings, or the mark of a request that is kept as it was sent. A container has a
# table of its own, by the words of its commands.
AllowedRows = dict[bytes, "AllowedRow | dict[bytes, AllowedRow]"]

NO_ROWS: Final[AllowedRows] = {}


def find_allowed(rows: AllowedRows, argv: list[bytes]) -> AllowedRow | None:
    """The command that a request runs, if its user may run it; None if other checks must decide that."""
    found = rows.get(argv[0])
    if isinstance(found, dict):
        found = found.get(argv[1]) if len(argv) > 1 else None
    if found is None or not found.words_min <= len(argv) <= found.words_max:
        return None
    check = found.check
    return found if check is None or check.allows(argv) else None


def table_of(user: User, *, with_writes: bool) -> AllowedRows:
    """The commands that this user may run, from the table that is kept with its rules: see `allowed_rows`."""
    kind = "writes" if with_writes else "reads"
    found = user.tables.get(kind)
    if found is None:
        found = user.tables[kind] = allowed_rows(user, with_writes=with_writes)
    return found


def subscriber_table_of(user: User) -> AllowedRows:
    """The commands that a subscriber with this user may run, with either protocol, from the table that is kept
    with the user's rules.
    """
    found = user.tables.get("subscriber")
    if found is None:
        table = {name: row for name, row in TABLE.items() if Trait.WHILE_SUBSCRIBED in row.traits}
        found = user.tables["subscriber"] = allowed_rows(user, table)
    return found


def allowed_rows(user: User, table: Mapping[bytes, Row] = TABLE, *, with_writes: bool = True) -> AllowedRows:
    """The commands that this user may run, without those that write unless `with_writes`. A request that a
    check refuses may still be allowed: the rules decide it. A container alone (COMMAND) is left to the other checks.
    """
    found: AllowedRows = {}
    for name, row in table.items():
        if row.subcommands:
            found[name] = found[name.lower()] = _rows_of(user, row.subcommands, with_writes)
        else:
            found.update(_rows_of(user, {name: row}, with_writes))
            if row.sent_form is not None and (with_writes or not _may_write(row)):
                mark, handler = row.sent_form
                found[mark] = AllowedRow(row, handler, _check_of(user, row), KEPT_COUNT, KEPT_COUNT)
    return found


def _rows_of(user: User, table: Mapping[bytes, Row], with_writes: bool) -> dict[bytes, AllowedRow]:
    """The commands of `table`, which has no containers, without kept forms."""
    found: dict[bytes, AllowedRow] = {}
    for name, row in table.items():
        if row.handler is not None and not _has_own_refusal(row) and (with_writes or not _may_write(row)):
            words_max = row.arity if row.arity > 0 else WORDS_COUNT_MAX
            allowed = AllowedRow(row, row.handler, _check_of(user, row), abs(row.arity), words_max)
            found[name] = found[name.lower()] = allowed
    return found


def _has_own_refusal(row: Row) -> bool:
    """Whether more than the rules and the state of the client can refuse the command."""
    return row.refusal_if_disabled is not None or Flag.NO_MULTI in row.flags


def _may_write(row: Row) -> bool:
    """Whether the command, or a queue or script that it runs, may write."""
    return row.is_write or Trait.RUNS_QUEUE in row.traits or Flag.SCRIPT_RUNNER in row.flags


def _check_of(user: User, row: Row) -> Check | None:
    """The check that the arguments of this command need; None if they need none."""
    if user.is_unrestricted:
        return None
    has_keys = any(NOT_KEY not in spec.access for spec in row.keys)
    selectors = [each for each in user.selectors if each.commands.allows(row, [])]
    for each in selectors:
        if (each.all_keys or not has_keys) and (each.all_channels or row.channels is None):
            return None
    if row.channels is not None or not selectors:
        return RulesCheck(user, row)
    if any(spec.is_loose for spec in row.keys):  # the access depends on how the number of keys is spelled
        return RulesCheck(user, row)
    return OneKeyCheck(row, selectors) if row.has_one_key else KeyCheck(row, selectors)
