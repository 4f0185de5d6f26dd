"""What the documents show works: each command line, configuration, list of users and reply, and each block of code.

Goal: no page shows something that fails. Method: each block of each page is run here, is run by the test that
`ELSEWHERE` names, or is in `NOT_RUN` with a reason. A block that is in none of them fails, and so does a name in these
lists that matches no block.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from headrace.commands.core.table import DECLARED
from headrace.server.configuration.config import Config
from headrace.server.configuration.configfile import load_text
from headrace.server.configuration.directives import BY_NAME
from headrace.server.main import read_configuration
from headrace.server.reports import series
from support.certificates import Authority
from support.documents import ROOT, Block, blocks, commands, instructions, name_of, spans
from support.ports import free_port
from support.servers import Server, redis_cli

PAGES = instructions()
BLOCKS = [block for page in PAGES for block in blocks(page)]
TIMEOUT_S = 60
# Requests that are repeated for so long until they print what is shown.
READS = (["redis-cli", "XLEN"], ["redis-cli", "XRANGE"])
OWN_WORK_S = 2
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

# Blocks that another test takes out of the page and runs: (page, language, start of the first line) -> test module.
ELSEWHERE = {
    ("docs/ci.md", "python", ""): "tests/testing/test_pytest_plugin.py",
    ("docs/ci.md", "ini", "[pytest]"): "tests/testing/test_pytest_plugin.py",
    ("docs/pipeline.md", "python", "import tempfile"): "tests/pipeline/test_documentation.py",
    ("docs/pipeline.md", "python", "entries = ("): "tests/pipeline/test_documentation.py",
    ("docs/pipeline.md", "python", "expensive = ("): "tests/pipeline/test_documentation.py",
    ("docs/pipeline.md", "python", "from headrace.pipeline.connection"): "tests/pipeline/test_documentation.py",
    ("docs/pipeline.md", "python", "outcomes.writeStream"): "tests/pipeline/test_documentation.py",
    ("docs/coming-from-redis.md", "sh", ""): "tests/documents/test_coming_from_redis.py",
    ("docs/migration.md", "sh", ""): "tests/documents/test_migration.py",
    ("docs/high-availability.md", "sh", ""): "tests/documents/test_high_availability.py",
    ("docs/high-availability.md", "ini", "port 26379"): "tests/documents/test_high_availability.py",
    ("docs/security.md", "sh", "openssl req"): "tests/documents/test_certificates.py",
    ("docs/workers.md", "python", ""): "tests/clients/test_howtos.py",
    ("docs/workers.md", "sh", "python worker.py"): "tests/clients/test_howtos.py",
    ("docs/workers.md", "sh", "faststream run"): "tests/clients/test_howtos.py",
    ("docs/workers.md", "sh", "taskiq worker"): "tests/clients/test_howtos.py",
    ("docs/policies.md", "python", "import redis"): "tests/documents/test_policies.py",
    ("docs/systemd.md", "ini", "[Unit]"): "tests/server/test_supervision.py",
}

# Blocks that no test can run: (page, language, start of the first line) -> why.
NOT_RUN: dict[tuple[str, str, str], str] = {}

# Programs that no test can run here, and what is tested in their place.
PROGRAMS_NOT_RUN = {
    "useradd": "changes the machine; tests/server/test_supervision.py compares its user with that of the unit",
    "systemctl": "needs systemd; tests/server/test_supervision.py starts the server as the unit says",
    "docker": "needs a container runtime; tests/container/test_engine.py runs every shown line with podman",
}
NOT_TESTED_BY_THIS_LANGUAGE = {"text": "a drawing, not something to type"}

# Directives with a value that a server of this machine refuses, or that stand for a value: span -> why.
VALUES_NOT_TRIED = {
    "client-output-buffer-limit normal": "names a class of the directive",
    "client-output-buffer-limit pubsub": "names a class of the directive",
    "client-output-buffer-limit replica": "names a class of the directive",
}


def key_of(block: Block, table: dict[tuple[str, str, str], str]) -> tuple[str, str, str] | None:
    """The key of a table that matches the block."""
    matching = (key for key in table if key[:2] == (block.page, block.language) and block.first.startswith(key[2]))
    return next(matching, None)


def shown(language: str) -> list[Block]:
    """The blocks in a language that are run here."""
    return [
        block
        for block in BLOCKS
        if block.language == language and not key_of(block, ELSEWHERE) and not key_of(block, NOT_RUN)
    ]


RUN_HERE = {"sh", "console", "conf", "yaml", "python"}


def test_every_block_is_run_or_has_a_reason() -> None:
    for block in BLOCKS:
        lists = [
            bool(key_of(block, ELSEWHERE)),
            bool(key_of(block, NOT_RUN)),
            block.language in NOT_TESTED_BY_THIS_LANGUAGE,
        ]
        assert sum(lists) <= 1, f"{block}: more than one list names it"
        assert any(lists) or block.language in RUN_HERE, f"{block}: no test runs it; add one, or a reason to NOT_RUN"


def test_lists_of_exceptions_are_not_stale() -> None:
    for table in (ELSEWHERE, NOT_RUN):
        matched = {key_of(block, table) for block in BLOCKS}
        assert set(table) <= matched, "names no block any more"
    for (page, _, _), module in ELSEWHERE.items():
        assert Path(page).name in (ROOT / module).read_text("utf-8"), f"{module} does not read {page}"
    programs = {shlex.split(line, comments=True)[0] for line in every_command_line()}
    assert set(PROGRAMS_NOT_RUN) <= programs
    assert set(VALUES_NOT_TRIED) <= {span for page in PAGES for span in spans(page)}


def every_command_line() -> Iterator[str]:
    for block in (*shown("sh"), *shown("console")):
        for line, _ in commands(block):
            yield line


# -- command lines -----------------------------------------------------------------------------------


class Terminal:
    """Runs command lines in a folder of its own. Ports and absolute paths are replaced by free ones."""

    def __init__(self, folder: Path, server: Server, stack: ExitStack) -> None:
        self.folder = folder
        self.server = server
        self.stack = stack
        # By the port that the page shows. The server on the usual port is running before the first line.
        self.ports: dict[str, int] = {"6379": server.port}

    def run(self, line: str, printed: str) -> None:
        """Run a line, and compare its output with the printed one."""
        words = shlex.split(line, comments=True)
        environment = dict(os.environ)
        while words and re.fullmatch(r"[A-Z_0-9]+=.*", words[0]):
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        if words[0] in PROGRAMS_NOT_RUN:
            return
        run = getattr(self, "run_" + re.sub(r"\W", "_", words[0]), None)
        assert run is not None, f"no test knows how to run {words[0]!r}: add it to Terminal, or to PROGRAMS_NOT_RUN"
        output = run(list(words), environment)
        # What the server removes by itself may be gone a moment later.
        deadline_s = time.monotonic() + OWN_WORK_S
        while (
            printed
            and words[:2] in READS
            and without_times(output) != without_times(printed)
            and time.monotonic() < deadline_s
        ):
            output = run(list(words), environment)
        if printed:
            assert without_times(output) == without_times(printed), line

    def run_redis_cli(self, words: list[str], environment: dict[str, str]) -> str:
        """A request to the server that is running."""
        program = redis_cli()
        if program is None:
            pytest.skip("no redis-cli found: `make oracle` installs it")
        port = []
        if "-p" in words:
            port = [str(self.ports[words[words.index("-p") + 1]])]
            del words[words.index("-p") : words.index("-p") + 2]
        return self._completed([str(program), "-p", *(port or [str(self.server.port)]), "--no-raw", *words[1:]])

    def run_headrace(self, words: list[str], environment: dict[str, str]) -> str:
        """A server, with its ports and folders replaced: it must serve."""
        words = [self._own(word) for word in words[1:]]
        if words in (["--version"], ["--help"]):
            return self._completed([sys.executable, "-m", "headrace", *words])
        usual = "7000" if "7000" in self.ports else "6379"
        for index, word in enumerate(words):
            if word == "--port":
                usual = words[index + 1]
            if re.fullmatch(r"\d{4,5}", word) and words[index - 1].endswith("port"):
                words[index] = str(self.ports.setdefault(word, free_port()))
        port = free_port()
        self.ports[usual] = port
        own = ["--port", str(port), "--bind", "127.0.0.1"]
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        own += [] if "--dir" in words else ["--dir", str(folder)]
        log = (folder / "log").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace", *words, *own],
            env=environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        self.stack.callback(log.close)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        wait_until_ready(process, folder / "log")
        return ""

    def run_curl(self, words: list[str], environment: dict[str, str]) -> str:
        """A page of the metrics port."""
        url = re.sub(r":(\d+)", lambda match: f":{self.ports[match[1]]}", words[-1])
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as reply:
            return str(reply.read().decode())

    def run_make(self, words: list[str], environment: dict[str, str]) -> str:
        """Only what it would do: the targets and variables exist."""
        clean = {name: value for name, value in environment.items() if not name.startswith(("MAKE", "MFLAGS"))}
        known = self._completed(["make", "--no-print-directory", "help"], cwd=ROOT, env=clean)
        for word in words[1:]:
            name = re.match(r"([A-Z]+)=", word)
            assert name is None or f"  {name[1]}=" in known, f"make help does not know {word}"
        words = [re.sub(r"<\w+>|\.\.\.$", "1", word) for word in words]
        self._completed([words[0], "--dry-run", *words[1:]], cwd=ROOT, env=clean)
        return ""

    def run_pip(self, words: list[str], environment: dict[str, str]) -> str:
        """Only its words: the extras of Headrace exist. Nothing is downloaded."""
        assert words[1] == "install", words
        for word in words[2:]:
            match = re.match(r"(?:headrace|\.)\[([\w,-]+)\]", word)
            for extra in match[1].split(",") if match else ():
                assert extra in PROJECT["optional-dependencies"], word
        return ""

    # The one of a virtual environment that a page has made.
    run__opt_headrace_bin_pip = run_pip

    def run_install(self, words: list[str], environment: dict[str, str]) -> str:
        """Only its words: a file that it copies is in the checkout."""
        assert "-d" in words or (ROOT / words[-2]).is_file(), words
        return ""

    def run_pytest(self, words: list[str], environment: dict[str, str]) -> str:
        """Only its options: the plugin has them. tests/testing/test_pytest_plugin.py runs the line."""
        options = [word.partition("=")[0] for word in words[1:] if word.startswith("--")]
        plugin = (ROOT / "testing" / "pytest_plugin.py").read_text("utf-8")
        assert all(f'"{option}"' in plugin for option in options), words
        return ""

    def run_python(self, words: list[str], environment: dict[str, str]) -> str:
        """A module is found and has the options shown; `headrace` is served, a script of examples/ is compiled."""
        if words[1:3] == ["-m", "headrace"]:
            return self.run_headrace(words[2:], environment)
        if words[1:3] == ["-m", "headrace.pipeline"]:
            return self._parse_job(words[3:])
        if words[1] == "-m":
            found = [ROOT / words[2].replace(".", "/"), ROOT / "tests" / words[2]]
            is_there = any((path / "__main__.py").exists() or path.with_suffix(".py").exists() for path in found)
            assert is_there or importlib.util.find_spec(words[2]), words
            return ""
        assert (ROOT / words[1]).exists(), words
        return ""

    run_python3 = run_python

    def run_headrace_check_aof(self, words: list[str], environment: dict[str, str]) -> str:
        """Only its options."""
        usage = self._completed([sys.executable, "-m", "headrace.persistence.check_aof"], code=1)
        assert all(word in usage for word in words[1:] if word.startswith("--")), usage
        return ""

    def run__ci_extra(self, words: list[str], environment: dict[str, str]) -> str:
        """The run exists."""
        usage = self._completed([str(ROOT / ".ci" / "extra"), "help"])
        assert f".ci/extra {words[1]}" in usage, words
        return ""

    def _parse_job(self, words: list[str]) -> str:
        """The arguments of a job are parsed; tests/pipeline runs the jobs."""
        pytest.importorskip("pyspark", reason="PySpark is not installed: `make test-pipeline` installs it")
        from headrace.pipeline.__main__ import command_line

        if "--help" not in words:
            command_line().parse_args(words)
        return ""

    def _own(self, word: str) -> str:
        """An absolute path as one in our folder, where a folder or a configuration file is there already."""
        if not word.startswith("/"):
            return word
        path = self.folder / word.strip("/").replace("/", "-")
        if path.suffix == ".conf":
            path.write_text("# a configuration\n")
        else:
            path.mkdir(exist_ok=True)
        return str(path)

    def _completed(self, words: list[str], code: int = 0, **how: object) -> str:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, **how)  # type: ignore[call-overload]
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return str(done.stdout)


def wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    """Until a server accepts connections. Fails with its output if it ends."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while b"Ready to accept" not in log.read_bytes():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline_s, log.read_text()


