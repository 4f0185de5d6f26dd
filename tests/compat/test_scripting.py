"""Lua scripts on both servers: conversions, errors with their line numbers, the sandbox, and commands in scripts."""

from __future__ import annotations

import re

import pytest

from support.servers import Server
from support.wire import Wire

pytestmark = pytest.mark.oracle

# Scripts that return values, separated by `|`.
CONVERSIONS = """
return nil|return false|return true|return 3.99|return -3.99|return '3.99'|return 1e300|return 0/0|return 1,2
return {1,2,{3,'a'},nil,4}|return {1,2,false,3}|return {false}|return {{{}}}|return {a=1}|return {nil,1}|return 'a\\0b'
return function() end|return coroutine.create(function() end)|return {1,{ok='x'},{err='y z'}}
return {ok='fine'}|return {err='My err'}|return {err='-CODE my err'}|return {err=1}|return {ok=1}|return {err=''}
return {ok='a',err='b'}|return {double=1,ok='a'}
return {double=3.5}|return {double='x'}|return {double=1/0}|return {double=1e17}|return {map={a=1}}|return {map={1,2}}
return {map=1}|return {map={[1]={map={x=2}}}}|return {set={a=true}}|return {set={1,2}}|return {big_number='123'}
return {big_number=1}|return {verbatim_string={format='txt',string='abc'}}|return {verbatim_string={format='txt'}}
return redis.error_reply('hi')|return redis.error_reply('HI there')|return redis.error_reply('-HI there')
return redis.error_reply()|return redis.error_reply({})|return redis.error_reply('a','b')|return redis.error_reply('')
return redis.status_reply('OK\\r\\nx')|return redis.status_reply(1)
return setmetatable({1},{__index=function(t,k) return k<4 and k or nil end})
return setmetatable({},{__index=function(t,k) return k=="ok" and "X" or nil end})
return KEYS==_G.KEYS|KEYS[3]='a' return KEYS|return select('#',unpack(ARGV))|return {KEYS,ARGV}
"""

CALLS = """
return redis.call('set','x','1')|return redis.call('get','nokey')|return redis.call('get','x')|return redis.call('ping')
return redis.call('xadd','st','1-1','a','b')|return redis.call('xread','streams','st','0')
return redis.call('xinfo','stream','st')|return redis.call('xread','block',0,'streams','st','$')
return redis.call('get','nokey')==nil|return redis.call('get','nokey')==false|return redis.call('xlen','st')
return redis.call('xrange','st','-','+')[1][2][1]|return redis.call('publish','a','b')|return redis.call('wait',0,0)
return redis.call()|return redis.call(nil)|return redis.call(1)|return redis.call({})|return redis.call('set','x',{})
return redis.call('set','x',true)|return redis.call('nosuch')|return redis.call('get')|return redis.call('multi')
return redis.call('eval','return 1',0)|return redis.call('subscribe','x')|return redis.call('object','nosuch')
return redis.call('object')|return redis.call('debug','sleep','0')|return redis.call('client','id')
return redis.call('acl','whoami')|return redis.call('reset')|return redis.call('save')|return redis.call('flushall')
return redis.call('xpending','st','g')|return redis.call('object','help')[1]
return redis.pcall('nosuch')|return redis.pcall('get')|return redis.pcall('nosuch').err|return {1,redis.pcall('get')}
redis.call('set','s','abc') return redis.call('incr','s')|return redis.pcall('incr','s')
local r=redis.pcall('incr','s') local t={} for k,v in pairs(r) do t[#t+1]=k..'='..tostring(v) end return t
redis.call('set','n',1.5) return redis.call('get','n')|redis.call('set','n',10) return redis.call('get','n')
redis.call('set','n',1e15) return redis.call('get','n')|redis.call('set','n',1e17) return redis.call('get','n')
redis.call('set','n',1e100) return redis.call('get','n')|redis.call('set','n',0.1) return redis.call('get','n')
redis.call('set','n',-0.0) return redis.call('get','n')|redis.call('set','n',1/0) return redis.call('get','n')
redis.call('set','n',0/0) return redis.call('get','n')|redis.call('set','n',2^63) return redis.call('get','n')
return redis.call('echo',2^62)|return redis.call('echo',2^62+1024)|return redis.call('echo',-2^62)|return {double=5e18}
return redis.call('echo',5e18)|return redis.call('echo',-5e18)|return redis.call('echo',-2^63)
redis.call('select',3) redis.call('set','in3','1') return 1|return redis.call('exists','in3')
redis.call('set','x','late') error('late')|return redis.call('get','x')
return coroutine.wrap(function() return redis.call('ping') end)()
"""

