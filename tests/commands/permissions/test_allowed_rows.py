"""The table of a user's commands against its rules, for every ordinary command."""

from __future__ import annotations

import pytest

from differential.plain_requests import requests_to
from headrace.commands import registry
from headrace.commands.core.keys import VARIABLE
from headrace.commands.core.lookup import find_row
from headrace.commands.core.table import TABLE
from headrace.commands.permissions.allowed_rows import allowed_rows
from headrace.commands.permissions.user import User
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
    for row in TABLE.values():
        if row.handler is None or not row.is_ordinary:
            continue
        for request in requests_to(row, REQUESTS_COUNT):
            argv = list(request)
            try:
                find_row(argv)
            except ReplyError:
                continue  # the dispatcher looks at the number of words before it asks the table's check
            found = rows[argv[0]]
            is_allowed = found[5] is None or found[5].allows(argv)
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
    check = allowed_rows(user)[ADDITION][5]
    assert check is not None
    assert check.allows([ADDITION, b"jobs:1", b"f", b""])
    assert not check.allows([ADDITION, b"other", b"f", b""])
