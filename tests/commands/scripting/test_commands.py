"""Scripts in the server: what is logged, what the sandbox denies, and the time limit."""

from __future__ import annotations

import sys

import pytest

from headrace.commands.scripting.cache import EVALUATED_COUNT_MAX, digest_of
from headrace.commands.scripting.interpreter import DIRECT_SIZE_MAX, SOURCE_SIZE_MAX
from support.inprocess import Caller, Rig
from support.replies import parse, plain

# A busy-reply-threshold that even slow scripts of these tests do not reach.
SHORT_MS = 30


@pytest.fixture
def rig() -> Rig:
    return Rig(busy_reply_threshold=10_000)


def evaluate(caller: Caller, script: str, *words: str, command: str = "EVAL") -> bytes:
    """Runs a script; `words` are numkeys, keys and arguments."""
    argv = [word.encode() for word in (command, script, *(words or ("0",)))]
    caller.rig.dispatcher.execute(caller.session, [argv], caller.rig.clock())
    return caller.output()


# -- the log -----------------------------------------------------------------------------------------


def test_effects_of_a_script_are_one_group_and_the_script_is_not_logged(rig: Rig) -> None:
    script = (
        "for i = 1, 2 do redis.call('XADD', KEYS[1], '*', 'n', i) end redis.call('SELECT', 1) redis.call('SET','k','v')"
    )
    assert evaluate(rig.connect(), script, "1", "s") == b"$-1\r\n"
    (unit,) = rig.log.units
    assert [record.split()[0] for record in unit] == [b"XADD", b"XADD", b"SET"]
    assert b"*" not in unit[0].split()


def test_what_was_written_before_an_error_stays_and_is_logged(rig: Rig) -> None:
    caller = rig.connect()
    assert evaluate(caller, "redis.call('SET','a','1') redis.call('SET','b','2') error('no')").startswith(b"-ERR")
    assert caller.call("MGET a b") == b"*2\r\n$1\r\n1\r\n$1\r\n2\r\n"
    assert rig.log.units == [[b"SET a 1", b"SET b 2"]]


def test_set_repl_keeps_writes_out_of_the_log(rig: Rig) -> None:
    caller = rig.connect()
    script = "redis.set_repl(ARGV[1]+0) redis.call('SET','a','1') redis.set_repl(ARGV[2]+0) redis.call('SET','b','2')"
    evaluate(caller, script, "0", "0", "3")
    assert rig.log.units == [[b"SET b 2"]]
    assert caller.call("GET a") == b"$1\r\n1\r\n"


def test_a_key_that_a_script_finds_expired_is_logged_before_what_follows(rig: Rig) -> None:
    caller = rig.connect()
    caller.call("SET k v PX 10")
    rig.log.units.clear()
    rig.clock.advance(20)
    assert evaluate(caller, "redis.call('SET','x','1') return redis.call('INCR','k')") == b":1\r\n"
    (unit,) = rig.log.units
    assert [record.split()[:2] for record in unit][:2] == [[b"SET", b"x"], [b"DEL", b"k"]]


def test_blocked_readers_are_served_by_entries_that_a_script_adds(rig: Rig) -> None:
    reader = rig.connect()
    assert reader.call("XREAD BLOCK 0 STREAMS s $") == b""
    evaluate(rig.connect(), "redis.call('XADD', 's', '1-1', 'a', 'b')")
    assert b"1-1" in reader.output()


def test_a_script_keeps_database_and_protocol_of_its_caller(rig: Rig) -> None:
    caller = rig.connect()
    evaluate(caller, "redis.setresp(3) redis.call('SELECT', 5) redis.call('SET', 'k', 'v')")
    assert caller.client.db.index == 0
    assert caller.client.protocol == 2
    assert caller.call("GET k") == b"$-1\r\n"


def test_keys_that_a_script_reads_and_changes_are_tracked_for_its_caller(rig: Rig) -> None:
    caller, other = rig.connect(), rig.connect()
    caller.call("HELLO 3", "CLIENT TRACKING ON")
    evaluate(caller, "return redis.call('GET', KEYS[1])", "1", "k", command="EVAL_RO")
    evaluate(caller, "return 1", "1", "declared", command="EVAL_RO")
    evaluate(other, "return redis.call('MSET', 'k', '1', 'declared', '1')")
    assert plain(parse(caller.output())) == [b"invalidate", [b"k"]]


