"""Lua scripts for the target `scripts`: the grammar from which they are drawn, and the server that runs them."""

from __future__ import annotations

import atexit
import os
import random
import re
import resource
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headrace.commands.scripting.interpreter import MEMORY_SIZE_MAX
from headrace.commands.scripting.values import REPLY_SIZE_MAX
from support.servers import Server
from support.wire import RECEIVE_SIZE, encode

THRESHOLD_MS: Final = 50
# Time for a reply; much more than the threshold, for a busy machine.
ANSWER_S_MAX: Final = 15.0
# Bytes that the server may hold at its peak.
HELD_MAX: Final = 2 * (MEMORY_SIZE_MAX + REPLY_SIZE_MAX)
# Bytes of a reply that are kept, from its beginning and from its end.
KEPT_SIZE: Final = 4096

# A script whose result must be the same after every other script.
PROBE: Final = """
local function f(...) return select('#', ...) end
local names = 0
for name in pairs(_G) do names = names + 1 end
return {names, #KEYS, ('x'):rep(3), f(1, nil), table.concat({1, 2}), type(next(redis)), math.floor(1.5),
    string.format('%d', 7), tostring(rawget(_G, 'x')), bit.band(7, 2), cjson.encode({1}), redis.call('ECHO', 'e')}
"""

# -- the grammar ----------------------------------------------------------------------------------

SEEDS: Final = (
    "return 1",
    "return {KEYS[1], ARGV[1], {1, {ok='x'}, {err='E x'}}, redis.call('XLEN', 's')}",
    "for i = 1, 3 do redis.call('XADD', 's', '*', 'f', i) end return redis.call('XRANGE', 's', '-', '+')",
    "return redis.pcall('INCR', 's') or redis.error_reply('x')",
    "local t = setmetatable({}, {__index = function(t, k) return k end}) return t[1] .. t.x",
    "local ok, e = pcall(function() error({err = 'x'}) end) return {ok, e}",
    "return {xpcall(function() local x = nil; return x.y end, function(e) return e .. '!' end)}",
    "local c = coroutine.wrap(function(a) local b = coroutine.yield(a) return b end) return {c(1), c(2)}",
    "return cjson.decode(cjson.encode({1, {a = 'b'}, cjson.null, true, 1.5}))[2].a",
    "return {cmsgpack.unpack(cmsgpack.pack(1, 'x', {1, 2}, {a = 1}, -1.5))}",
    "return {('a=1, b=2'):gsub('(%w+)=(%w+)', '%2=%1'), (('x y'):find('%s+(.-)$'))}",
    "for k, v in string.gmatch('a=1, b=2', '(%w+)=(%w+)') do redis.call('SET', k, v) end",
    "local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return {unpack(t, 1, 3)}",
    "return loadstring('return ...')(5) + load(function() return nil end)()",
    "#!lua flags=no-writes\nreturn redis.call('GET', 'k')",
    "--[==[ long ]==] return [=[text]=] .. #'\\065\\n' .. 0x10 .. 1e3",
)