def without_times(reply: str) -> str:
    """Replaces idle times (the third element of an entry, in ms), Unix times in ms, and IDs that are made of them."""
    return re.sub(r"(3\) \(integer\)) \d+", r"\1 (a time)", re.sub(r"\b1\d{12}(-\d+)?\b", "(a time)", reply))


@pytest.mark.parametrize("page", sorted({block.page for block in (*shown("sh"), *shown("console"))}))
def test_command_lines_work_and_print_what_is_shown(page: str, headrace: Server, tmp_path: Path) -> None:
    """All lines of a page in order, against one server: later lines may use what earlier ones have made."""
    with ExitStack() as stack:
        terminal = Terminal(tmp_path, headrace, stack)
        run_here = {*shown("sh"), *shown("console")}
        for block in (block for block in BLOCKS if block.page == page and block in run_here):
            for line, printed in commands(block):
                terminal.run(line, printed)


def test_work_in_the_background_is_awaited() -> None:
    """After BGSAVE and BGREWRITEAOF, the next line waits for the end: a stop would abort them, a copy be an old one."""
    for block in BLOCKS:
        lines = [line for line, _ in commands(block)] if block.language in ("sh", "console") else []
        for number, line in enumerate(lines):
            if re.search(r"\bbg(save|rewriteaof)\b", line, re.IGNORECASE):
                asked = line.rpartition(" ")[0]
                waiting = lines[number + 1] if number + 1 < len(lines) else ""
                field = "rdb_bgsave_in_progress" if "save" in line.lower() else "aof_rewrite_(in_progress|scheduled)"
                assert waiting.startswith(f"while {asked} info persistence | grep "), f"{block}: {line}"
                assert f"{field}:1" in waiting, f"{block}: {waiting}"