ERRORS = """
error('boom')|error({err='tab'})|error()|error({})|error({err='My own', line=7, source='here'})|error({err=5})
return nosuch|return nosuch.y|x=1|KEYS={}|return (|return 1 +|string.foo=1|redis.call=1|redis.new=1
rawset(_G,'x',1)|rawset(redis,'x',1)|setmetatable(_G,{})|getmetatable('').__index=nil|getmetatable('').foo=1
local function f() return f() + 1 end return f()|local a=nil return a.b|return 1 + {}|return #5|return string.rep()
table.sort({3,1,"x"})|local x = loadstring("return nosuch") return x()|assert(false)|assert(false,'why')
assert(nil,{err='E x'})|return assert(redis.pcall('get'))|local a = redis.pcall('get') error(a)
return redis.nosuch()|return redis.nosuch|return math.nosuch()|return tostring(print)|return type(os.time)
return redis.sha1hex()|return redis.sha1hex('a','b')|return redis.log('x')|return redis.log(10,'x')|redis.setresp()
redis.setresp(4)|redis.set_repl()|redis.set_repl(99)|return redis.acl_check_cmd()|return redis.acl_check_cmd('nosuch')
return redis.acl_check_cmd('get')|coroutine.wrap(function() error("in co") end)()|coroutine.create(redis.call)
for k in pairs(nil) do end|for k in ipairs(nil) do end|local t = setmetatable(5, {})|loadstring(nil) return 1
return {pcall(error,'x')}|return {pcall(redis.call,'get')}|return {pcall(error,{err="x",foo=1})}|return {pcall(error,5)}
return {pcall(error,{foo=1})}|return {pcall(redis.pcall,"get")}|return {pcall(function() redis.call('incr','s') end)}
return {xpcall(function() error("a") end, function(e) return e..type(e) end)}
return {xpcall(function() redis.call("get") end, function(e) return type(e)..tostring(e.err) end)}
return {coroutine.resume(coroutine.create(function() redis.call("get") end))}
"""

LIBRARY = """
return redis.sha1hex('')|return redis.sha1hex(1)|return redis.sha1hex({})|return redis.REDIS_VERSION_NUM
return redis.REDIS_VERSION|return redis.replicate_commands()|return redis.breakpoint()|return redis.debug('x')
return redis.acl_check_cmd('set','x','1')|return {redis.setresp(3)}|return {redis.set_repl(redis.REPL_ALL)}
return {redis.REPL_ALL,redis.REPL_AOF,redis.REPL_REPLICA,redis.REPL_SLAVE,redis.REPL_NONE}
return {redis.LOG_DEBUG,redis.LOG_VERBOSE,redis.LOG_NOTICE,redis.LOG_WARNING}|return type(redis.call)
local t={} for k in pairs(redis) do t[#t+1]=k end table.sort(t) return t
local t={} for k in pairs(os) do t[#t+1]=k end return t|return type(getmetatable(''))|return getmetatable(_G)~=nil
return getmetatable(redis)==nil|return loadstring('return 5')()|return load(function() return nil end)~=nil
return loadstring(5)|return {loadstring(1.5)}|return {loadstring(5, 6)}|return loadstring({})
return loadstring(string.char(27)..'Lua')|return loadstring('return (')|return _VERSION|return _G._G==_G|return next({})
return {bit.band(0xff,0x0f),bit.bor(1,2,4),bit.bxor(1,3),bit.bnot(0),bit.tobit(2^32+5)}|return bit.tohex(255,-4)
return {bit.lshift(1,31),bit.rshift(-1,28),bit.arshift(-8,1),bit.rol(2^31,1),bit.ror(1,1),bit.bswap(1)}
return bit.tohex(-1)|return tostring(1e15)..tostring(2^53)..tostring(0.1)|return tonumber("0x10")
return ("%d"):format(3.7)|return ({("x"):rep(3), ("a,b"):gsub(",", ";")})[2]
return collectgarbage("stop")|return gcinfo() > 0
return bit.tobit('0x10')|return bit.tobit(' 7 ')|return {bit.tobit(1e300),bit.tobit(0/0),bit.bnot(-1/0),bit.tobit(2.5)}
return bit.tobit(2^40+2^31)|return bit.band('12',' 0x6 ')|return bit.tobit(-2^63)|return bit.bswap('1e2')
return redis.sha1hex(0/0)|return redis.sha1hex(1.5)
"""