def test_writes_are_refused_in_scripts_while_snapshots_fail(rig: Rig) -> None:
    caller = rig.connect()
    rig.dispatcher.admission.is_save_failing = True
    rig.server.refresh_clients()
    assert evaluate(caller, "return redis.call('SET','k','v')").startswith(b"-MISCONF Redis is configured")
    assert evaluate(caller, "#!lua\nreturn 1").startswith(b"-MISCONF")
    assert evaluate(caller, "return redis.call('GET','k')") == b"$-1\r\n"


def test_a_pause_of_writes_delays_scripts_that_may_write(rig: Rig) -> None:
    callers = [rig.connect() for _ in range(4)]
    callers[0].call("CLIENT PAUSE 1000 WRITE")
    assert evaluate(callers[0], "return 1") == b""
    assert evaluate(callers[1], digest_of(b"return 1").decode(), command="EVALSHA") == b""
    assert callers[2].call("PUBLISH channel message") == b""
    assert evaluate(callers[3], "return 1", command="EVAL_RO") == b":1\r\n"


# -- time --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [
        "while true do end",
        "while true do redis.call('PING') end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() end) end",
        "coroutine.wrap(function() while true do end end)()",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "while true do load(function() while true do end end) end",
        "while true do pcall(coroutine.wrap(function() while true do pcall(error) end end)) end",
    ],
)
def test_a_script_that_has_written_nothing_is_ended(script: str) -> None:
    caller = Rig(busy_reply_threshold=SHORT_MS).connect()
    reply = evaluate(caller, script)
    assert reply.startswith(b"-ERR Script ended: it ran for more than 30 ms (busy-reply-threshold)"), reply
    assert evaluate(caller, "return 'alive'") == b"$5\r\nalive\r\n"


@pytest.mark.parametrize("limit_ms", [0, SHORT_MS])
def test_scripts_that_have_written_or_have_no_limit_continue(limit_ms: int, caplog: pytest.LogCaptureFixture) -> None:
    caller = Rig(busy_reply_threshold=limit_ms).connect()
    script = """
        if ARGV[1] ~= '0' then redis.call('SET', 'k', 'v') end
        local start = os.clock()
        while os.clock() - start < 0.1 do end
        return redis.call('SET', 'k', 'done')
    """
    assert evaluate(caller, script, "0", str(limit_ms)) == b"+OK\r\n"
    assert len([record for record in caplog.records if "cannot be stopped" in record.message]) == bool(limit_ms)


def test_commands_of_scripts_are_counted_before_a_command_that_shows_their_number(rig: Rig) -> None:
    script = (
        "for i = 1, 3 do redis.call('GET', 'k') end "
        "return redis.call('INFO', 'stats'):match('total_commands_processed:(%d+)')"
    )
    caller, stats = rig.connect(), rig.dispatcher.stats
    before = stats.commands_processed
    assert evaluate(caller, script) == b"$%d\r\n%d\r\n" % (len(str(before + 3)), before + 3)
    # INFO and EVAL count too.
    assert stats.commands_processed == before + 5


def test_a_status_is_a_table_for_few_and_for_many_arguments(rig: Rig) -> None:
    caller = rig.connect()
    for words in ("'SET','k','v'", "'MSET','a','1','b','2','c','3','d','4','e','5'"):
        script = f"local reply = redis.call({words}) return {{type(reply), reply.ok, next(reply, 'ok')}}"
        assert evaluate(caller, script) == b"*2\r\n$5\r\ntable\r\n$2\r\nOK\r\n"
        assert evaluate(caller, f"return select('#', redis.pcall({words}))") == b":1\r\n"


def test_the_database_that_a_script_selects_is_that_of_its_next_commands(rig: Rig) -> None:
    caller = rig.connect()
    evaluate(caller, "redis.call('SET','k','0') redis.call('SELECT', 1) redis.call('SET','k','1')")
    assert caller.call("GET k") == b"$1\r\n0\r\n"
    assert evaluate(caller, "redis.call('SELECT', 1) return redis.call('GET','k')") == b"$1\r\n1\r\n"


