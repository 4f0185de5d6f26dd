"""Scripts that attack the server: each gets a reply in time and uses a limited amount of memory.

lupa contains Lua 5.1.5, without the fixes that Redis made in its copy since 2014. A server process runs the scripts, so
that a crash fails one test and does not end the run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.commands.scripting.interpreter import MEMORY_SIZE_MAX
from headrace.commands.scripting.values import REPLY_SIZE_MAX
from support.servers import Server

pytest.importorskip("lupa.lua51")

THRESHOLD_MS = 100
# Values of busy-reply-threshold.
PATIENT_MS = 10_000
# Time limit for a reply: much more than the threshold, for a busy machine and for scripts that fill the memory.
ANSWER_S_MAX = 20.0
# Maximum memory of the process in bytes: twice that of a script, for copies of values.
MEMORY_MAX = 2 * (MEMORY_SIZE_MAX + REPLY_SIZE_MAX)

ENDED = b"-ERR Script ended: it ran for more than 100 ms"
NO_MEMORY = b"-ERR not enough memory"


def running(folder: Path, threshold_ms: int) -> Iterator[Server]:
    started = Server("headrace", folder, "--busy-reply-threshold", str(threshold_ms)).start()
    yield started
    started.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a low time limit for scripts."""
    yield from running(tmp_path_factory.mktemp("hostile"), THRESHOLD_MS)


