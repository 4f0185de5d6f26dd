"""How often Lua looks at the limits of a script, counted without a clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.commands.scripting.interpreter import Interpreter

pytest.importorskip("lupa.lua51")

NAMES = (b"call", b"pcall", b"log", b"sha1hex", b"setresp", b"set_repl", b"acl_check_cmd")
LOOP = b"for i = 1, 100000 do end return 1"
# More memory than Lua may have while it is looked at only every thousand instructions.
LARGE = b"local t = {} for i = 1, 1000000 do t[i] = i end return 1"


class Checks:
    """Counts the checks of the time limit, which no script exceeds."""

    def __init__(self) -> None:
        self.count = 0

    def over(self) -> int:
        """Not over."""
        self.count += 1
        return 0


def refuse(*arguments: Any) -> None:
    """Stands for the functions of `redis`, which no script here calls."""
    raise AssertionError(arguments)


@pytest.fixture
def checks() -> Checks:
    return Checks()


@pytest.fixture
def count_in(checks: Checks) -> Callable[[bytes], int]:
    """Runs a script, and returns how many checks there were while it ran."""
    lua = Interpreter(dict.fromkeys(NAMES, refuse), checks.over)

    def run(text: bytes) -> int:
        action = lua.compile(text)
        before = checks.count
        assert lua.run(action, [], [], (b"over", b"stopping")) == 1
        return checks.count - before

    return run


def test_a_script_is_looked_at_every_thousand_instructions(count_in: Callable[[bytes], int]) -> None:
    assert 95 <= count_in(LOOP) <= 105


def test_a_large_script_is_looked_at_more_often_and_the_next_one_is_not(count_in: Callable[[bytes], int]) -> None:
    usual = count_in(LOOP)
    instructions = 3_000_000
    assert count_in(LARGE) > 2 * instructions / 1000
    assert abs(count_in(LOOP) - usual) <= 1


def test_nothing_is_looked_at_between_scripts(checks: Checks, count_in: Callable[[bytes], int]) -> None:
    count_in(LOOP)
    before = checks.count
    for _ in range(300):
        count_in(b"return 1")
    # Each takes far fewer than a thousand instructions, what begins and ends it included.
    assert checks.count - before <= 30
