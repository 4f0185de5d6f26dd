"""The addresses of headrace-compare, and where passwords come from."""

from __future__ import annotations

import pytest

from headrace.comparison.address import Address, parse
from headrace.comparison.errors import CannotCompare

GOOD = {
    "localhost:7000": Address("A", "localhost", 7000),
    "localhost": Address("A", "localhost", 6379),
    "[::1]:7000": Address("A", "::1", 7000),
    "redis://db.example": Address("A", "db.example", 6379),
    "redis://ann:p%40ss@db.example:7000/3": Address("A", "db.example", 7000, "ann", "p@ss", 3),
    "redis://:secret@db.example/": Address("A", "db.example", 6379, None, "secret"),
    "rediss://db.example:7000": Address("A", "db.example", 7000, is_tls=True),
    "unix:///run/redis.sock": Address("A", "", 6379, socket_path="/run/redis.sock"),
}
BAD = {
    "localhost:seven": "it has no valid port",
    "localhost:70000": "it has no valid port",
    "http://:secret@localhost": "its scheme is unknown",
    "redis://:secret@": "it has no host",
    "localhost:7000/3": "only a URL has a path",
    "redis://:secret@localhost/x": "its path is not the number of a database",
}


@pytest.mark.parametrize("text", GOOD)
def test_address_is_read(text: str) -> None:
    assert parse("A", text, {}) == GOOD[text]


@pytest.mark.parametrize("text", BAD)
def test_wrong_address_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(CannotCompare, match=BAD[text]) as caught:
        parse("A", text, {})
    assert "secret" not in str(caught.value)


def test_password_is_taken_from_the_address_then_from_the_environment() -> None:
    environment = {"REDISCLI_AUTH": "both", "HEADRACE_COMPARE_PASSWORD_B": "own"}
    assert parse("A", "redis://:mine@h", environment).password == "mine"
    assert parse("A", "h", environment).password == "both"
    assert parse("B", "h", environment).password == "own"
    assert "own" not in repr(parse("B", "h", environment))