def test_containers_are_published_on_this_machine_only() -> None:
    """The image has no password and protected mode is off, so no line publishes it to others."""
    texts = [*PAGES, ROOT / "Dockerfile", ROOT / "compose.yaml"]
    for path in texts:
        for published in re.findall(r"docker run .*? -p (\S+)", path.read_text("utf-8")):
            assert published.startswith("127.0.0.1:"), f"{path.name}: -p {published}"


def test_packages_have_names_that_pip_finds_before_there_is_a_release() -> None:
    """A checkout (`.`), or a repository: PyPI has no `headrace`."""
    for block in BLOCKS:
        for word in re.findall(r"pip install (.*)", block.text if block.language in ("sh", "console") else ""):
            for name in shlex.split(word, comments=True):
                assert not name.startswith("headrace") or "@ git+" in name, f"{block}: {name}"


def test_a_line_of_an_unknown_program_is_found(headrace: Server, tmp_path: Path) -> None:
    with ExitStack() as stack, pytest.raises(AssertionError, match="no test knows how to run 'nosuch'"):
        Terminal(tmp_path, headrace, stack).run("nosuch --option", "")


PROGRAMS = {name.removeprefix("run_") for name in vars(Terminal) if name.startswith("run_")}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_command_lines_within_a_sentence_work(page: Path, headrace: Server, tmp_path: Path) -> None:
    with ExitStack() as stack:
        terminal = Terminal(tmp_path, headrace, stack)
        for span in spans(page):
            program = span.split(" ")[0]
            if " " in span and re.sub(r"\W", "_", program) in PROGRAMS and not re.search(r"[<(]|\.\.\.|\bJOB\b", span):
                terminal.run(span, "")


