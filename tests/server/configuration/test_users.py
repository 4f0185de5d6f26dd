"""Users from configuration lines and from the ACL file: what is loaded, what is written, and every refusal."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import StartServer
from headrace.server.configuration.config import Config
from headrace.server.configuration.config_lines import ConfigError
from headrace.server.configuration.configfile import load_text
from headrace.server.configuration.directives import BY_NAME
from headrace.server.configuration.users import load_users
from support.inprocess import Rig

PW_HASH = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4"
BOB = f"user bob on sanitize-payload #{PW_HASH} ~x resetchannels -@all +get"
OPEN_DEFAULT = "user default on nopass sanitize-payload ~* &* +@all"
NO_CHANGE = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"

# Lines of an ACL file: words are separated by single spaces, and blanks around the line do not count.
SEPARATED = [
    "user a  on  ~k",
    "user  on ~k",
    "user   on",
    "user  off\nuser  on",
    "  user a on",
    "\tuser a on\t\r\n",
    "user",
    "user  ",
    "user\ta on",
    "user a\ton",
    "user a\vb on",
    "user a on\t~k",
    "user a on\v",
    "\vuser a on",
    "\t",
    "\f",
    "   # comment",
    "User a on",
    '"user" a on',
    "user a (~k   +get) on",
    "user a ( ~k\t+get ) on",
    "user a on (~k +get) ( ~j +set )",
    "user a on (~k) +get)",
    "user a (~k +get)\ton",
    "user a (  ) on",
]


def described(text: str) -> list[str]:
    """The users of a configuration, as ACL LIST shows them. Raises ConfigError."""
    config = Config()
    load_text(config, text.encode())
    return [user.describe().decode() for user in load_users(config).in_order()]


def test_user_lines_make_users(tmp_path: Path) -> None:
    assert described("user bob on >pw +get ~x") == [BOB, OPEN_DEFAULT]
    assert described("user bob on >pw (+get ~x)")[0].endswith(" resetchannels -@all (~x resetchannels -@all +get)")
    assert described("acl-pubsub-default allchannels\nuser al")[0] == "user al off sanitize-payload &* -@all"


def test_a_line_for_the_default_user_replaces_requirepass() -> None:
    assert described("requirepass abc\nuser default on >pw +get ~x") == [BOB.replace("bob", "default")]
    assert described("user default on >pw +get ~x\nrequirepass abc") == [BOB.replace("bob", "default")]
    assert "nopass" not in described("requirepass abc")[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("user bob on +nosuch", "'+nosuch': Unknown command or category name in ACL"),
        ("user bob on ~* ~x", "'~x': Adding a pattern after the * pattern"),
        ("user bob on (+get", "'(+get': Unmatched parenthesis in selector definition"),
        ("user bob on (+get ~x) (+nosuch)", "'(+nosuch)': Unknown command or category name in ACL"),
        ("user bob on <sesame", "'<...': The password you are trying to remove from the user does not exist"),
        ("user bob on (+nosuch >sesame)", "'(+nosuch >...': Unknown command or category name in ACL"),
        ("user bob on #abc", "'#abc': The password hash must be exactly 64 characters"),
        ('user "a b" on', "'a b': Spaces not allowed in ACL usernames"),
        ("user bob on\nuser bob off", "at line 2\n>>> 'user bob off'\nError in user declaration 'bob': Duplicate user"),
        ("user", "Bad directive or wrong number of arguments"),
        (
            "aclfile /nosuch/users.acl",
            "opening file '/nosuch/users.acl': No such file or directory; create it, an empty file will do, or choose "
            "another (aclfile)",
        ),
        ("aclfile /nosuch/users.acl\nuser bob on", "but not both"),
    ],
)
def test_wrong_users_stop_the_start(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        described(text)
    assert why in str(caught.value)


@pytest.mark.parametrize("rest", ["on # new", "on >pw ~* #new", "# new", "on (~x # new)", "on # (new"])
def test_comment_after_a_user_gets_a_hint(rest: str) -> None:
    with pytest.raises(ConfigError) as caught:
        described(f"user ann {rest}")
    assert str(caught.value).endswith(": a comment needs a line of its own")


@pytest.mark.parametrize("rest", ["on #c0ffee", f"#{PW_HASH.upper()}", f"#{PW_HASH} nonsense", "on >#pw nonsense"])
def test_wrong_hash_or_rule_of_a_user_gets_no_hint_about_comments(rest: str) -> None:
    with pytest.raises(ConfigError) as caught:
        described(f"user ann {rest}")
    assert "comment" not in str(caught.value)


def test_acl_load_of_a_missing_file_says_what_redis_says(tmp_path: Path) -> None:
    path = tmp_path / "users.acl"
    path.touch()
    admin = Rig(aclfile=bytes(path)).connect()
    path.unlink()
    text = b"Error loading ACLs, opening file '%b': No such file or directory" % bytes(path)
    assert admin.call("ACL LOAD") == b"-ERR " + text + b"\r\n"


def test_a_refused_start_is_a_few_lines_and_exit_code_one(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "headrace", "--port", "0", "--unixsocket", "s", "--user", "bob", "+nosuch"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert "Error in user declaration '+nosuch': Unknown command or category name in ACL" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr
    assert not (tmp_path / "s").exists()


def test_the_examples_of_the_documentation_are_right() -> None:
    text = (Path(__file__).parents[3] / "docs" / "security.md").read_text("utf-8")
    users, secured = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert [line.split()[1] for line in described(users)] == ["default", "ops", "producer", "watcher", "worker"]
    config = Config()
    load_text(config, secured.encode())
    assert (config.port, config.tls_port) == (0, 6380)
    directives = {name.decode() for name in BY_NAME} | {"aclfile", "rename-command", "user"}
    named = re.findall(r"`((?:tls|acl|unix)[a-z-]+)", text)
    assert set(named) - {"tls-cert", "acl_access_denied_"} <= directives


# -- the file ------------------------------------------------------------------------------------


def test_acl_file_is_loaded_without_blank_lines_and_comments(tmp_path: Path) -> None:
    path = tmp_path / "users.acl"
    path.write_text("user bob on >pw +get ~x\n\n# operators\n  user al   on  \r\n")
    assert described(f"aclfile {path}") == ["user al on sanitize-payload resetchannels -@all", BOB, OPEN_DEFAULT]


def test_all_errors_of_the_file_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "users.acl"
    path.write_text("usr bob on\nuser al on +nosuch\nuser x (+get\nuser al on\nuser\nuser q ~* ~x\n")
    with pytest.raises(ConfigError) as caught:
        described(f"aclfile {path}")
    assert str(caught.value) == (
        f"Aborting startup because of ACL errors: {path}:1 should start with user keyword followed by the username. "
        f"{path}:2: Error in applying operation '+nosuch': Unknown command or category name in ACL. "
        f"{path}:3: Unmatched parenthesis in selector definition."
        f"WARNING: Duplicate user 'al' found on line 4. "
        f"{path}:5 should start with user keyword followed by the username. "
        f"{path}:6: Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any "
        f"effect. Try 'resetkeys' to start with an empty list of patterns. {NO_CHANGE}"
    )


@pytest.mark.oracle
def test_acl_load_separates_the_words_of_a_line_as_redis_does(start_server: StartServer, tmp_path: Path) -> None:
    path = tmp_path / "users.acl"
    path.write_text("")
    answers = []
    for subject in ("oracle", "headrace"):
        with start_server(subject, "--aclfile", str(path)).connect() as wire:
            answers.append([])
            for text in SEPARATED:
                path.write_text(text)
                answers[-1].append((text, wire.call("ACL", "LOAD"), wire.call("ACL", "LIST")))
    assert answers[1] == answers[0]


def test_without_a_default_user_in_the_file_requirepass_is_lost_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "users.acl").write_text("user bob on >pw +get ~x\n")
    assert described(f"requirepass abc\naclfile {tmp_path}/users.acl") == [BOB, OPEN_DEFAULT]
    assert "requirepass is without effect" in caplog.text


def test_save_and_load_go_round(tmp_path: Path) -> None:
    path = tmp_path / "users.acl"
    path.write_text("")
    admin = (rig := Rig(aclfile=bytes(path))).connect()
    admin.call("ACL SETUSER bob on >pw +get ~x", "ACL SETUSER al (+set %W~y &z) on")
    before = admin.call("ACL LIST")
    assert admin.call("ACL SAVE", "ACL SETUSER bob reset", "ACL DELUSER al", "ACL SETUSER new") == (
        b"+OK\r\n+OK\r\n:1\r\n+OK\r\n"
    )
    bob = rig.server.accounts.users.by_name[b"bob"]
    assert admin.call("ACL LOAD") == b"+OK\r\n"
    assert admin.call("ACL LIST") == before
    assert rig.server.accounts.users.by_name[b"bob"] is bob, "clients that are logged in go on"
    assert path.read_text().splitlines()[1] == BOB


def test_a_load_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "users.acl"
    path.write_text(BOB + "\n")
    admin = Rig(aclfile=bytes(path)).connect()
    before = admin.call("ACL LIST")
    path.write_text("user al on\nuser bob on +nosuch\n")
    assert (
        admin.call("ACL LOAD")
        == (
            f"-ERR {path}:2: Error in applying operation '+nosuch': Unknown command or category name in ACL. "
            f"{NO_CHANGE}\r\n"
        ).encode()
    )
    path.unlink()
    assert (
        admin.call("ACL LOAD")
        == (f"-ERR Error loading ACLs, opening file '{path}': No such file or directory\r\n").encode()
    )
    assert admin.call("ACL LIST") == before


def test_a_save_that_fails_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "folder" / "users.acl"
    path.parent.mkdir()
    path.write_text("")
    admin = Rig(aclfile=bytes(path)).connect()
    path.unlink()
    path.parent.rmdir()
    assert admin.call("ACL SAVE").startswith(b"-ERR There was an error trying to save the ACLs. ")
    assert str(path) in caplog.text


def test_config_rewrite_writes_the_users_where_there_is_no_acl_file(tmp_path: Path) -> None:
    path = tmp_path / "h.conf"
    path.write_text("# ours\nuser bob on >pw +get ~x\nuser old on\n")
    rig = Rig(file_path=bytes(path))
    load_text(rig.config, path.read_bytes())
    load_users(rig.config)
    rig.config.rewrite()
    assert path.read_text().splitlines()[:3] == ["# ours", BOB, OPEN_DEFAULT]
    assert "user old on sanitize-payload resetchannels -@all" in path.read_text()


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        (b"al", [rb'~"\x2a"', b"+get"]),
        (b"al", [b'~"q', b"~'q", b"~it's", b'~a"', b'~""', b"~a\\", b"~\\n"]),
        (b"al", [b"~caf\xc3\xa9", b"~\x01\x7f\xff"]),
        (b"al", [b'&"chan"', b"&'", rb'%R~"\x2a"', b"~", b"&"]),
        (b"al", [b"+select|'0'", b'+get|"x"', b"-@dangerous"]),
        (b"al", [rb'(~"\x2a" +get)', b"(~'q' &\" +set)", b"(~a(b) ~c +get)", b"(~a)", b"()"]),
        (b"'al\"", [b"on", b">it's \" one", b"~x"]),
        (b"(al", [b"on", b"~x"]),
        (b"", [b"on", b"~x"]),
    ],
)
def test_a_rewritten_configuration_makes_the_same_users(name: bytes, rules: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "h.conf"
    path.write_bytes(b"port 0\n")
    config = Config()
    config.file_path = bytes(path)
    users = load_users(config)
    users.set(name, rules)
    config.rewrite()
    again = Config()
    load_text(again, path.read_bytes())
    assert [each.describe() for each in load_users(again).in_order()] == [each.describe() for each in users.in_order()]
    selectors = [list(each.keys) for each in load_users(again).by_name[name].selectors]
    assert selectors == [list(each.keys) for each in users.by_name[name].selectors]


def test_config_rewrite_leaves_the_users_to_the_acl_file(tmp_path: Path) -> None:
    (tmp_path / "users.acl").write_text(BOB + "\n")
    path = tmp_path / "h.conf"
    path.write_text(f"aclfile {tmp_path}/users.acl\n")
    rig = Rig(file_path=bytes(path), aclfile=bytes(tmp_path / "users.acl"))
    assert rig.connect().call("CONFIG REWRITE") == b"+OK\r\n"
    assert "user bob" not in path.read_text()


@pytest.mark.oracle
def test_each_server_reads_the_file_that_the_other_wrote(start_server: StartServer, tmp_path: Path) -> None:
    path = tmp_path / "users.acl"
    path.write_text(
        "user default on nopass ~* &* +@all\n"
        "user worker on >one >two ~orders:* %R~config:* &news:* +@stream +@read -@dangerous +client|id +select|0\n"
        "user ops on nopass allkeys allchannels allcommands -debug -@scripting (+eval ~lua:*) (+hget %W~h)\n"
    )
    files = []
    for first, second in (("headrace", "oracle"), ("oracle", "headrace")):
        writer = start_server(first, "--aclfile", str(path))
        with writer.connect() as wire:
            assert wire.call("ACL", "SAVE") == b"+OK\r\n"
            listed = wire.call("ACL", "LIST")
        files.append(path.read_text())
        with start_server(second, "--aclfile", str(path)).connect() as wire:
            assert wire.call("ACL", "LIST") == listed
    assert files[0] == files[1]


# -- other names for commands --------------------------------------------------------------------


def test_renamed_commands_answer_to_their_new_names_only(start_server: StartServer) -> None:
    options = [
        "--rename-command",
        "xread",
        "wait-for",
        "--rename-command",
        "xadd",
        "add",
        "--rename-command",
        "CONFIG",
        "",
        "--rename-command",
        "XGROUP",
        "grp",
        "--appendonly",
        "yes",
    ]
    server = start_server("headrace", *options, "--rename-command", "VADD", "run")
    with server.connect() as wire:
        for entry_id in ("1-0", "*"):
            assert wire.call("XADD", "s", entry_id, "f", "v").startswith(b"-ERR unknown command 'XADD'")
        assert wire.call("add", "s", "1-0", "f", "v") == b"$3\r\n1-0\r\n"
        last_id = wire.ask("add", "s", "*", "f", "v")
        assert wire.ask("XRANGE", "s", "-", "+") == [[b"1-0", [b"f", b"v"]], [last_id, [b"f", b"v"]]]
        with server.connect() as reader:
            reader.send("wait-for", "BLOCK", "0", "STREAMS", "s", "$")
            while b"blocked_clients:1\r\n" not in wire.ask("INFO", "clients"):
                continue
            wire.call("add", "s", "9999999999999-1", "f", "v")
            assert b"9999999999999-1" in reader.receive()
        assert wire.call("CONFIG", "GET", "port").startswith(b"-ERR unknown command 'CONFIG'")
        assert wire.call("run", "x").startswith(b"-ERR unknown command 'run'")
        assert wire.call("ADD").startswith(b"-ERR wrong number of arguments for 'xadd'")
        streams = wire.ask("COMMAND", "LIST", "FILTERBY", "ACLCAT", "stream")
        assert {b"xadd", b"xread", b"xgroup|create"} <= set(streams)
        assert b"config|set" not in wire.ask("COMMAND", "LIST", "FILTERBY", "ACLCAT", "admin")
        assert b"config|set" not in wire.ask("ACL", "CAT", "admin")
        assert wire.call("ACL", "SETUSER", "al", "on", "nopass", "-xadd", "+config") == b"+OK\r\n"
        assert b"NULL" not in wire.call("CLIENT", "INFO")
        assert wire.call("grp", "CREATE", "s", "g", "$") == b"+OK\r\n"
        assert wire.call("grp", "nosuch") == b"-ERR unknown subcommand 'nosuch'. Try GRP HELP.\r\n"
    server.restart()
    with server.connect() as wire:
        assert wire.call("XLEN", "s") == b":3\r\n", "the log knows commands by their own names"
        assert wire.call("grp", "DESTROY", "s", "g") == b":1\r\n", "and containers by theirs"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["nosuch", "x"], "No such command in rename-command"),
        (["get", "set"], "Target command name already exists"),
        (["get"], "Bad directive or wrong number of arguments"),
    ],
)
def test_wrong_renamings_stop_the_start(words: list[str], why: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headrace", "--port", "0", "--unixsocket", "s", "--rename-command", *words]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert why in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr
