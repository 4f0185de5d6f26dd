"""Libraries of functions in the server: what is logged and kept, and what happens without Lua."""

from __future__ import annotations

import sys

import pytest

from headrace.persistence.errors import RdbError
from headrace.persistence.rdb.file import FileKey, FileLibrary, FileReader, write_file
from headrace.persistence.snapshot import snapshot
from headrace.server.storage.filling import Filling
from headrace.store.limits import Limits
from support.inprocess import Rig

CODE = """#!lua name=lib
redis.register_function('put', function(keys, arguments) return redis.call('SET', keys[1], arguments[1]) end)
redis.register_function{function_name='get', callback=function(keys) return redis.call('GET', keys[1]) end,
                        description='Reads.', flags={'no-writes'}}"""


def load_line(code: str = CODE, *options: str) -> str:
    """The line that loads a library."""
    text = code.replace("\n", "\\n").replace('"', '\\"')
    return " ".join(["FUNCTION LOAD", *options, f'"{text}"'])


@pytest.fixture
def rig() -> Rig:
    return Rig(enable_debug_command=b"yes")


def counts(rig: Rig) -> tuple[int, int]:
    """How many libraries and functions there are."""
    present = rig.server.context.libraries.present
    return len(present.libraries), len(present.functions)


def test_changes_of_libraries_are_logged_as_they_came_and_calls_by_their_effects(rig: Rig) -> None:
    caller = rig.connect()
    assert caller.call(load_line()) == b"$3\r\nlib\r\n"
    dump = rig.server.context.libraries.codes
    assert caller.call("FCALL put 1 k v", "FCALL get 1 k", "function delete lib", "FUNCTION FLUSH ASYNC") == (
        b"+OK\r\n$1\r\nv\r\n+OK\r\n+OK\r\n"
    )
    assert dump == [CODE.encode()]
    assert rig.log.units == [
        [b"FUNCTION LOAD " + CODE.encode()], [b"SET k v"], [b"function delete lib"], [b"FUNCTION FLUSH ASYNC"],
    ]  # fmt: skip


def test_what_is_refused_changes_and_logs_nothing(rig: Rig) -> None:
    caller = rig.connect()
    caller.call(load_line())
    rig.log.units.clear()
    for line in (load_line(), load_line("#!lua name=lib\nx()", "REPLACE"), load_line("#!lua name=lib\n", "REPLACE"),
                 load_line(CODE.replace("name=lib", "name=other")), "FUNCTION DELETE other"):  # fmt: skip
        assert caller.call(line).startswith(b"-ERR"), line
    assert counts(rig) == (1, 2)
    assert rig.log.units == []


def test_libraries_outlive_a_flush_of_the_keys_and_a_reload_that_fails(rig: Rig) -> None:
    caller = rig.connect()
    caller.call(load_line(), "FLUSHALL")
    assert caller.call("DEBUG RELOAD NOSAVE") == b"-ERR Error trying to load the RDB dump, check server logs.\r\n"
    assert caller.call("FCALL put 1 k v") == b"+OK\r\n"
    assert counts(rig) == (1, 2)


def test_functions_see_the_globals_of_functions_only_when_they_run(rig: Rig) -> None:
    caller = rig.connect()
    code = "#!lua name=l\nlocal saved = redis\nredis.register_function('f', function() return {type(math), %s} end)"
    caller.call(load_line(code % "redis.register_function == nil"), "EVAL 'return 1' 0")
    assert caller.call("FCALL f 0") == b"*2\r\n$5\r\ntable\r\n:1\r\n"
    caller.call(load_line(code % "saved.call", "REPLACE"))
    assert b"nonexistent global variable 'call' script: f, on @user_function:3." in caller.call("FCALL f 0")


def test_a_library_that_takes_too_long_is_not_loaded(rig: Rig) -> None:
    reply = rig.connect().call(load_line("#!lua name=l\nwhile true do end"))
    assert reply == b"-ERR Error registering functions: ERR FUNCTION LOAD timeout\r\n"


def test_functions_whose_names_differ_only_in_case_are_refused(rig: Rig) -> None:
    caller = rig.connect()
    twice = "#!lua name=l\nredis.register_function('F', redis.log) redis.register_function('f', redis.log)"
    assert b"Function already exists in the library" in caller.call(load_line(twice))
    caller.call(load_line())
    other = "#!lua name=l\nredis.register_function('PUT', redis.log)"
    assert caller.call(load_line(other)) == b"-ERR Function PUT already exists\r\n"


def test_the_permissions_of_a_function_are_those_of_its_caller(rig: Rig) -> None:
    caller = rig.connect()
    caller.call(load_line(), "ACL SETUSER al on nopass ~k* +fcall +get", "AUTH al x")
    assert caller.call("FCALL get 1 other").startswith(b"-NOPERM")
    assert caller.call("FCALL get 1 k") == b"$-1\r\n"
    assert b"ACL failure in script" in caller.call("FCALL put 1 k v")
    assert caller.call("FUNCTION LIST").startswith(b"-NOPERM")


def test_info_counts_libraries_and_functions(rig: Rig) -> None:
    caller = rig.connect()
    caller.call(load_line())
    fields = dict(line.split(":", 1) for line in caller.call("INFO memory").decode().split("\r\n") if ":" in line)
    assert (fields["number_of_libraries"], fields["number_of_functions"]) == ("1", "2")
    assert int(fields["used_memory_functions"]) > len(CODE)
    assert int(fields["used_memory_vm_functions"]) > 0


# -- files -------------------------------------------------------------------------------------------


def test_files_begin_with_the_libraries() -> None:
    codes = [b"#!lua name=a\n", b"#!lua name=b\n" + b"-" * 5000]
    data = b"".join(write_file((), {b"redis-ver": b"8"}, now_ms=0, libraries=codes))
    parts = list(FileReader((data,), Limits(), now_ms=0).parts())
    assert parts == [FileLibrary(code) for code in codes]
    assert not [part for part in parts if isinstance(part, FileKey)]
    records = [record.split(b"\r\n")[2::2] for _, record in snapshot((), codes)]
    assert records == [[b"FUNCTION", b"LOAD", code] for code in codes]


@pytest.fixture
def without_lua(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lupa.lua51", None)


@pytest.mark.usefixtures("without_lua")
def test_without_lua_libraries_of_files_are_kept_and_all_else_says_so(rig: Rig) -> None:
    caller, libraries = rig.connect(), rig.server.context.libraries
    needs_lua = b"-ERR scripts need the Python package lupa: pip install 'headrace[scripts]'\r\n"
    assert caller.call(load_line()) == needs_lua
    libraries.present = libraries.prepared([CODE.encode()], is_from_file=True)
    assert caller.call("FCALL put 1 k v") == needs_lua
    assert caller.call("FUNCTION STATS").endswith(b":1\r\n$15\r\nfunctions_count\r\n:0\r\n")
    assert CODE.encode() in caller.call("FUNCTION LIST WITHCODE")
    assert libraries.codes == [CODE.encode()]


def test_a_file_with_a_library_that_does_not_load_is_refused(rig: Rig) -> None:
    filling = Filling(rig.server.context.store.databases, rig.server.context)
    with pytest.raises(RdbError, match="Failed creating the library: No functions registered"):
        filling.put_library(FileLibrary(b"#!lua name=a\n"))