FUNCTION_NAMES: Final = """
assert error gcinfo getmetatable ipairs load loadstring next pairs pcall rawequal rawget rawset select setmetatable
tonumber tostring type unpack xpcall collectgarbage
string.byte string.char string.find string.format string.gfind string.gmatch string.gsub string.len string.lower
string.match string.rep string.reverse string.sub string.upper
table.concat table.foreach table.foreachi table.getn table.insert table.maxn table.remove table.setn table.sort
math.abs math.ceil math.floor math.fmod math.frexp math.ldexp math.max math.modf math.pow math.random math.sqrt
coroutine.create coroutine.resume coroutine.running coroutine.status coroutine.wrap coroutine.yield
bit.band bit.bor bit.bnot bit.bswap bit.lshift bit.rol bit.tobit bit.tohex cjson.encode cjson.decode
cmsgpack.pack cmsgpack.unpack cmsgpack.unpack_one cmsgpack.unpack_limit struct.pack struct.unpack struct.size
redis.call redis.pcall redis.error_reply redis.status_reply redis.sha1hex redis.setresp redis.set_repl redis.log
redis.acl_check_cmd redis.breakpoint redis.replicate_commands os.clock
"""
FUNCTIONS: Final = tuple(FUNCTION_NAMES.split())
NUMBERS: Final = (
    "0", "1", "-1", "2", "7", "0.5", "100", "1e5", "1e308", "1/0", "0/0", "2^31", "2^31-1", "-2^31", "2^53", "2^63",
    "-2^63", "0x7fffffff", "8000",
)  # fmt: skip
STRINGS: Final = (
    "''", "'a'", "'s'", "'%'", "'%d'", "'%s+'", "'.-b'", "'(a*)*'", "'[%w_]'", "'['", "'%b()'", "'%f[%a]'",
    "('a'):rep(1e5)", "('a?'):rep(50)", "('.-'):rep(9) .. 'b'", "'\\0'", "'\\27Lua'", "'return 1'",
    "'[1,{\"a\":2}]'", "('['):rep(2000)", "'%99d'", "'%q'", "'n=1'", "('\\145'):rep(9000)", "'#'", "'*'",
)  # fmt: skip
COMMANDS: Final = (
    "'SET', 'k', {}", "'GET', 'k'", "'XADD', 's', '*', 'f', {}", "'XRANGE', 's', '-', '+'", "'DEL', 'k', 's'",
    "{}, {}", "'APPEND', 'k', {}", "'XREAD', 'STREAMS', 's', '0'", "'HELLO'", "'PUBLISH', 'c', {}", "'NOSUCH', {}",
    "'XINFO', 'STREAM', 's'",
)  # fmt: skip
KEYS_OF_METATABLES: Final = (
    "__index", "__newindex", "__call", "__tostring", "__eq", "__lt", "__le", "__concat", "__len", "__unm", "__add",
    "__mode", "__gc", "__metatable",
)  # fmt: skip
# Calls with arguments of the right kind. A letter stands for a number, string, table, function or any value.
SHAPES: Final = (
    "unpack({}, N, N)", "unpack(T, N)", "string.rep(S, N)", "(S):sub(N, N)", "(S):byte(N, N)",
    "string.find(S, S, N)", "string.match(S, S)", "string.gsub(S, S, S)", "string.gsub(S, S, F, N)",
    "string.format(S, V, V)", "select(N, V, V)", "table.concat(T, S, N, N)", "table.insert(T, N, V)",
    "table.remove(T, N)", "table.sort(T, F)", "tonumber(S, N)", "loadstring(S, S)", "load(F)", "pcall(F, V)",
    "xpcall(F, F)", "coroutine.wrap(F)(V)", "coroutine.resume(coroutine.create(F))", "rawset(V, S, V)",
    "setmetatable(V, T)", "cjson.decode(S)", "cjson.encode(T)", "cmsgpack.unpack(S)", "cmsgpack.pack(T, V)",
    "cmsgpack.unpack_limit(S, N, N)", "bit.tohex(N, N)", "bit.lshift(N, N)", "redis.sha1hex(S)", "redis.log(3, S)",
    "redis.error_reply(S)", "math.random(N, N)", "string.gmatch(S, S)()",
)  # fmt: skip
OPERATORS: Final = ("+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", "and", "or")
NAMES: Final = ("a", "b", "c", "KEYS", "ARGV", "_G", "redis", "string")
DEPTH_MAX: Final = 4