# -- the sandbox -------------------------------------------------------------------------------------


OUTSIDE = (
    "os.execute", "os.exit", "os.getenv", "os.time", "io", "package", "require", "dofile", "loadfile", "debug",
    "getfenv", "setfenv", "module", "newproxy", "python", "print", "string.dump",
)  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_scripts_cannot_reach_the_system(name: str, rig: Rig) -> None:
    reply = evaluate(rig.connect(), f"return {name}")
    assert reply == b"$-1\r\n" or reply.startswith(
        (b"-ERR user_script:1: Script attempted", b"-ERR user_script:1: unable to dump")
    )


@pytest.mark.parametrize(
    "script",
    [
        "return getmetatable(redis.call)",
        "return redis.call.args",
        "return redis.call[1]",
        "redis.call.x = 1",
        "return #redis.call",
        "return select(2, xpcall(redis.call, function(e) return e.__class__ end))",
        "return select(2, coroutine.resume(coroutine.create(function() redis.call() end))).text",
    ],
)
def test_scripts_cannot_reach_python(script: str, rig: Rig) -> None:
    reply = evaluate(rig.connect(), script)
    assert reply == b"$-1\r\n" or b"attempt to" in reply, reply
    assert b"object at" not in reply


@pytest.mark.parametrize(
    "script",
    [
        "return {type(select(2, coroutine.resume(coroutine.create(function() redis.call() end))))}",
        "return {select(2, xpcall(redis.call, type))}",
        "local kinds = {} local _, e = load(function() redis.call() end) return {type(e)}",
        "return {type(select(2, pcall(redis.call)))}",
    ],
)
def test_errors_of_python_never_appear_as_objects(script: str, rig: Rig) -> None:
    assert b"userdata" not in evaluate(rig.connect(), script)


@pytest.mark.parametrize(
    "script",
    [
        "return redis.call",
        "return {redis.call, {redis.pcall}, cjson.null, coroutine.create(function() end), 'end'}",
        "return {map={[redis.call]=cjson.null, [{1}]={redis.call}}}",
        "return {set={[cjson.null]=1, [redis.call]=2}}",
        "return {err=redis.call, ok=redis.call, double=redis.call, 1}",
        "error({err=redis.call})",
        "error(redis.call)",
        "error(cjson.null)",
        "local ok, e = pcall(error, cjson.null) return {e == cjson.null}",
        "local t = {} for i = 1, 7000 do t[i] = redis.call end redis.call(unpack(t))",
        "local t = {} for i = 1, 7000 do t[i] = cjson.null end redis.call(unpack(t))",
        "coroutine.wrap(function() local t = {} for i = 1, 7000 do t[i] = {} end redis.call(unpack(t)) end)()",
        "local function deep(n) return n == 0 and 1 or coroutine.wrap(deep)(n - 1) end return deep(1000)",
        "local function deep() return pcall(deep) end return deep()",
        "local t = setmetatable({}, {__index = redis.call, __newindex = redis.call, __call = redis.call}) t.x = t.y",
        "return string.rep('x', 1e6):rep(20):len()",
    ],
)
def test_no_value_of_lua_crashes_the_server(script: str, rig: Rig) -> None:
    """Values that lupa would wrap in an object or cannot convert do not reach Python."""
    caller = rig.connect()
    for _ in range(3):
        assert evaluate(caller, script)
        assert evaluate(caller, "return {1, {2}}") == b"*2\r\n:1\r\n*1\r\n:2\r\n"


def test_scripts_share_no_state(rig: Rig) -> None:
    caller = rig.connect()
    evaluate(caller, "table.insert(redis, 'x') table.insert(_G, 'y') KEYS.left = 1", "1", "k")
    assert evaluate(caller, "return {redis[1] == nil, rawget(_G, 1) == nil, #KEYS, KEYS.left == nil}") == (
        b"*4\r\n:1\r\n:1\r\n:0\r\n:1\r\n"
    )
    evaluate(caller, "collectgarbage('stop')")
    evaluate(caller, "return redis.call('NOSUCH')")
    assert evaluate(caller, "return {KEYS[1], ARGV[1]}", "1", "k", "a") == b"*2\r\n$1\r\nk\r\n$1\r\na\r\n"