# -- configurations ----------------------------------------------------------------------------------


@pytest.mark.parametrize("block", shown("conf"), ids=str)
def test_configurations_serve_and_their_users_can_log_in(block: Block, tmp_path: Path) -> None:
    """With the shown files of TLS replaced by new ones, and free ports for those that are shown."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    files = {".crt": certificate, ".key": key}
    text = re.sub(r"/etc/\S+/ca\.crt", str(authority.file), block.text)
    text = re.sub(r"/etc/\S+(\.crt|\.key)", lambda match: str(files[match[1]]), text)
    text = re.sub(r"^((?:tls-|metrics-)?port) [1-9]\d*", lambda match: f"{match[1]} {free_port()}", text, flags=re.M)
    text = re.sub(r"^dir \S+", f"dir {tmp_path}", text, flags=re.MULTILINE)
    (tmp_path / "shown.conf").write_text(text + f"\nunixsocket {tmp_path}/s\n")
    log = tmp_path / "log"
    with log.open("wb") as output:
        words = [sys.executable, "-m", "headrace", str(tmp_path / "shown.conf"), "--dir", str(tmp_path), "--save", ""]
        words += [] if re.search(r"^port", text, re.MULTILINE) else ["--port", "0"]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        wait_until_ready(process, log)
        for name, password in re.findall(r"^user (\w+) on .*?>(\S+)", text, re.MULTILINE):
            assert log_in(tmp_path / "s", name, password) == b"+OK\r\n", name
    finally:
        process.kill()
        process.wait()


def test_logins_that_are_shown_are_those_of_shown_users() -> None:
    text = (ROOT / "docs" / "security.md").read_text("utf-8")
    users = re.findall(r"^user (\w+) on .*?>(\S+)", text, re.MULTILINE)
    logins = re.findall(r"`redis-cli --user (\w+) --pass ([\w-]+)`|redis://(\w+):([\w-]+)@|`AUTH (\w+) ([\w-]+)`", text)
    assert len(logins) == 3
    for login in logins:
        assert tuple(filter(None, login)) in users


def log_in(path: Path, name: str, password: str) -> bytes:
    """The reply to AUTH."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(f"AUTH {name} {password}\r\n".encode())
        return client.recv(100)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_directives_within_a_sentence_have_a_possible_value(page: Path) -> None:
    """`appendfsync always`, and `CONFIG SET appendfsync always`."""
    for span in spans(page):
        line = span.removeprefix("CONFIG SET ").removeprefix("--")
        name, blank, value = line.partition(" ")
        if name.encode() not in BY_NAME or not blank or span in VALUES_NOT_TRIED or "<" in value:
            continue
        words = shlex.split(line)
        if span.startswith("CONFIG SET"):
            settings = [shlex.join(pair) for pair in zip(words[::2], words[1::2], strict=True)]
        else:
            settings = re.split(r" --", line)
        for setting in settings:
            load_text(Config(), setting.encode())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_requests_within_a_sentence_name_subcommands_that_exist(page: Path) -> None:
    """`CLIENT NO-EVICT ON`: the second word of a container is one of its subcommands."""
    for span in spans(page):
        words = span.encode().split()
        row = DECLARED.get(words[0]) if words and words[0].isupper() else None
        if row is not None and row.subcommands and len(words) > 1 and words[1].isupper():
            assert words[1] in row.subcommands, span