@pytest.fixture(scope="module")
def patient_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without an effective time limit for scripts."""
    yield from running(tmp_path_factory.mktemp("patient"), PATIENT_MS)


def attack(server: Server, script: str, *arguments: str | bytes) -> bytes:
    """Returns the reply to a script, and checks that the server still replies to other commands."""
    with server.connect() as wire:
        start_s = time.monotonic()
        reply = wire.call("EVAL", script, "0", *arguments)
        assert time.monotonic() - start_s < ANSWER_S_MAX
        assert b"internal error" not in reply
        assert wire.call("EVAL", "return {KEYS[1], ARGV[1]}", "1", "k", "a") == b"*2\r\n$1\r\nk\r\n$1\r\na\r\n"
    status = Path(f"/proc/{server.pid}/status")
    if status.exists():
        held = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        assert int(held.split()[1]) << 10 < MEMORY_MAX, held
    return reply


# A script for each flaw that was fixed in Redis' Lua, and the beginning of its reply.
FIXED_IN_REDIS = {
    "CVE-2015-8080, CVE-2018-11219, CVE-2020-14147, sizes of struct": (
        "return struct.pack('i2147483648', 1)",
        b"-ERR user_script:1: integral size overflow",
    ),
    "CVE-2018-11218, depth of MessagePack": (
        "return cmsgpack.unpack(string.rep(string.char(0x91), 1e6))",
        b"-ERR user_script:1: stack overflow (in function mp_decode_to_lua_array)",
    ),
    "CVE-2018-11218, depth of what is packed": (
        "local t = {} t[1] = t return cmsgpack.pack(t)",
        b"$17\r\n" + b"\x91" * 16 + b"\xc0\r\n",
    ),
    "CVE-2021-32626, stack of the converter": (
        "return redis.call(unpack({'del', 'x'}, 1, 7997))",
        b"-ERR Lua redis lib command arguments must be strings or integers",
    ),
    "CVE-2021-32672, debugger": ("return redis.breakpoint()", b"$-1\r\n"),
    "CVE-2022-24735, metatables of libraries": ("setmetatable(redis, {})", b"-ERR Attempt to modify a readonly table"),
    "CVE-2022-24735, a global": ("pairs = nil", b"-ERR user_script:1: Attempt to modify a readonly table"),
    "CVE-2022-24735, by rawset": ("rawset(_G, 'pairs', nil)", b"-ERR Attempt to modify a readonly table"),
    "CVE-2022-24736, load of what is nothing": ("return load(function() end) == nil", b"$-1\r\n"),
    "CVE-2022-24834, a text for cjson": (
        "return #cjson.encode(string.rep('\\\\', 1e6))",
        b":2000002\r\n",
    ),
    "CVE-2024-31449, bit.tohex": ("return bit.tohex(65535, -2147483648)", b"$8\r\n0000FFFF\r\n"),
    "CVE-2024-46981, collector": (
        "local t = setmetatable({}, {__mode = 'kv', __gc = error}) t[t] = t t = nil collectgarbage() return 'alive'",
        b"$5\r\nalive\r\n",
    ),
    "CVE-2025-46817, unpack": ("return unpack({}, 0, 2147483647)", b"-ERR user_script:1: too many results to unpack"),
    "CVE-2025-46817, unpack from the least": (
        "return {unpack({}, -2147483648, 2147483647)}",
        b"-ERR user_script:1: too many results to unpack",
    ),
    "CVE-2025-46818, metatable of strings": (
        "getmetatable('').__index = function() return 1 end",
        b"-ERR user_script:1: Attempt to modify a readonly table",
    ),
    "CVE-2025-46818, metatable of strings by rawset": (
        "rawset(getmetatable(''), '__index', 1)",
        b"-ERR Attempt to modify a readonly table",
    ),
    "CVE-2025-46818, metatables of other types": (
        "return {tostring(getmetatable(1)), tostring(getmetatable(nil)), tostring(getmetatable(print ~= 1))}",
        b"-ERR user_script:1: Script attempted to access nonexistent global variable 'print'",
    ),
    "CVE-2025-46819, brackets of a long string": (
        "return select(2, loadstring('return [' .. string.rep('=', 1e7) .. '[x'))",
        (b"$", ENDED),
    ),
    "CVE-2025-49844, name of a chunk": (
        "for i = 1, 500 do loadstring('local t = {' .. string.rep('\"a\",', i), '=' .. i .. '\\0x') end return 1",
        (b":1\r\n", ENDED),
    ),
}


@pytest.mark.parametrize(("script", "expected"), FIXED_IN_REDIS.values(), ids=FIXED_IN_REDIS.keys())
def test_flaws_fixed_in_redis_are_absent(
    script: str, expected: bytes | tuple[bytes, ...], patient_server: Server
) -> None:
    reply = attack(patient_server, script)
    assert reply.startswith(expected), reply[:200]


ENDLESS = (
    "xpcall(error, function() while true do end end)",
    "xpcall(function() while true do end end, function() while true do end end)",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "for i = 1, 1e9 do redis.call('PING') end",
    "for i = 1, 1e9 do redis.pcall('PING') end",
    "for i = 1, 1e9 do pcall(redis.call, 'NOSUCH') end",
    "local s = string.rep('x', 1e6) while true do redis.sha1hex(s) end",
    "while true do collectgarbage() end",
    "return string.find(('a'):rep(30), ('a?'):rep(30) .. ('a'):rep(30))",
    "return string.find(('a'):rep(1e5), ('.-'):rep(20) .. 'b')",
    "return string.find(('a'):rep(1e7), ('a'):rep(1e6) .. 'b', 1, true)",
    "return string.find(('a'):rep(1e7), ('a'):rep(1e6) .. 'b.')",
    "return string.match(('('):rep(1e6), '%b()')",
    "return string.match(('a'):rep(1e6), '.*.*.*x')",
    "return string.gsub(('a'):rep(1e6), '.-x', '')",
    "return string.gsub(('a'):rep(1e6), '.-x', {})",
    "for k in string.gmatch(('a'):rep(1e6), '.-b') do end",
    "for k in string.gfind(('a'):rep(1e6), '.-b') do end",
    "local s = string.rep('x', 1e7) while true do local t = s:upper() end",
    "local s = string.rep('x', 1e7) while true do local t = s:reverse() end",
    "local s = string.rep('x', 1e7) while true do local t = s .. 'y' end",
    "local s = string.rep('x', 1e7) local t, u = s .. 'a', s .. 'b' while true do local x = t < u end",
    "local s = string.rep('x', 1e6) while true do local t = ('%s%s'):format(s, s) end",
    "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.insert(t, 1, 0) end",
    "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.remove(t, 1) end",
    "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.concat(t) end",
    "local t = {} for i = 1, 1e6 do t[i] = '' end while true do table.concat(t) end",
    "local t = {} for i = 1, 1e6 do t[i] = i end for i = 1, 1e6 - 1 do t[i] = nil end while true do next(t) end",
    "local t = {} for i = 1, 4096 do t[i] = i % 2 end while true do table.sort(t) end",
    "local t = {} for i = 1, 1e6 do t[i] = i * 7919 % 1000003 end while true do table.sort(t) end",
    "while true do table.sort({3, 2, 1}, function(a, b) return a < b end) end",
    "table.insert({}, -2^31, 1)",
    "local t = {[1e6] = 1} while true do table.maxn(t) end",
    "local t = setmetatable({}, {__tostring = function() while true do end end}) return tostring(t)",
    "local function f() return pcall(f) end while true do f() end",
    "local function f() return f() end return f()",
    "coroutine.wrap(function() xpcall(error, function() while true do end end) end)()",
    "while true do coroutine.create(function() end) end",
    "local t = {} for i = 1, 10 do t[i] = t end return cmsgpack.pack(t)",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do cmsgpack.pack(t) end",
    "return cmsgpack.unpack(string.char(0xdd, 0xff, 0xff, 0xff, 0xff) .. string.rep('\\1', 1e7))",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do cjson.encode(t) end",
    "return cjson.decode('[' .. string.rep('1,', 5e6) .. '1]')",
    "local t = {} for i = 1, 9 do t = {t, t, t, t, t, t, t, t, t, t} end return cjson.encode(t)",
)


@pytest.mark.parametrize("script", ENDLESS)
def test_scripts_without_an_end_are_ended_in_time(script: str, server: Server) -> None:
    reply = attack(server, script)
    assert reply.startswith((ENDED, NO_MEMORY)), reply[:200]


# A loop within that many nested calls of C, of which Lua allows 200.
AT_DEPTH = """
local t
local function deep(n)
    if n == 0 then
        while true do pcall(function() while true do end end) end
    end
    return t[n - 1]