@pytest.mark.parametrize(
    ("script", "reply"),
    [
        ("return {'a', 2, 2.7, true, false, 'b'}", b"*6\r\n$1\r\na\r\n:2\r\n:2\r\n:1\r\n$-1\r\n$1\r\nb\r\n"),
        ("redis.setresp(3) return {true, false}", b"*2\r\n:1\r\n:0\r\n"),
        ("return {}", b"*0\r\n"),
        ("return false", b"$-1\r\n"),
        ("return {1, 2, nil, 4}", b"*2\r\n:1\r\n:2\r\n"),
        ("return {1, 2, x = 3}", b"*2\r\n:1\r\n:2\r\n"),
        ("return {1, ok = 'yes'}", b"+yes\r\n"),
        ("return {ok = 'a\\r\\nb\\0c'}", b"+a  b\r\n"),
        ("return {ok = 'yes', err = 'ERR no'}", b"-ERR no\r\n"),
        ("return {1, {2}, print_nothing}", b"-ERR"),
        ("return {1, {2}, type}", b"*3\r\n:1\r\n*1\r\n:2\r\n$-1\r\n"),
        ("return redis.call('SET', 'k', 'v')", b"+OK\r\n"),
    ],
)
def test_short_results_are_those_of_the_long_way(rig: Rig, script: str, reply: bytes) -> None:
    assert evaluate(rig.connect(), script).startswith(reply)


def test_arrays_up_to_any_length_are_whole(rig: Rig) -> None:
    caller = rig.connect()
    for count in (63, 64, 65, 66, 1000):
        script = f"local found = {{}} for i = 1, {count} do found[i] = i end return found"
        assert evaluate(caller, script) == b"*%d\r\n" % count + b"".join(b":%d\r\n" % i for i in range(1, count + 1))


def test_no_function_writes_to_a_table_that_all_scripts_share(rig: Rig) -> None:
    caller = rig.connect()
    calls = r"""
        local shared, functions, fillers = {_G}, {}, {1, 2, 'x', function() return 1 end}
        for name, library in pairs(_G) do
            if type(library) == 'table' and library ~= _G and library ~= KEYS and library ~= ARGV then
                shared[#shared + 1] = library
                for _, action in pairs(library) do functions[#functions + 1] = action end
            else
                functions[#functions + 1] = library
            end
        end
        local written = 0
        local function try(target, ...)
            pcall(...)
            if #target > 0 then written = written + 1 end
        end
        for _, action in ipairs(functions) do
            for _, target in ipairs(type(action) == 'function' and shared or {}) do
                for _, first in ipairs(fillers) do
                    for _, second in ipairs(fillers) do
                        try(target, action, target)
                        try(target, action, target, first)
                        try(target, action, target, first, second)
                        try(target, action, first, target)
                        try(target, action, first, target, second)
                        try(target, action, first, second, target)
                    end
                end
            end
        end
        return {#shared, written}
    """
    assert evaluate(caller, calls) == b"*2\r\n:11\r\n:0\r\n"
    look = r"""
        local found = {}
        for _, shared in ipairs({_G, redis, string, table, math, os, cjson, cmsgpack, struct, bit, coroutine}) do
            for _, key in ipairs({1, 2, 3, 'x'}) do
                local _, value = pcall(function() return shared[key] end)
                if value and not tostring(value):find('nonexistent') then found[#found + 1] = key end
            end
        end
        return found
    """
    assert evaluate(caller, look) == b"*0\r\n"


BYTECODE = "\x1bLua\x51\x00\x01\x04\x08\x04\x08\x00"


@pytest.mark.parametrize("command", ["EVAL", "EVAL_RO", "SCRIPT LOAD"])
@pytest.mark.parametrize("code", ["\x1b", BYTECODE, BYTECODE * 100])
def test_bytecode_is_refused_wherever_a_script_is_compiled(command: str, code: str, rig: Rig) -> None:
    caller = rig.connect()
    words = [*command.split(), code] + ([] if command == "SCRIPT LOAD" else ["0"])
    rig.dispatcher.execute(caller.session, [[word.encode("latin-1") for word in words]], rig.clock())
    assert caller.output() == (
        b"-ERR Error compiling script (new function): user_script:1: unexpected symbol near 'char(27)'\r\n"
    )
    assert not rig.server.context.scripts._cache.by_sha