# Arguments in the place of a number, separated by `|`.
NUMBERS = """
'2'|' 3 '|'0x2'|'2e0'|''|'x'|2.9|-0.5|'-0.2'|-1|3.5|3.99|4|4294967298|2147483648|-2147483649|1e300|-1e300|0/0|true|nil
{}
"""

# Values for cjson.encode, separated by `~`.
JSON_VALUES = r"""
{1,2,{a=1},1.5,1e20,true,cjson.null,{}}~{}~{a={}}~"x"~0.1~1/3~true~false~nil~cjson.null~-0.5~1e15~123456789012345
"x/y\n\1\127\200\"\\\b\f\r\t"~{[1]=1,[5]=2}~{[1]=1,[50]=2}~{[10]=1}~{[11]=1}~{[1.5]=1}~{[-1]="x"}~{["k\n"]=1}
function() end~{[true]=1}~1/0~0/0~{{{{{}}}}}~{{1},{2,{3}}}~{a={function() end}}~{1,2,x=3}
"""

# Texts for cjson.decode, separated by `~`.
JSON_TEXTS = r"""
[1,2,{"a":null}]~{"a":{"b":[true,false,"c"]}}~[]~{}~ [ 1 , 2 ] ~"text"~1.5~-3~2e3~"\u00e9\u20ac\ud83d\ude00\n\/"~null
true~nope~[1,~[1~[1 2]~{~{"a"~{"a" 1}~{"a":~{"a":1~{"a":1,}~{1:2}~{"a":1]~[1] x~"open~"\x"~"\u12"~"\ud83d"~,~:~]~}~tru
[01]~0x10~-~+1~[1,]~--1~1e~1.~.5~-.5~[-]~0x~-0x1~1.5.2~infinity~-inf~nanx~[1 -]
"""

SHOW = """
local function show(v)
    if v == cjson.null then return 'null' end
    if type(v) ~= 'table' then return type(v) .. ' ' .. tostring(v) end
    local t = {}
    for k, item in pairs(v) do t[#t+1] = tostring(k) .. '=' .. show(item) end
    table.sort(t)
    return '{' .. table.concat(t, ' ') .. '}'
end
local ok, value = pcall(cjson.decode, ARGV[1])
return {tostring(ok), show(value)}
"""


