"""A start that fails prints one line: no file that it reads, and no directive, causes a traceback."""

from __future__ import annotations

import contextlib
import io
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.persistence import check_aof
from headrace.server.configuration import directive_kinds
from headrace.server.configuration.config import Config
from headrace.server.configuration.config_lines import ConfigError
from headrace.server.configuration.configfile import load_text, read_file
from headrace.server.configuration.directive_kinds import quote
from headrace.server.configuration.directives import DIRECTIVES, Directive
from support.inprocess import Rig
from support.lines import split
from support.ports import free_port
from support.starts import attempt
from support.wire import encode

# -- directives --------------------------------------------------------------------------------------

HOSTILE = [
    b"a\0b", b"\0", b"\xff\xfe", b"9" * 5000, b"-" + b"9" * 5000, b"9" * 5000 + b"gb", b"9" * 5000 + b"%", b"1_000",
    "٣".encode(), b"1e999", b"nan", b"", b" ", b"x" * 70_000, b"..", b"/", b"a..b", b"a" * 70, b"0x10", b"+1",
]  # fmt: skip
PATTERNS = [b"%b", b"%b 1", b"1 %b", b"normal %b 0 0", b"normal 0 0 %b", b"%b 1 1"]
# Kinds of values that the start uses, besides counting them.
AT_START = (
    directive_kinds.Text, directive_kinds.Words, directive_kinds.Octal, directive_kinds.EventClasses,
)  # fmt: skip


@pytest.mark.parametrize("directive", DIRECTIVES, ids=lambda each: each.name.decode())
def test_a_hostile_value_is_taken_or_refused_with_a_reason(directive: Directive) -> None:
    for value in HOSTILE:
        for pattern in PATTERNS:
            config = Config()
            with contextlib.suppress(ConfigError):
                load_text(config, directive.name + b" " + pattern % quote(value))


LIVE = [each for each in DIRECTIVES if isinstance(each.kind, AT_START) and each.has_effect]


@pytest.mark.parametrize("directive", LIVE, ids=lambda each: each.name.decode())
def test_a_start_with_a_hostile_value_ends_clearly(directive: Directive, tmp_path: Path) -> None:
    for number, value in enumerate([b"a\0b", b"\xff\xfe", b"/", b"a..b", b"a" * 300]):
        if directive.name == b"logfile" and value in (b"\xff\xfe", b"a..b"):
            continue  # the option takes the lines that would be checked
        words = [b"--port", b"%d" % free_port()] if directive.name == b"bind" else []
        words += [b"--metrics-port", b"%d" % free_port()] if directive.name == b"metrics-bind" else []
        file = tmp_path / "file.conf"
        file.write_bytes(directive.name + b" " + quote(value) + b"\n")
        words += [b"--include", os.fsencode(file)]
        attempt(words, tmp_path / str(number)).require_clear_end()


# -- files -------------------------------------------------------------------------------------------

# Puts files into the folder of a start; its options.
Prepare = Callable[[Path], list[bytes]]

BYTES = {
    "nothing": b"",
    "zero bytes": b"\0" * 100,
    "no text": b"\xff\xfe\n" * 50,
    "a number without end": b"*" + b"9" * 5000 + b"\r\n",
    "a length without end": b"*1\r\n$" + b"9" * 5000 + b"\r\n",
    "a negative number": b"*-1\r\n",
    "a number of other digits": "*٣\r\n".encode(),
    "a note without end": b"#TS:" + b"9" * 5000 + b"\r\n",
    "half a dump": b"REDIS0012" + b"\xff" * 30,
    "a dump of no version": b"REDIS9999",
}
MANIFEST = b"file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n"
MANIFESTS = {
    "nothing": b"",
    "zero bytes": b"\0" * 100,
    "a base with a zero byte": b'file "a\\x00b" seq 1 type b\n',
    "an increment with a zero byte": b"file a\0b seq 1 type i\n",
    "a superseded file with a zero byte": MANIFEST + b'file "a\\x00b" seq 1 type h\n',
    "no text": b"file \xff\xfe seq 1 type i\n",
    "a number without end": b"file a seq " + b"9" * 900 + b" type i\n",
    "a line without end": b"file a seq " + b"9" * 5000 + b" type i\n",
    "a number of other digits": "file a seq ٣ type i\n".encode(),
    "an offset without end": b"file a seq 1 type i startoffset " + b"9" * 900 + b"\n",
    "a folder": b"file . seq 1 type i\n",
    "a long name": b"file " + b"x" * 900 + b" seq 1 type i\n",
    "itself": b"file appendonly.aof.manifest seq 1 type i\n",
    "a largest number": b"file appendonly.aof.1.incr.aof seq 9223372036854775807 type i\n",
}
RECORDS = [
    'EVAL "return 1" 0', "EVAL \"redis.call('SET','k','v')\" 0", "EVALSHA x 0", "SCRIPT LOAD x", "SUBSCRIBE a",
    "MONITOR", "CLIENT LIST", "CLIENT REPLY OFF", "CLIENT TRACKING ON", "CLIENT PAUSE 1000",
    "BGREWRITEAOF", "XREAD BLOCK 0 STREAMS s $", "WAIT 1 0", "WAITAOF 1 0 0", "AUTH x", "HELLO 3", "QUIT", "RESET",
    "SELECT 99999", "SELECT x",
    "SYNC", "PSYNC ? -1", "REPLCONF ACK 1", "REPLCONF capa eof",
    "MULTI", "EXEC", "WATCH k", "ACL SETUSER x", "FCALL x 0", "RESTORE k 0 x", "GET", '""',
    '"\\x00"', "XADD s 99999999999999999999999-1 f v", "SETRANGE k 99999999999999999 x", "SET k v PX 0",
]  # fmt: skip
ACL_FILES = {
    "zero bytes": b"\0" * 100,
    "no text": b"\xff\xfe\xfd",
    "a name with a zero byte": b"user a\0b on\n",
    "a rule with a zero byte": b"user x on ~a\0b\n",
    "rules that are no text": b"user \xff on +\xff ~\xff &\xff\n",
    "a category that is no text": b"user x +@\xff\n",
    "a user twice": b"user \xff on\nuser \xff on\n",
    "parentheses": b"user x on (((\n",
    "a long pattern": b"user x on ~[" + b"a*" * 5000 + b"\n",
}