@pytest.mark.parametrize("function", ["loadstring", "load"])
def test_bytecode_is_refused_within_a_script(function: str, rig: Rig) -> None:
    source = "code" if function == "loadstring" else "function() local piece = code code = nil return piece end"
    script = f"local code = ARGV[1] return select(2, {function}({source}, '=code'))"
    assert evaluate(rig.connect(), script, "0", BYTECODE) == b"$41\r\ncode:1: unexpected symbol near 'char(27)'\r\n"


TOO_LARGE = b"the source is larger than 1048576 bytes"


@pytest.mark.parametrize("command", ["EVAL", "EVAL_RO", "SCRIPT LOAD"])
@pytest.mark.parametrize("first_line", ["", "#!lua flags=no-writes"])
def test_a_source_of_more_than_a_mebibyte_is_refused(command: str, first_line: str, rig: Rig) -> None:
    caller = rig.connect()
    for size, is_compiled in ((SOURCE_SIZE_MAX, True), (SOURCE_SIZE_MAX + 1, False)):
        code = first_line + "\n--".ljust(size, "x")
        words = [*command.split(), code] + ([] if command == "SCRIPT LOAD" else ["0"])
        rig.dispatcher.execute(caller.session, [[word.encode() for word in words]], rig.clock())
        reply = caller.output()
        assert (not reply.startswith(b"-")) is is_compiled
        if not is_compiled:
            assert reply == b"-ERR Error compiling script (new function): %b\r\n" % TOO_LARGE


@pytest.mark.parametrize("function", ["loadstring", "load"])
def test_a_script_compiles_no_source_of_more_than_a_mebibyte(function: str, rig: Rig) -> None:
    """The reader of `load` returns pieces, of which none is too large."""
    source = {
        "loadstring": "code",
        "load": "function() local piece = code:sub(at, at + 9999) at = at + 10000 return piece end",
    }[function]
    script = f"local code, at = ARGV[1], 1 local action, problem = {function}({source}) return problem or action()"
    for size, reply in ((SOURCE_SIZE_MAX, b":1\r\n"), (SOURCE_SIZE_MAX + 1, b"$39\r\n%b\r\n" % TOO_LARGE)):
        assert evaluate(rig.connect(), script, "0", "return 1 --".ljust(size, "x")) == reply


def test_the_name_of_a_chunk_outlives_the_collector(rig: Rig) -> None:
    """CVE-2025-49844: the parser's own copy of a name with a zero byte could be freed while the parser used it."""
    script = """
        collectgarbage('step')
        local source = {}
        for index = 1, 1400 do source[index] = 'local x' .. index % 100 .. " = '" .. string.rep('y', index) .. "'" end
        source = 'do ' .. table.concat(source, ' end do ') .. ' end ('
        for index = 1, 20 do
            local _, problem = loadstring(source, '=name' .. index .. '\\0rest')
            if not problem:find('^name' .. index .. ':1: ') then return problem end
        end
        return 'named'
    """
    assert evaluate(rig.connect(), script) == b"$5\r\nnamed\r\n"


def test_a_table_within_itself_is_cut(rig: Rig) -> None:
    reply = evaluate(rig.connect(), "local t = {} t[1] = t return t")
    assert reply.endswith(b"-ERR reached lua stack limit\r\n")


@pytest.mark.parametrize("arguments_count", [0, 1, 60, 9000])
@pytest.mark.parametrize("keys_count", [0, 1, 60])
def test_a_script_gets_its_keys_and_arguments_whatever_their_number(
    keys_count: int, arguments_count: int, rig: Rig
) -> None:
    keys = [f"k{number}" for number in range(keys_count)]
    passed = [f"a{number}" for number in range(arguments_count)]
    script = "return {table.concat(KEYS, ' '), table.concat(ARGV, ' '), #KEYS, #ARGV}"
    for arguments in (passed, [*passed, "x" * DIRECT_SIZE_MAX]):
        reply = plain(parse(evaluate(rig.connect(), script, str(keys_count), *keys, *arguments)))
        assert reply == [" ".join(keys).encode(), " ".join(arguments).encode(), keys_count, len(arguments)]


