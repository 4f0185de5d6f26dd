"""The table of a user's commands against its rules, for every ordinary command."""

from __future__ import annotations

import pytest

from differential.plain_requests import requests_to
from headrace.commands import registry
from headrace.commands.core.keys import VARIABLE
from headrace.commands.core.lookup import find_row
from headrace.commands.core.table import Flag, all_rows
from headrace.commands.permissions.allowed_rows import AllowedRow, allowed_rows, find_allowed, table_of
from headrace.commands.permissions.user import User
from headrace.commands.permissions.users import Users
from headrace.persistence.grammar.kept import ADDITION
from headrace.store.errors import ReplyError

assert registry.FAMILIES

REQUESTS_COUNT = 30
RULES = [
    "+@all ~* &*",
    "+@all ~*",
    "+@all",
    "+@all ~s* &*",
    "+@all %R~s* %W~t* ~num",
    "+@stream -xadd ~s ~t ~[a-m]*",
    "+xadd +publish +get|s ~?* &news.*",
    "+@read ~s* (+@write ~t* &*) (+@all ~x*)",
    "-@all",
    "+@all -@stream ~* &* resetchannels",
]


@pytest.mark.parametrize("rules", RULES)
def test_the_table_of_a_user_says_what_its_rules_say(rules: str) -> None:
    user = User(b"al")
    user.apply_all(_rules(rules), all_channels=False)
    rows = allowed_rows(user)
    compared = 0
    for row in all_rows():
        if row.handler is None or row.subcommands:
            continue
        for request in requests_to(row, REQUESTS_COUNT):
            argv = list(request)
            try:
                find_row(argv)
            except ReplyError:
                continue
            found = find_allowed(rows, argv)
            if Flag.NO_MULTI in row.flags or row.refusal_if_disabled is not None:
                assert found is None, argv
                continue
            is_allowed = found is not None and found.row is row
            by_rules = user.check(row, argv) is None
            if any(VARIABLE in spec.access for spec in row.keys):
                assert by_rules or not is_allowed, argv
            else:
                assert is_allowed == by_rules, argv
            compared += 1
    assert compared > 500


def _rules(text: str) -> list[bytes]:
    """The words of the rules; a selector in parentheses is one of them."""
    words, depth = [b""], 0
    for letter in text.encode():
        depth += {ord("("): 1, ord(")"): -1}.get(letter, 0)
        if letter == ord(" ") and not depth:
            words.append(b"")
        else:
            words[-1] += bytes([letter])
    return words


def test_a_request_that_is_kept_as_it_was_sent_is_checked_by_its_key() -> None:
    user = User(b"al")
    user.apply_all([b"+xadd", b"~jobs*"], all_channels=False)
    rows = allowed_rows(user)
    assert find_allowed(rows, [ADDITION, b"jobs:1", b"f", b""]) is rows[ADDITION]
    assert find_allowed(rows, [ADDITION, b"other", b"f", b""]) is None


@pytest.mark.parametrize("argv", [[b"XGROUP"], [b"COMMAND"], [b"XGROUP", b"CREATE", b"s"], [b"XINFO", b"none"]])
def test_a_container_without_an_ordinary_command_is_left_to_the_other_checks(argv: list[bytes]) -> None:
    user = User(b"al")
    user.apply_all([b"+@all", b"~*", b"&*"], all_channels=False)
    rows = allowed_rows(user)
    assert find_allowed(rows, argv) is None
    found = find_allowed(rows, [b"XGROUP", b"CREATE", b"s", b"g", b"$"])
    assert isinstance(found, AllowedRow)
    assert found.row.name == "XGROUP|CREATE"


def test_the_table_of_a_user_is_kept_until_its_own_rules_change() -> None:
    users = Users()
    users.set(b"al", [b"on", b"nopass", b"+get", b"~*"])
    al, default = users.by_name[b"al"], users.default
    table, default_table = table_of(al, with_writes=True), table_of(default, with_writes=True)
    assert table_of(al, with_writes=True) is table
    assert table_of(al, with_writes=False) is not table
    users.set(b"al", [b"+set"])
    assert find_allowed(table_of(al, with_writes=True), [b"SET", b"a", b"b"]) is not None
    assert find_allowed(table_of(al, with_writes=False), [b"SET", b"a", b"b"]) is None
    assert table_of(default, with_writes=True) is default_table
    users.set(b"al", [b"reset"])
    assert find_allowed(table_of(al, with_writes=True), [b"GET", b"a"]) is None
    users.forget_tables()
    assert table_of(default, with_writes=True) is not default_table