class Grammar:
    """Draws programs. Most of them compile, many run without an error, and some never end."""

    def __init__(self, rnd: random.Random) -> None:
        self._rnd = rnd
        self._expressions: list[Callable[[int], str]] = [
            lambda _: rnd.choice(NUMBERS),
            lambda _: rnd.choice(STRINGS),
            lambda _: rnd.choice(NAMES),
            lambda _: rnd.choice(FUNCTIONS),
            lambda _: rnd.choice(("nil", "true", "false", "{}", "cjson.null", "...")),
            self._call,
            self._shape,
            self._shape,
            self._command,
            self._table,
            self._function,
            self._metatable,
            lambda depth: f"({self.expression(depth)} {rnd.choice(OPERATORS)} {self.expression(depth)})",
            lambda depth: f"{rnd.choice(('-', 'not ', '#'))}({self.expression(depth)})",
            lambda depth: f"({self.expression(depth)})[{self.expression(depth)}]",
            lambda depth: f"({self.expression(depth)}):{rnd.choice(('rep', 'find', 'gsub'))}({self._list(depth)})",
        ]
        self._statements: list[Callable[[int], str]] = [
            lambda depth: f"{rnd.choice(('a', 'b', 'c'))} = {self.expression(depth)}",
            lambda depth: f"{rnd.choice(('a', 'b', 'c'))}[{self.expression(depth)}] = {self.expression(depth)}",
            lambda depth: f"local {rnd.choice(('a', 'b', 'c'))} = {self._list(depth)}",
            self._call,
            lambda depth: f"c = {self._shape(depth)}",
            lambda depth: f"{rnd.choice(NAMES)}[{self.expression(depth)}] = {self.expression(depth)}",
            self._command,
            lambda depth: f"pcall({self._function(depth)})",
            lambda depth: f"if {self.expression(depth)} then {self.block(depth)} else {self.block(depth)} end",
            lambda depth: f"for i = {self.expression(depth)}, {self.expression(depth)} do {self.block(depth)} end",
            lambda depth: f"for k, v in {self.expression(depth)} do {self.block(depth)} end",
            lambda depth: f"for k, v in pairs({rnd.choice(NAMES)}) do {self.block(depth)} end",
            lambda depth: f"while {self.expression(depth)} do {self.block(depth)} end",
            lambda depth: f"repeat {self.block(depth)} until {self.expression(depth)}",
            lambda depth: f"do {self.block(depth)} end",
        ]

    def script(self) -> str:
        """A whole program. Most steps are within `pcall`, so that the first error does not end the program."""
        rnd = self._rnd
        values = ", ".join(rnd.choice((*NUMBERS, *STRINGS, "{}", "{1, 2, 3}")) for _ in range(3))
        steps = [self.block(1) for _ in range(rnd.randint(1, 5))]
        steps = [
            f"pcall(function(...) {step} end, {self.expression(2)})" if rnd.randrange(5) else step for step in steps
        ]
        return f"local a, b, c = {values}; {'; '.join(steps)}; return {{pcall(function() return {self._list(1)} end)}}"

    def block(self, depth: int) -> str:
        """Some statements."""
        count = self._rnd.randint(1, 3) if depth < DEPTH_MAX else 1
        return "; ".join(self._statement(depth + 1) for _ in range(count))

    def _statement(self, depth: int) -> str:
        if depth > DEPTH_MAX:
            return f"a = {self.expression(depth)}"
        return self._rnd.choice(self._statements)(depth)

    def expression(self, depth: int) -> str:
        """A value."""
        known = self._expressions if depth < DEPTH_MAX else self._expressions[:5]
        return self._rnd.choice(known)(depth + 1)

    def _list(self, depth: int) -> str:
        return ", ".join(self.expression(depth) for _ in range(self._rnd.randint(1, 3)))

    def _call(self, depth: int) -> str:
        return f"{self._rnd.choice(FUNCTIONS)}({self._list(depth)})"

    def _shape(self, depth: int) -> str:
        kinds = {
            "N": lambda: self._rnd.choice(NUMBERS),
            "S": lambda: self._rnd.choice(STRINGS),
            "T": lambda: self._table(depth + 1) if depth < DEPTH_MAX else "{1, 2, 3}",
            "F": lambda: self._function(depth + 1) if depth < DEPTH_MAX else "error",
            "V": lambda: self.expression(depth + 1),
        }
        return re.sub(r"\b[NSTFV]\b", lambda found: kinds[found[0]](), self._rnd.choice(SHAPES))

    def _command(self, depth: int) -> str:
        name = self._rnd.choice(("call", "pcall"))
        words = self._rnd.choice(COMMANDS).split("{}")
        return f"redis.{name}({''.join(word + self.expression(depth) for word in words[:-1])}{words[-1]})"

    def _table(self, depth: int) -> str:
        return f"{{{self._list(depth)}, x = {self.expression(depth)}, [{self.expression(depth)}] = 1}}"

    def _function(self, depth: int) -> str:
        return f"function(...) {self.block(depth + 1)} return {self._list(depth)} end"

    def _metatable(self, depth: int) -> str:
        key = self._rnd.choice(KEYS_OF_METATABLES)
        return f"setmetatable({{}}, {{{key} = {self.expression(depth)}}})"