def log_of(base: bytes = b"", increment: bytes = b"", manifest: bytes = MANIFEST) -> Prepare:
    def prepare(folder: Path) -> list[bytes]:
        log = folder / "appendonlydir"
        log.mkdir()
        (log / "appendonly.aof.manifest").write_bytes(manifest)
        (log / "appendonly.aof.1.base.aof").write_bytes(base)
        (log / "appendonly.aof.1.incr.aof").write_bytes(increment)
        return [b"--appendonly", b"yes"]

    return prepare


def file_of(name: str, data: bytes | None, *words: bytes) -> Prepare:
    """A file with this content; None is a folder in its place."""

    def prepare(folder: Path) -> list[bytes]:
        if data is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(data)
        return list(words)

    return prepare


def certificates_of(data: bytes) -> Prepare:
    def prepare(folder: Path) -> list[bytes]:
        (folder / "tls.pem").write_bytes(data)
        words = [b"--bind", b"127.0.0.1", b"--tls-port", b"%d" % free_port()]
        for name in (b"tls-cert-file", b"tls-key-file", b"tls-ca-cert-file", b"tls-dh-params-file"):
            words += [b"--" + name, b"tls.pem"]
        return words

    return prepare


CASES: dict[str, Prepare] = {
    **{f"dump.rdb: {what}": file_of("dump.rdb", data) for what, data in BYTES.items()},
    **{f"base: {what}": log_of(base=data) for what, data in BYTES.items()},
    **{f"increment: {what}": log_of(increment=data) for what, data in BYTES.items()},
    **{f"manifest: {what}": log_of(manifest=data) for what, data in MANIFESTS.items()},
    **{f"record: {line}": log_of(increment=encode(split(line)) + encode(["SET", "k", "v"])) for line in RECORDS},
    "unit: a script": log_of(
        increment=b"".join(encode(split(each)) for each in ("MULTI", 'EVAL "return 1" 0', "EXEC"))
    ),
    **{f"aclfile: {what}": file_of("acl", data, b"--aclfile", b"acl") for what, data in ACL_FILES.items()},
    **{f"certificates: {what}": certificates_of(data) for what, data in BYTES.items()},
    **{f"configuration: {what}": file_of("c", data, b"--include", b"c") for what, data in BYTES.items()},
    "dump.rdb: a folder": file_of("dump.rdb", None),
    "aclfile: a folder": file_of("acl", None, b"--aclfile", b"acl"),
    "configuration: a folder": file_of("c", None, b"--include", b"c"),
    "pid file: a folder": file_of("pid", None, b"--pidfile", b"pid"),
    "socket: a folder": file_of("socket", None, b"--unixsocket", b"socket"),
    "log folder: a file": file_of("appendonlydir", b"", b"--appendonly", b"yes"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_start_with_a_broken_file_ends_clearly(case: str, tmp_path: Path) -> None:
    words = CASES[case](tmp_path)
    if words[:1] == [b"--include"]:
        words[1] = os.fsencode(tmp_path / "c")
    attempt(words, tmp_path).require_clear_end()


def fifo(path: Path) -> str:
    os.mkfifo(path)
    return "a FIFO"


def unix_socket(path: Path) -> str:
    with socket.socket(socket.AF_UNIX) as each:
        each.bind(os.path.relpath(path))
    return "a socket"


def device(path: Path) -> str:
    path.symlink_to("/dev/zero")
    return "a device"


FILES_READ: dict[str, tuple[str, Prepare]] = {
    "the snapshot": ("dump.rdb", file_of("dump.rdb", b"")),
    "the manifest": ("appendonlydir/appendonly.aof.manifest", log_of()),
    "the base": ("appendonlydir/appendonly.aof.1.base.aof", log_of()),
    "the increment": ("appendonlydir/appendonly.aof.1.incr.aof", log_of()),
    "the old log": ("appendonly.aof", file_of("appendonly.aof", b"", b"--appendonly", b"yes")),
    "the ACL file": ("acl", file_of("acl", b"", b"--aclfile", b"acl")),
    "the configuration": ("c", file_of("c", b"", b"--include", b"c")),
    "the certificate": ("tls.pem", certificates_of(b"")),
}


@pytest.mark.parametrize("what", FILES_READ)
@pytest.mark.parametrize("put", [fifo, unix_socket, device])
def test_a_start_reads_regular_files_only(
    what: str, put: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    name, prepare = FILES_READ[what]
    words = prepare(tmp_path)
    if words[:1] == [b"--include"]:
        words[1] = os.fsencode(tmp_path / "c")
    path = tmp_path / name
    path.unlink()
    kind = put(path)
    made = attempt(words, tmp_path)
    assert made.code == 1, made.output
    if put is not device or what != "the increment":
        assert f"it is {kind}, not a regular file" in made.output
    assert name in made.output
    assert os.path.lexists(path)


def test_a_configuration_may_come_from_a_pipe_that_is_open() -> None:
    for form in ("/dev/fd/%d", "/proc/self/fd/%d"):
        reading, writing = os.pipe()
        os.write(writing, b"hz 20\n")
        os.close(writing)
        assert read_file(os.fsencode(form % reading)) == b"hz 20\n"
        os.close(reading)
    assert read_file(b"/dev/null") == b""


def test_the_checking_tool_refuses_a_fifo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "a.aof")
    assert check_aof.main([str(tmp_path / "a.aof")]) == 1
    assert "it is a FIFO, not a regular file" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["CONFIG REWRITE", "ACL LOAD"])
def test_a_fifo_is_not_waited_for_by(command: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    rig = Rig(aclfile=os.fsencode(path))
    rig.config.file_path = os.fsencode(path)
    path.unlink()
    os.mkfifo(path)
    assert rig.connect().call(command).startswith(b"-ERR ")


def test_a_script_in_the_log_runs(tmp_path: Path) -> None:
    pytest.importorskip("lupa")
    words = CASES["record: EVAL \"redis.call('SET','k','v')\" 0"](tmp_path)
    made = attempt(words, tmp_path)
    assert made.code is None
    assert "CRITICAL" not in made.output


# -- the same files, read later ----------------------------------------------------------------------


@pytest.mark.parametrize("what", ACL_FILES)
def test_a_broken_acl_file_is_an_error_of_acl_load(what: str, tmp_path: Path) -> None:
    (tmp_path / "acl").write_bytes(b"user default on nopass ~* &* +@all\n")
    rig = Rig(aclfile=os.fsencode(tmp_path / "acl"))
    (tmp_path / "acl").write_bytes(ACL_FILES[what])
    reply = rig.connect().call("ACL LOAD")
    assert reply.startswith((b"-ERR ", b"+OK"))
    assert not reply.startswith(b"-ERR internal error")


@pytest.mark.parametrize("what", BYTES)
def test_a_configuration_file_of_any_bytes_is_rewritten(what: str, tmp_path: Path) -> None:
    rig = Rig()
    rig.config.file_path = os.fsencode(tmp_path / "c")
    (tmp_path / "c").write_bytes(BYTES[what])
    assert rig.connect().call("CONFIG SET hz 20", "CONFIG REWRITE") == b"+OK\r\n" * 2
    assert b"\nhz 20\n" in b"\n" + (tmp_path / "c").read_bytes()


@pytest.mark.parametrize("options", [(), ("--fix",), ("--truncate-to-timestamp", "9" * 5000)], ids=str)
def test_the_checking_tool_judges_any_bytes(options: tuple[str, ...], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 100))
    for number, prepare in enumerate(CASES.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        prepare(folder)
        for path in [*folder.rglob("*.manifest"), *folder.rglob("*.aof"), *folder.rglob("dump.rdb")]:
            assert check_aof.main([*options, str(path)]) in (0, 1)