def test_json_is_that_of_redis(headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        for value in parts(JSON_VALUES, "~"):
            compare(ours, theirs, "EVAL", f"local text = cjson.encode({value}) return text", "0")
        for text in ("", *parts(JSON_TEXTS, "~")):
            compare(ours, theirs, "EVAL", SHOW, "0", text)
        compare(ours, theirs, "EVAL", "local made = cjson.encode() return made", "0")
        compare(ours, theirs, "EVAL", "local t = {} t[1] = t local text = cjson.encode(t) return text", "0")
        compare(ours, theirs, "EVAL", "return {cjson.null, type(cjson.null), cjson._NAME}", "0")
        deep = "[" * 1001 + "]" * 1001
        compare(ours, theirs, "EVAL", "local made = cjson.decode(ARGV[1]) return made", "0", deep)


# Texts of errors, separated by `|`.
ERROR_TEXTS = r"""
'a\0b'|'\0'|'\0b c'|''|' '|'  x'|'a=b c'|'a,b c'|'a:b c'|'=x y'|'a#b c'|'a\\b c'|'a\tb c'|'\255\1 x'|'A b\0c'|'NOSPACE'
'a\r\nb c'|'A\nB'|'\r\n'|'X\r\n'|'a\rb c'|'A\r\n\r\nB c'|'a b\n\n'|'\nA b'|'-A b'|'--A b'|'- b'|'-'|'ERR'|'ERR '
'-ERR x'|('L'):rep(63)..' x'|('L'):rep(64)..' x'|('L'):rep(65)..' x'|('L'):rep(127)..' x'|('L'):rep(128)..' x'
('L'):rep(129)..' x'|('L'):rep(5000)..' x'|('L'):rep(100000)|5|5.5|nil|true|{}
"""

# Scripts that use such a text, one on each line.
ERROR_USES = """
return {err=TEXT}
return {1,{err=TEXT}}
return {ok=TEXT}
return redis.error_reply(TEXT)
return redis.status_reply(TEXT)
return redis.pcall(TEXT)
return redis.call('ECHO',TEXT)
error(TEXT)
error({err=TEXT})
error({err=TEXT, ignore_error_stats_update=true})
local _, problem = pcall(error, {err=TEXT}) return problem
"""

# Calls that fail, separated by `|`.
FAILING_CALLS = """
redis.call()|redis.call(nil)|redis.call('ECHO',true)|redis.call('nosuch')|redis.call('get')|redis.call('incr','text')
redis.pcall()|redis.pcall(nil)|redis.pcall('ECHO',true)|redis.pcall('nosuch')|redis.pcall('get')|redis.pcall('multi')
redis.log('x')|redis.log(10,'x')|redis.log('x','y')|redis.setresp()|redis.setresp(4)|redis.set_repl()|redis.set_repl(99)
redis.sha1hex()|redis.acl_check_cmd()|redis.acl_check_cmd('nosuch')|redis.acl_check_cmd('get')|redis.nosuch()|error('x')
string.rep()|cjson.decode('x')|rawset(_G,'x',1)|setmetatable(_G,{})|x=1
"""

# Scripts with such a call, one on each line.
PLACES_OF_CALLS = """
CALL
CALL return 1
return {pcall(function() CALL end)}
local _, problem = pcall(function() CALL end) error(problem)
local made = coroutine.create(function() CALL end) local _, problem = coroutine.resume(made) return problem
local function list(problem) local t = {} for k, v in pairs(problem) do t[#t+1] = k..'='..tostring(v) end table.sort(t) return t[1]..(t[2] or '') end return {xpcall(function() CALL end, function(problem) return type(problem) == 'table' and list(problem) or problem end)}
"""  # noqa: E501 - one script on each line


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_errors_have_the_bytes_and_the_statistics_that_they_have_on_redis(
    protocol: str, headrace: Server, oracle: Server
) -> None:
    scripts = [use.replace("TEXT", text) for use in parts(ERROR_USES, "\n") for text in parts(ERROR_TEXTS)]
    scripts += [place.replace("CALL", call) for place in parts(PLACES_OF_CALLS, "\n") for call in parts(FAILING_CALLS)]
    with headrace.connect() as ours, oracle.connect() as theirs:
        compare(ours, theirs, "SET", "text", "abc")
        for wire in (ours, theirs):
            wire.call("HELLO", protocol)
        for script in scripts:
            compare(ours, theirs, "CONFIG", "RESETSTAT")
            compare(ours, theirs, "EVAL", script, "0")
            compare(ours, theirs, "INFO", "errorstats")


def test_numbers_are_converted_as_in_c(headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        for number in parts(NUMBERS, "|"):
            for call in ("setresp({})", "set_repl({})", "log({},'x')", "log(3,{},'x')"):
                compare(ours, theirs, "EVAL", f"redis.{call.format(number)}", "0")


REQUESTS = """
EVAL|EVAL_RO x|EVALSHA x 1|SCRIPT|SCRIPT LOAD|SCRIPT NOSUCH|SCRIPT KILL|SCRIPT KILL x|SCRIPT FLUSH x|SCRIPT FLUSH SYNC x
EVAL return x|EVAL return -1|EVAL return 1|EVAL return 99999999999999999999999|EVAL return 1 k a|EVALSHA x 0
EVALSHA 0000000000000000000000000000000000000000 x|EVALSHA 0000000000000000000000000000000000000000 0|SCRIPT EXISTS
SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db zz|SCRIPT FLUSH|SCRIPT FLUSH SYNC|SCRIPT FLUSH async|SCRIPT HELP
SCRIPT DEBUG NO|SCRIPT DEBUG maybe|COMMAND GETKEYS EVAL x 2 a b c|COMMAND GETKEYS EVAL x 0 a|COMMAND GETKEYS EVAL x 3 a
COMMAND GETKEYSANDFLAGS EVALSHA x 1 a|COMMAND GETKEYSANDFLAGS EVAL_RO x 1 a b c
"""

# Lua strings. Redis cuts some of them at a zero byte, or removes line breaks at their end.
ODD_TEXTS = (
    r"a\0b", r"a\r\nb", r"\0", r"\r\n", "-", "--X y", r"a b\r\n\r\n", r"a\nb c", r"\255\254 x", r"-\0", r"-ERR a\0b c",
    "", r"\n", r"x\r\n\0y", r"\0\r\n",
)  # fmt: skip

REPLIES_OF_TEXT = (
    "return {err='%s'}", "return {ok='%s'}", "return {1,{err='%s'}}", "return {1,{ok='%s'}}", "error('%s')",
    "error('%s',0)", "error({err='%s'})", "return redis.error_reply('%s')", "return redis.status_reply('%s')",
    "local e=redis.error_reply('%s') return {#e.err,e.err}", "return {1,redis.error_reply('%s')}",
    "return {pcall(error,{err='%s'})}", "return {pcall(error,'%s')}", "return redis.call('%s')", "return '%s'",
    "return redis.pcall('get','%s','x')", "return redis.call('client','%s')", "return {big_number='%s'}",
    "return {verbatim_string={format='txt',string='%s'}}", "return {verbatim_string={format='%s',string='x'}}",
)  # fmt: skip

SHEBANGS = (
    "#!lua\nreturn 1",
    "#!lua name=x\nreturn 1",
    "#!lua flags=no-writes\nreturn redis.call('set','x',1)",
    "#!lua flags=no-writes,allow-oom\nerror('x')",
    "#!lua flags=bad\nreturn 1",
    "#!lua flags=allow-stale,no-cluster,allow-cross-slot-keys\nreturn 1",
    "#!lua flags=\nreturn 1",
    "#!lua flags=no-writes\n\nreturn (",
    "#!js\nreturn 1",
    "#!lua",
    "#!\nreturn 1",
)


def parts(text: str, mark: str = "|") -> list[str]:
    """The items of a list, across its lines."""
    return [part for line in text.strip().splitlines() for part in line.split(mark)]


def compare(ours: Wire, theirs: Wire, *words: str) -> None:
    here, there = ours.call(*words), theirs.call(*words)
    if words[0] == "COMMAND":  # flags are a set
        here, there = (b"".join(sorted(reply.splitlines())) for reply in (here, there))
    assert here == there, words


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("first", ["", "redis.setresp(3) "], ids=["resp2", "setresp3"])
@pytest.mark.parametrize("scripts", [CONVERSIONS, CALLS, ERRORS, LIBRARY], ids=["return", "call", "error", "library"])
def test_a_script_answers_as_on_redis(
    scripts: str, first: str, protocol: int, headrace: Server, oracle: Server
) -> None:
    with headrace.connect(protocol) as ours, oracle.connect(protocol) as theirs:
        for wire in (ours, theirs):
            wire.call("FLUSHALL")
        for script in parts(scripts):
            compare(ours, theirs, "EVAL", first + script, "1", "key", "argument")
            compare(ours, theirs, "EVAL", first + "\n\n" + script, "0")
            compare(ours, theirs, "EVAL_RO", first + script, "0")


@pytest.mark.parametrize("protocol", [2, 3])
def test_odd_bytes_in_replies_of_scripts_are_shown_as_on_redis(protocol: int, headrace: Server, oracle: Server) -> None:
    with headrace.connect(protocol) as ours, oracle.connect(protocol) as theirs:
        for script in REPLIES_OF_TEXT:
            for text in ODD_TEXTS:
                for first in ("", "redis.setresp(3) "):
                    compare(ours, theirs, "EVAL", first + script % text, "0")


@pytest.mark.parametrize(
    ("opening", "closing"),
    [("return function() ", " end"), ("do ", " end"), ("local a = (", ")"), ("if 1 then ", " end"), ("f(", ")")],
)
def test_a_script_that_is_nested_too_deep_is_refused_as_on_redis(
    opening: str, closing: str, headrace: Server, oracle: Server
) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        for depth in (50, 95, 250, 5000):
            compare(ours, theirs, "SCRIPT", "LOAD", opening * depth + closing * depth)


def test_requests_are_checked_as_on_redis(headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        for request in parts(REQUESTS):
            compare(ours, theirs, *request.split(" "))
        for script in SHEBANGS:
            for name in ("EVAL", "EVAL_RO"):
                compare(ours, theirs, name, script, "0")
            compare(ours, theirs, "SCRIPT", "LOAD", script)


def test_a_loaded_script_runs_by_its_digest_in_any_case(headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        compare(ours, theirs, "SCRIPT", "LOAD", "return {KEYS[1], ARGV[1], 'loaded'}")
        sha = ours.ask("SCRIPT", "LOAD", "return {KEYS[1], ARGV[1], 'loaded'}").decode()
        for name in ("EVALSHA", "EVALSHA_RO"):
            compare(ours, theirs, name, sha, "1", "k", "a")
            compare(ours, theirs, name, sha.upper(), "1", "k", "a")
            compare(ours, theirs, name, sha, "x")
        compare(ours, theirs, "SCRIPT", "EXISTS", sha, sha.upper(), "x")
        compare(ours, theirs, "SCRIPT", "FLUSH")
        compare(ours, theirs, "EVALSHA", sha, "0")


def test_scripts_in_transactions(headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        for words in (
            ("MULTI",),
            ("EVAL", "return redis.call('incr', KEYS[1])", "1", "counted"),
            ("EVAL", "return redis.call('nosuch')", "0"),
            ("EVAL", "return {1, {err='x'}}", "0"),
            ("EVALSHA", "x", "0"),
            ("EXEC",),
            ("MULTI",),
            ("EVAL", "return 1"),
            ("EXEC",),
            ("WATCH", "counted"),
            ("EVAL", "return redis.call('incr', KEYS[1])", "1", "counted"),
            ("MULTI",),
            ("PING",),
            ("EXEC",),
        ):
            compare(ours, theirs, *words)


def test_rules_of_the_user_hold_in_scripts(headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        compare(ours, theirs, "ACL", "SETUSER", "eve", "on", "nopass", "~k*", "+@all", "-set", "-@dangerous", "&c*")
        compare(ours, theirs, "ACL", "LOG", "RESET")
        compare(ours, theirs, "AUTH", "eve", "x")
        for script in (
            "return redis.call('set','k','1')",
            "return redis.pcall('set','k','1')",
            "return redis.call('get','x')",
            "return redis.call('publish','x','1')",
            "return redis.call('publish','c','1')",
            "return redis.acl_check_cmd('set','k',1)",
            "return redis.acl_check_cmd('get','k')",
            "return redis.acl_check_cmd('get','x')",
            "return redis.call('flushall')",
        ):
            compare(ours, theirs, "EVAL", script, "0")
        compare(ours, theirs, "EVAL", "return 1", "1", "x")
        for wire in (ours, theirs):
            wire.call("AUTH", "default", "")
        logs = [[entry[1:10] for entry in wire.ask("ACL", "LOG")] for wire in (ours, theirs)]
        assert logs[0] == logs[1]
        compare(ours, theirs, "ACL", "DELUSER", "eve")


def test_memory_runs_out_as_on_redis(headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        compare(ours, theirs, "SET", "k", "v")
        compare(ours, theirs, "CONFIG", "SET", "maxmemory", "1")
        try:
            for script in (
                "return redis.call('set','k','1')",
                "return redis.pcall('set','k','1')",
                "return redis.call('del','k')",
                "redis.call('del','k') return redis.call('set','k','1')",
                "return redis.call('get','k')",
                "#!lua\nreturn redis.call('set','k','1')",
                "#!lua flags=allow-oom\nreturn redis.call('set','k','1')",
                "#!lua flags=no-writes\nreturn redis.call('get','k')",
            ):
                compare(ours, theirs, "EVAL", script, "0")
        finally:
            compare(ours, theirs, "CONFIG", "SET", "maxmemory", "0")


STATISTICS = """
redis.call('set','k','1') redis.pcall('nosuch') redis.pcall('get') redis.pcall('incr','nn','x')
redis.call('nosuch')|redis.call('incr','s')|error('x')|return {err='FOO x'}|return redis.call('get','k')
"""


def test_calls_errors_and_slow_calls_count_as_on_redis(headrace: Server, oracle: Server) -> None:
    seen = []
    with headrace.connect() as ours, oracle.connect() as theirs:
        for wire in (ours, theirs):
            wire.call("SET", "s", "word")
            wire.call("CONFIG", "SET", "slowlog-log-slower-than", "0")
            wire.call("SLOWLOG", "RESET")
            wire.call("CONFIG", "RESETSTAT")
            for script in parts(STATISTICS):
                wire.call("EVAL", script, "0")
            slow = [(entry[3], entry[4] == b"", *entry[5:]) for entry in wire.ask("SLOWLOG", "GET", "100")]
            counts = {}
            for section in ("commandstats", "errorstats"):
                for line in wire.ask("INFO", section).decode().split("\r\n")[1:]:
                    fields = [field for field in line.split(",") if "usec" not in field and "slowlog" not in field]
                    counts[line.partition(":")[0]] = ",".join(fields).partition(":usec")[0]
            counts = {name: line for name, line in counts.items() if "slowlog" not in name and "config" not in name}
            processed = next(line for line in wire.ask("INFO", "stats").split(b"\r\n") if b"commands_processed" in line)
            wire.call("CONFIG", "SET", "slowlog-log-slower-than", "10000")
            seen.append((slow, counts, processed))
    assert seen[0] == seen[1]


def test_monitors_see_the_script_and_then_what_it_calls(headrace: Server, oracle: Server) -> None:
    seen = []
    for server in (headrace, oracle):
        with server.connect() as wire, server.connect() as monitor:
            monitor.call("MONITOR")
            script = "redis.call('set','k','1') redis.call('select',2) redis.pcall('get') return redis.call('get','k')"
            wire.call("EVAL", script, "1", "k")
            wire.call("EVALSHA", "x", "0")
            wire.call("EVAL", "return (", "0")
            lines = [monitor.receive() for _ in range(6)]
            seen.append([re.sub(rb"^.*? \[(\d (lua)?)[^]]*", rb"\1", line) for line in lines])
    assert seen[0] == seen[1]


MADE_UP = [
    "A:B c",
    "A=B c",
    "A,B c",
    "A#B c",
    "X" * 30 + " c",
    "X" * 31 + " c",
    "-x c",
    "alone",
    "",
    " x",
    "\\1 c",
    "\\n c",
]


def test_code_words_made_up_by_scripts_count_as_on_redis(headrace: Server, oracle: Server) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        for texts in (MADE_UP, [f"E{number} x" for number in range(128)], [f"E{number} x" for number in range(129)]):
            for wire in (ours, theirs):
                wire.call("CONFIG", "RESETSTAT")
            for text in texts:
                compare(ours, theirs, "EVAL", f"return {{err='{text}'}}", "0")
            assert sorted(ours.ask("INFO", "errorstats").split()) == sorted(theirs.ask("INFO", "errorstats").split())
