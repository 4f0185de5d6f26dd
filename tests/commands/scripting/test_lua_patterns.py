"""The matcher in Lua finds what the one in C finds, and only fast searches run in C."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import headrace.commands.scripting.interpreter as interpreter

lua51 = pytest.importorskip("lupa.lua51")

SEED = 18
SEARCHES_COUNT = 20_000
# The items of random patterns; `\0` is a zero byte in Lua.
PIECES = (
    "a", "b", ".", "%a", "%d", "%s", "%.", "[ab]", "[^a]", "[a-c]", "[%w_]", "[]", "[]a]", "[^]b]", "[a-]", "(", ")",
    "()", "%1", "%2", "%b()", "%bab", "%f[%a]", "%f[^b]", "$", "^", "-", "*", "+", "?", "%", "[", "\\0", "%z",
)  # fmt: skip

BOTH = """
local searcher, is_cheap = ...
return function(text, pattern, init)
    local function theirs() return {string.find(text, pattern, init)} end
    local function ours()
        local first, last, captures = searcher(text, pattern)(init)
        if not first then return {} end
        return {first, last, unpack(captures)}
    end
    local shown = {}
    for index, search in ipairs({theirs, ours}) do
        local ok, found = pcall(search)
        if ok then
            for place, value in ipairs(found) do found[place] = type(value) .. ' ' .. tostring(value) end
            shown[index] = table.concat(found, ', ')
        else
            shown[index] = 'error ' .. found:gsub('^.-:%d+: ', '')
        end
    end
    return shown[1], shown[2]
end
"""


@pytest.fixture(scope="module")
def lua() -> Any:
    return lua51.LuaRuntime(encoding="latin-1", unpack_returned_tuples=True)


@pytest.fixture(scope="module")
def patterns(lua: Any) -> Any:
    source = Path(interpreter.__file__).with_name("patterns.lua").read_text()
    return lua.execute(source, lua.eval("function(text) error('x:1: ' .. text, 0) end"))


def test_searches_find_what_lua_finds(lua: Any, patterns: Any) -> None:
    search = lua.execute(BOTH, patterns.searcher)
    rnd = random.Random(SEED)
    found_count = error_count = 0
    for _ in range(SEARCHES_COUNT):
        text = "".join(rnd.choices("aabb()c1 .\0-", k=rnd.randrange(12)))
        pattern = "".join(rnd.choices(PIECES, k=rnd.randrange(1, 7))).replace("\\0", "\0")
        if not any(mark in pattern.partition("\0")[0] for mark in "^$*+?.([%-"):
            # Without special characters it would be searched as literal text.
            pattern = "." + pattern
        here, there = search(text, pattern, rnd.randint(1, len(text) + 1))
        assert here == there, (text, pattern)
        found_count += bool(here) and not here.startswith("error")
        error_count += here.startswith("error")
    assert found_count > SEARCHES_COUNT / 10
    assert error_count > SEARCHES_COUNT / 10


@pytest.mark.parametrize(
    ("pattern", "size", "is_cheap"),
    [
        ("x", 1_000_000, True),
        ("%s+", 1_000_000, True),
        ("^(.-):(.*)$", 1_000, True),
        ("([^,]+),?", 1_000, True),
        ("a*b", 100_000, False),
        (".*.*x", 1_000, False),
        ("^.-.-.-.-x", 1_000, False),
        ("a?" * 30 + "a", 40, False),
        ("a?" * 400_000, 40, False),
        ("%b()", 40, False),
        ("(", 40, False),
        ("[", 40, False),
        ("%", 40, False),
        (")", 40, False),
    ],
)
def test_patterns_that_are_slow_in_c_run_in_lua(pattern: str, size: int, is_cheap: bool, patterns: Any) -> None:
    assert bool(patterns.is_cheap("a" * size, pattern)) == is_cheap


def test_nesting_is_limited(patterns: Any) -> None:
    with pytest.raises(lua51.LuaError, match="pattern too complex"):
        patterns.searcher("a" * 10_000, "a?" * 10_000)(1)
    first, last, _ = patterns.searcher("a" * 3_000, "a?" * 3_000)(1)
    assert (first, last) == (1, 3_000)