def draw_script(rnd: random.Random) -> bytes:
    """A program."""
    return Grammar(rnd).script().encode("latin-1")


# -- the server -----------------------------------------------------------------------------------


# Run first by a server: the kernel kills it when the process that started it ends. libFuzzer and a process that takes
# too long end without the functions of atexit.
ENDS_WITH_PARENT: Final = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != {parent}:
        sys.exit("the process that started this server has ended")
"""


class ScriptServer(Server):
    """A server process for scripts. `preface` is Python code that it runs first, to plant a defect."""

    preface = ""

    def program(self) -> list[str]:
        """The command line that starts the server."""
        watch = ENDS_WITH_PARENT.format(parent=os.getpid())
        return [sys.executable, "-c", f"{watch}{self.preface}\nfrom headrace.server.main import main; sys.exit(main())"]


class Runner:
    """Runs scripts in a server process. The process starts with the first script, and again after it has ended. It ends
    with this process.
    """

    def __init__(self, preface: str = "") -> None:
        self._preface = preface
        self._server: ScriptServer | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-fuzz-"))
        self._probed: bytes | None = None
        atexit.register(self.close)

    def close(self) -> None:
        """End the process and remove its files."""
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server = None

    def _started(self) -> ScriptServer:
        if self._server is not None:
            return self._server
        server = ScriptServer(
            "headrace", self._folder, "--busy-reply-threshold", str(THRESHOLD_MS), "--enable-debug-command", "no"
        )
        server.preface = self._preface
        masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPROF})
        try:
            server.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        limit = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.prlimit(server.pid, resource.RLIMIT_AS, (limit, limit))  # removes the limit of the fuzzer
        self._ask(server, b"SET", b"k", b"v")
        self._ask(server, b"XADD", b"s", b"1-1", b"f", b"v")
        self._server = server
        return server

    def run(self, script: bytes) -> str:
        """Run a script. Returns what was wrong with the reply, or an empty text."""
        server = self._started()
        try:
            reply = self._ask(server, b"EVAL_RO", script, b"1", b"k", b"a")  # EVAL could not be ended after a write
            if b"internal error" in reply:
                return f"answered {reply!r}: {server.log_tail()}"
            probed = self._ask(server, b"EVAL", PROBE.encode(), b"0")
            if b"Script ended" in probed:  # a busy machine; an endless script fails again
                probed = self._ask(server, b"EVAL", PROBE.encode(), b"0")
        except OSError as error:
            tail = server.log_tail()
            self._end()
            return f"the server does not answer ({error!r}): {tail}"
        if self._probed is None:
            self._probed = probed
        if probed != self._probed:
            return f"the next script finds {probed!r}, not {self._probed!r}"
        status = Path(f"/proc/{server.pid}/status")
        if status.exists():
            held = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
            if int(held.split()[1]) << 10 > HELD_MAX:
                self._end()
                return f"the server held more than {HELD_MAX} bytes: {held}"
        return ""

    def _ask(self, server: ScriptServer, *words: bytes) -> bytes:
        """The reply to a request, without its middle if it is long. Raises OSError."""
        mark = b"\r\n$12\r\nend of reply\r\n"
        with socket.create_connection(("127.0.0.1", server.port), timeout=ANSWER_S_MAX) as connection:
            connection.sendall(encode(words) + encode((b"ECHO", b"end of reply")))
            head = tail = b""
            while not tail.endswith(mark):
                data = connection.recv(min(RECEIVE_SIZE, KEPT_SIZE * 4))
                if not data:
                    raise ConnectionError("closed")
                head += data[: max(0, KEPT_SIZE - len(head))]
                tail = (tail + data)[-KEPT_SIZE:]
        return head if tail in head else head + tail
