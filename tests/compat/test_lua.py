"""Lua's libraries on both servers: results, errors with their line numbers, and the bytes of cmsgpack and struct."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from support.servers import Server

pytestmark = pytest.mark.oracle

DATA = Path(__file__).parent / "data" / "lua"
BETWEEN = "\n===\n"
SEED = 18
VALUES_COUNT = 400
PACKED_AT_ONCE = 20

# Names that scripts find only on Redis.
NOT_HERE = {
    "__redis__err__handler", "cjson.decode_array_with_array_mt", "cjson.decode_invalid_numbers",
    "cjson.decode_max_depth", "cjson.encode_invalid_numbers", "cjson.encode_keep_buffer", "cjson.encode_max_depth",
    "cjson.encode_number_precision", "cjson.encode_sparse_array", "cjson.new", "string.dump",
}  # fmt: skip

NAMES = """
local names = {}
for name, value in pairs(_G) do
    names[#names + 1] = name
    if type(value) == 'table' and value ~= _G then
        for field in pairs(value) do names[#names + 1] = name .. '.' .. field end
    end
end
return names
"""

SHOW = """
local function show(v, depth)
    if type(v) ~= 'table' then return type(v) .. ' ' .. (type(v) == 'number' and ('%.17g'):format(v) or tostring(v)) end
    local t = {}
    for k, item in pairs(v) do t[#t + 1] = show(k) .. '=' .. show(item) end
    table.sort(t)
    return '{' .. table.concat(t, ' ') .. '}'
end
local shown = {}
for index, text in ipairs(ARGV) do
    local values = {pcall(cmsgpack.unpack, text)}
    shown[index] = show(values)
end
return shown
"""


@pytest.mark.parametrize("path", sorted(DATA.glob("*.txt")), ids=lambda path: path.stem)
def test_a_library_does_what_it_does_on_redis(path: Path, headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        for script in path.read_text("utf-8").strip("\n").split(BETWEEN):
            assert ours.call("EVAL", script, "0") == theirs.call("EVAL", script, "0"), script


def test_scripts_find_no_name_that_redis_does_not_have(headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        here, there = ({name.decode() for name in wire.ask("EVAL", NAMES, "0")} for wire in (ours, theirs))
    assert there - here == NOT_HERE
    assert here <= there


def draw_value(rnd: random.Random, depth: int = 0) -> str:
    """A value as an expression of Lua. A map has one pair, because the order of several pairs is not defined."""
    kind = rnd.randrange(9 if depth < 18 else 7)
    if kind == 0:
        return rnd.choice(["nil", "true", "false", "1/0", "-1/0", "0/0", "-0.0"])
    if kind == 1:
        return str(rnd.choice([-1, 1]) * (1 << rnd.randrange(66)) + rnd.randint(-2, 2))
    if kind == 2:
        return repr(rnd.choice([rnd.uniform(-10, 10), rnd.uniform(-1, 1) * 10.0 ** rnd.randint(-310, 300)]))
    if kind == 3:
        return f"{rnd.randrange(1 << 26)} * 2 ^ {rnd.randint(-160, 130)}"
    if kind == 4:
        return f"('x'):rep({rnd.choice([0, 1, 31, 32, 255, 256, 65535, 65536])})"
    if kind in (5, 6):
        return str(rnd.randint(-300, 300))
    if kind == 7:
        return f"{{[{draw_value(rnd, 18)} or 1] = {draw_value(rnd, depth + 1)}}}".replace("[0/0 or 1]", "[1]")
    return "{" + ", ".join(draw_value(rnd, depth + 1) for _ in range(rnd.randrange(4))) + "}"


def test_cmsgpack_packs_the_bytes_of_redis_and_reads_them(headrace: Server, oracle: Server) -> None:
    rnd = random.Random(SEED)
    with headrace.connect() as ours, oracle.connect() as theirs:
        for _ in range(VALUES_COUNT // PACKED_AT_ONCE):
            values = [draw_value(rnd) for _ in range(PACKED_AT_ONCE)]
            script = f"return {{{', '.join(f'cmsgpack.pack({value})' for value in values)}}}"
            here, there = ours.ask("EVAL", script, "0"), theirs.ask("EVAL", script, "0")
            assert here == there, script
            short = [text for text in here if len(text) < 2000]
            for _ in range(3):
                assert ours.call("EVAL", SHOW, "0", *short) == theirs.call("EVAL", SHOW, "0", *short), short
                short = [spoiled(text, rnd) for text in short]


def spoiled(text: bytes, rnd: random.Random) -> bytes:
    """A few bytes changed, added or cut off."""
    data = bytearray(text)
    for _ in range(rnd.randint(1, 3)):
        place = rnd.randrange(len(data) + 1)
        data[place : place + rnd.randrange(3)] = rnd.randbytes(rnd.randrange(3))
    return bytes(data)