# -- YAML --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", shown("yaml"), ids=str)
def test_yaml_names_directives_and_series_that_exist(block: Block) -> None:
    loaded = yaml.safe_load(block.text)
    assert isinstance(loaded, dict)
    variables = {name.encode(): str(value).encode() for name, value in values(loaded) if name.startswith("HEADRACE_")}
    read_configuration([], variables)
    tables = (series.SERVER_SERIES, series.STREAM_SERIES, series.GROUP_SERIES, series.CAP_SERIES)
    suffixes = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
    names = {each.name + suffix for table in tables for each in table for suffix in suffixes[each.kind]}
    for name, expression in values(loaded):
        if name == "expr":
            assert set(re.findall(r"headrace_\w+", expression)) <= names, expression


def values(node: object) -> Iterator[tuple[str, str]]:
    """(name, text) of each value in a tree."""
    if isinstance(node, dict):
        for name, value in node.items():
            if isinstance(value, dict | list):
                yield from values(value)
            else:
                yield str(name), str(value)
    elif isinstance(node, list):
        for value in node:
            yield from values(value)


# -- Python ------------------------------------------------------------------------------------------

# How blocks of Python run, by page: with which text before and after.
SURROUNDINGS = {
    "docs/architecture.md": (
        "from headrace.commands.streams import entries\nglobals().update(vars(entries))\n"
        "from headrace.store.ids import format_id\n",
        'from support.inprocess import Rig\ncaller = Rig().connect()\ncaller.call("XADD s 7-1 f v")\n'
        'assert caller.call("XLAST s", "XLAST none") == b"$3\\r\\n7-1\\r\\n$-1\\r\\n", caller.call("XLAST s")\n',
    ),
    "docs/durability.md": ("from support.crash_checker import Findings, crash_everywhere\n", ""),
}


@pytest.mark.parametrize("block", shown("python"), ids=str)
def test_python_runs(block: Block, tmp_path: Path) -> None:
    before, after = SURROUNDINGS.get(block.page, ("", ""))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    program = before + block.text + "\n" + after
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