end
t = setmetatable({}, {__index = function(_, n) return deep(n) end})
return t[tonumber(ARGV[1])]
"""


def test_the_time_limit_holds_if_the_c_stack_is_used_up(server: Server) -> None:
    for depth in range(180, 202):
        reply = attack(server, AT_DEPTH, str(depth))
        assert reply.startswith(ENDED) or b"C stack overflow" in reply, (depth, reply[:200])


LARGE = (
    "local s = 'x' while true do s = s .. s end",
    "local t = {} while true do t = {t} end",
    "local t = {} for i = 1, 1e9 do t[i] = i end",
    "local t = {} for i = 1, 1e9 do t[#t + 1] = ('x'):rep(1e6) .. i end",
    "return string.rep('x', 2^31 - 1)",
    "return string.rep(string.rep('x', 1e6), 1e6)",
    "local s = string.rep('x', 2e7) return s:gsub('x', s)",
    "local s = string.rep('x', 2e7) return s:gsub('x', function() return s end)",
    "local s = string.rep('x', 2e7) return (('%s'):rep(100)):format(unpack(setmetatable({}, {__index = {}}), 1, 100))",
    "local s, t = string.rep('x', 2e7), {} for i = 1, 100 do t[i] = s end return table.concat(t)",
    "local s, t = string.rep('x', 2e7), {} for i = 1, 100 do t[i] = '' end return table.concat(t, s)",
    "local s, t = string.rep('x', 2e7), {} for i = 1, 100 do t[i] = s end return cjson.encode(t)",
    "local s, t = string.rep('x', 2e7), {} for i = 1, 100 do t[i] = s end return cmsgpack.pack(t)",
    "local s, t = string.rep('x', 2e7), {} for i = 1, 7000 do t[i] = s end return redis.call('DEL', unpack(t))",
    "local s, t = string.rep('x', 2e7), {} for i = 1, 7000 do t[i] = s end return redis.log(3, unpack(t))",
    "local s, t = string.rep('x', 2e7), {} for i = 1, 7000 do t[i] = s end return bit.bor(unpack(t))",
    # The limit was lifted for a call: because the reply is large, or much memory was used before.
    "local s, t = redis.call('ECHO', string.rep('x', 2e7)), {} for i = 1, 100 do t[i] = s .. i end return #t",
    "local t = {} for i = 1, 100 do t[i] = string.rep(i, 2e7) redis.call('PING') end return #t",
    "collectgarbage('stop') local t = {} while true do t = {t, string.rep('x', 1000)} end",
    "return loadstring('return {' .. string.rep('{},', 5e7) .. '}')",
)


@pytest.mark.parametrize("script", LARGE)
def test_scripts_cannot_exceed_the_memory_limit(script: str, server: Server) -> None:
    reply = attack(server, script)
    assert reply.startswith((ENDED, NO_MEMORY, b"-ERR ")), reply[:200]


def test_a_script_can_continue_after_an_out_of_memory_error(server: Server) -> None:
    script = "local s = 'x' pcall(function() while true do s = s .. s end end) s = nil return 'went on'"
    assert attack(server, script).startswith((b"$7\r\nwent on", ENDED))


DEEP = (
    "local function f() return f() + 1 end return f()",
    "local function f(n) return coroutine.wrap(f)(n) end return f(1)",
    "local t = setmetatable({}, {__index = function(t, k) return t[k] end}) return t.x",
    "local t = setmetatable({}, {__concat = function(a, b) return a .. b end}) return t .. t",
    "local t = setmetatable({}, {__call = function(t) return t() end}) return 1 + t()",
    "local function f() return ('x'):gsub('x', f) end return f()",
    "local function f() table.sort({2, 1}, f) return true end return f()",
    "local function f() return table.foreach({1}, f) end return f()",
    "local function f() xpcall(f, f) return f() + 1 end return f()",
    "return string.find(('a'):rep(400000), ('a?'):rep(400000))",
    "return string.find(('a'):rep(400000), ('(a)'):rep(30) .. ('a*'):rep(100000) .. 'b')",
    "return cjson.decode(string.rep('[', 1e6))",
    "return cjson.decode(string.rep('{\"a\":', 1e6))",
    "local t = {} t[1] = t return cjson.encode(t)",
    "assert(loadstring(string.rep('(', 1e6)))",
    "assert(loadstring('return ' .. string.rep('{', 1e5)))",
    "assert(loadstring('return ' .. string.rep('- ', 1e6) .. '1'))",
    "assert(loadstring('return ' .. string.rep('a..', 1e6) .. 'a'))",
    "assert(loadstring('return ' .. string.rep('not ', 1e6) .. '1'))",
    "assert(loadstring(string.rep('do ', 1e5)))",
    "assert(loadstring(string.rep('function f() ', 1e5)))",
    "assert(loadstring(string.rep('local a ', 1000)))",
    "assert(loadstring('f' .. string.rep('(f', 1e5)))",
    "assert(loadstring('local a = ' .. string.rep('a,', 1e5) .. 'a'))",
    "return select(-2^31, 1)",
    "return string.format('%99999d', 1)",
    "return string.format('%' .. string.rep('0', 100) .. 'd', 1)",
)


@pytest.mark.parametrize("script", DEEP)
def test_values_nested_too_deep_are_an_error(script: str, server: Server) -> None:
    reply = attack(server, script)
    assert reply.startswith(b"-ERR"), reply[:200]


@pytest.mark.parametrize("script", ["t[1], t[2] = t, t", "for i = 1, 1000 do t[i] = t end", "t.map = {a = t, b = t}"])
def test_tables_that_contain_each_other_do_not_make_an_endless_reply(script: str, server: Server) -> None:
    assert attack(server, f"local t = {{}} {script} return t") == b"-ERR reached lua stack limit\r\n"


def test_a_string_that_is_returned_often_is_counted_each_time(server: Server) -> None:
    script = "local s, t = string.rep('x', 2e7), {} for i = 1, 1000 do t[i] = s end return t"
    assert attack(server, script).startswith((b"-ERR reached lua stack limit", ENDED))


# The path of every function that a script can reach; `@` is a metatable.
FUNCTIONS = """
local paths, seen = {}, {}
local function walk(path, value)
    if type(value) == 'function' then paths[#paths + 1] = path end
    if type(value) ~= 'table' or seen[value] then return end
    seen[value] = true
    for name, field in pairs(value) do
        if type(name) == 'string' then walk(path .. '.' .. name, field) end
    end
    walk(path .. '@', getmetatable(value))
end
walk('', _G)
walk('@', getmetatable(''))
return paths
"""

CALLS = """
local called = _G
for step in ARGV[1]:gmatch('%.[^.@]+') do called = called[step:sub(2)] end
local large, deep, within = ('a'):rep(100000), {}, {}
local inner = deep
for index = 1, 300 do inner[1] = {} inner = inner[1] end
within[1], within.x = within, within
local angry = setmetatable({}, {
    __index = function(_, key) error(key) end, __newindex = function() error('no') end,
    __tostring = function() error('no') end,
    __call = function() error('no') end, __len = function() error('no') end, __eq = function() error('no') end,
    __lt = function() error('no') end, __concat = function() error('no') end, __metatable = 'hidden', __mode = 'kv',
})
local hostile = {
    0, -1, 1, 2 ^ 31 - 1, -2 ^ 31, 2 ^ 31, 2 ^ 53, 2 ^ 63, -2 ^ 63, 1e308, 1 / 0, -1 / 0, 0 / 0, 0.5, '', 'a', '%',
    '[', '(', '%b', '%f', '%1', ('a?'):rep(300), ('.-'):rep(30) .. 'b', large, '\\0', '\\27Lua', '#', '*', 'nosuch',
    '1e999', true, false, cjson.null, {}, deep, within, angry, _G, redis, string, redis.call, error, pcall,
    function() end, function() error('no') end, function() error({}) end, coroutine.create(function() end),
    coroutine.running(),
}
local count, step = #hostile, tonumber(ARGV[2])
local raw_pcall = pcall
local function pcall(...)
    local ok, problem = raw_pcall(...)
    if not ok and type(problem) == 'string' and problem:find('internal error') then error(problem) end
end
pcall(called)
for index = 1, count do
    pcall(called, hostile[index])
    pcall(called, hostile[index], hostile[(index * step) % count + 1])
    pcall(called, hostile[index], hostile[(index + step) % count + 1], hostile[(index * step + 7) % count + 1])
    pcall(called, hostile[(index * 3) % count + 1], hostile[(index + step) % count + 1], hostile[index], hostile[step])
    xpcall(called, hostile[index])
    pcall(pcall, called, hostile[index])
    pcall(coroutine.wrap(function() return called(hostile[index], hostile[step]) end))
end
return 'alive'
"""


def test_every_reachable_function_withstands_hostile_arguments(server: Server) -> None:
    with server.connect() as wire:
        paths = wire.ask("EVAL", FUNCTIONS, "0")
    assert len(paths) > 80
    for path in paths:
        if b"@" in path:
            continue
        for step in ("5", "11", "23", "31"):
            reply = attack(server, CALLS, path, step)
            assert reply == b"$5\r\nalive\r\n" or reply.startswith((ENDED, NO_MEMORY)), (path, reply[:200])