def test_long_and_large_values_are_converted(rig: Rig) -> None:
    caller = rig.connect()
    script = "local t = {} for i = 1, 2500 do t[i] = i end return t"
    assert plain(parse(evaluate(caller, script))) == list(range(1, 2501))
    assert evaluate(caller, "return #ARGV[1] + #KEYS[1]", "1", "k" * 100_000, "a" * 200_000) == b":300000\r\n"
    for index in range(3000):
        caller.call(f"XADD s {index + 1}-1 a b")
    assert evaluate(caller, "return #redis.call('XRANGE', 's', '-', '+')") == b":3000\r\n"


# What Redis writes to its log for the arguments of redis.log.
LOGGED = {
    "string.rep('x', 5000)": "x" * 5000,
    "'a\\0b', 'c'": "a",
    "{}, true, nil, 'x'": " x",
    "'x', {}, 'y'": "x y",
    "'', ''": " ",
    "1, 2.5, 1e20, 0/0, 1/0": "1 2.5 1e+20 -nan inf",
    "'\\195\\164\\255'": "\u00e4\\xff",
}


@pytest.mark.parametrize("words", LOGGED)
def test_the_server_log_gets_the_text_of_a_script(words: str, rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    evaluate(rig.connect(), f"redis.log('3.9', {words})")
    assert [(record.levelname, record.message) for record in caplog.records] == [("WARNING", LOGGED[words])]


# -- the cache ---------------------------------------------------------------------------------------


def test_scripts_of_eval_are_evicted_least_recently_used_first(rig: Rig) -> None:
    caller = rig.connect()
    loaded = evaluate(caller, "LOAD", "return 'loaded'", command="SCRIPT")
    for number in range(EVALUATED_COUNT_MAX + 1):
        evaluate(caller, f"return {number}")
        evaluate(caller, "return 0")
    cache = rig.server.context.scripts._cache
    assert (len(cache.by_sha), cache.evicted_count) == (EVALUATED_COUNT_MAX + 1, 1)
    assert cache.find(digest_of(b"return 0")) is not None, "the one in use stays"
    assert cache.find(digest_of(b"return 1")) is None
    assert plain(parse(loaded)) in cache.by_sha
    assert cache.size == sum(len(script.text) + 160 for script in cache.by_sha.values())


def test_info_counts_scripts_and_flush_removes_them(rig: Rig) -> None:
    caller = rig.connect()
    evaluate(caller, "return 1")
    info = caller.call("INFO memory")
    assert b"number_of_cached_scripts:1\r\n" in info
    assert b"used_memory_lua:0\r\n" not in info
    assert caller.call("SCRIPT FLUSH") == b"+OK\r\n"
    info = caller.call("INFO memory")
    assert b"number_of_cached_scripts:0\r\n" in info
    assert b"used_memory_lua:0\r\n" in info


# -- without Lua -------------------------------------------------------------------------------------


def test_without_lupa_the_error_names_the_package_to_install(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lupa.lua51", None)
    caller = rig.connect()
    message = b"-ERR scripts need the Python package lupa: pip install 'headrace[scripts]'\r\n"
    assert evaluate(caller, "return 1") == message
    assert evaluate(caller, "LOAD", "return 1", command="SCRIPT") == message
    assert evaluate(caller, "0" * 40, command="EVALSHA").startswith(b"-NOSCRIPT")
    assert caller.call("SCRIPT EXISTS x", "COMMAND GETKEYS EVAL x 1 k") == b"*1\r\n:0\r\n*1\r\n$1\r\nk\r\n"
    assert caller.call("PING") == b"+PONG\r\n"


def test_the_debugger_is_refused(rig: Rig) -> None:
    caller = rig.connect()
    for mode in ("YES", "sync"):
        assert (
            caller.call(f"SCRIPT DEBUG {mode}") == b"-ERR SCRIPT DEBUG is not supported: there is no Lua debugger\r\n"
        )
    assert caller.call("SCRIPT DEBUG no") == b"+OK\r\n"
