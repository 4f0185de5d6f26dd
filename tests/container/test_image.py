"""The container image: built step by step in a scratch root, then run read-only, as its user, as process 1."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import headrace_build
import pytest
import yaml

from support.image import Container, Image
from support.packaging import ROOT
from support.ports import free_port
from support.wire import Wire

USER_ID = 6379
START_TIMEOUT_S = 60

StartContainer = Callable[..., Container]


def wait_until_healthy(container: Container) -> None:
    """Ask the health check until it says so."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while not container.is_healthy():
        assert container.process.poll() is None, container.log.read_text()
        assert time.monotonic() < deadline_s, container.log.read_text()


@pytest.fixture
def port() -> int:
    """Containers share this machine's network."""
    return free_port()


@pytest.fixture
def start(image: Image, port: int, data: Path) -> Iterator[StartContainer]:
    """Starts a container on `port` and waits until it is healthy."""
    started: list[Container] = []

    def run(*words: str, **variables: str) -> Container:
        container = image.start(data, *words, **{"HEADRACE_PORT": str(port), **variables})
        started.append(container)
        wait_until_healthy(container)
        return container

    yield run
    for container in started:
        container.kill()


def test_the_server_is_process_1_of_a_user_without_rights(start: StartContainer) -> None:
    container = start()
    status = Path(f"/proc/{container.entry_pid}/status").read_text()
    assert re.search(r"^NSpid:\s+\d+\s+1$", status, re.MULTILINE)
    assert re.search(rf"^Uid:\s+{USER_ID}\s+{USER_ID}\s", status, re.MULTILINE)
    assert re.search(r"^CapEff:\s+0+$", status, re.MULTILINE)


def test_nothing_but_the_volume_is_written_to(start: StartContainer, port: int, data: Path) -> None:
    container = start()
    assert "Read-only file system" in container.execute("touch", "/opt/headrace/x").stdout
    with Wire(port) as wire:
        assert wire.ask("XADD", "s", "1-1", "f", "v") == b"1-1"
        assert wire.ask("SAVE") == b"OK"
    assert {"appendonlydir", "dump.rdb"} <= {path.name for path in data.iterdir()}
    assert {path.stat().st_uid for path in data.rglob("*")} == {USER_ID}


def test_scripts_are_off_unless_the_image_is_built_with_them(start: StartContainer, port: int) -> None:
    start()
    with Wire(port) as wire:
        assert wire.call("EVAL", "return 1", "0").startswith(b"-ERR scripts need the Python package lupa")


def test_what_was_written_is_there_in_the_next_container(start: StartContainer, port: int) -> None:
    first = start()
    with Wire(port) as wire:
        assert wire.ask("XADD", "s", "1-1", "f", "v") == b"1-1"
    assert first.stop() == 0
    start()
    with Wire(port) as wire:
        assert wire.ask("XLEN", "s") == 1


def test_a_container_that_is_killed_leaves_no_process(start: StartContainer) -> None:
    container = start()
    entry = Path(f"/proc/{container.entry_pid}")
    container.kill()
    assert not entry.exists() or "Z (zombie)" in (entry / "status").read_text()


def test_a_stop_is_in_time_while_clients_are_blocked(start: StartContainer, port: int) -> None:
    container = start()
    with Wire(port) as waiting:
        waiting.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        assert container.stop() == 0
    assert "bye bye" in container.log.read_text()


def test_words_after_the_image_name_are_options(start: StartContainer, port: int) -> None:
    start("--appendonly", "no", "--maxclients", "50")
    with Wire(port) as wire:
        assert wire.ask("CONFIG", "GET", "appendonly") == [b"appendonly", b"no"]
        assert wire.ask("CONFIG", "GET", "maxclients") == [b"maxclients", b"50"]


def test_variables_alone_configure_it(start: StartContainer, port: int) -> None:
    start(HEADRACE_REQUIREPASS="secret", HEADRACE_APPENDFSYNC="always")
    with Wire(port) as wire:
        assert wire.call("PING") == b"-NOAUTH Authentication required.\r\n"
        assert wire.ask("AUTH", "secret") == b"OK"
        assert wire.ask("CONFIG", "GET", "appendfsync") == [b"appendfsync", b"always"]
        assert wire.ask("CONFIG", "GET", "appendonly") == [b"appendonly", b"yes"]


def test_a_wrong_option_ends_the_container_with_one_line(image: Image, data: Path) -> None:
    container = image.start(data, "--nonsense", "1")
    assert container.process.wait(30) == 1
    assert "Traceback" not in container.log.read_text()
    assert "nonsense" in container.log.read_text()


def test_another_user_with_a_volume_of_its_own_can_run_it(image: Image, port: int, data: Path) -> None:
    os.chown(data, 4711, 4711)
    container = image.start(data, user="4711:4711", HEADRACE_PORT=str(port))
    try:
        wait_until_healthy(container)
        assert {path.stat().st_uid for path in data.rglob("*")} == {4711}
        assert container.stop() == 0
    finally:
        container.kill()


def test_a_volume_of_root_is_given_to_the_user(start: StartContainer, port: int, data: Path) -> None:
    os.chown(data, 0, 0)
    (data / "left.txt").touch(0o600)
    start()
    with Wire(port) as wire:
        assert wire.ask("SAVE") == b"OK"
    assert {path.stat().st_uid for path in (data, *data.rglob("*"))} == {USER_ID}


def test_a_volume_that_is_not_the_users_is_refused_in_one_line(image: Image, port: int, data: Path) -> None:
    os.chown(data, 0, 0)
    container = image.start(data, user=f"{USER_ID}:{USER_ID}", HEADRACE_PORT=str(port))
    assert container.process.wait(30) == 1
    last = container.log.read_text().splitlines()[-1]
    assert "Can't write to the data directory '/data': Permission denied; give the user" in last


@pytest.mark.parametrize(
    "words",
    [
        ["redis-server", "--appendonly", "no"],
        ["headrace", "--appendonly", "no"],
        ["--appendonly", "no"],
        ["/data/redis.conf", "--appendonly", "no"],
        ["sh", "-c", "exec headrace --appendonly no"],
    ],
    ids=" ".join,
)
def test_words_after_the_image_name_may_be_the_command_of_redis(
    start: StartContainer, port: int, data: Path, words: list[str]
) -> None:
    (data / "redis.conf").write_text("maxclients 50\n")
    container = start(*words)
    with Wire(port) as wire:
        assert wire.ask("CONFIG", "GET", "appendonly") == [b"appendonly", b"no"]
        assert wire.ask("CONFIG", "GET", "maxclients") == [b"maxclients", b"50" if ".conf" in words[0] else b"10000"]
    owner = Path(f"/proc/{container.entry_pid}").stat().st_uid
    assert owner == (0 if words[0] == "sh" else USER_ID), "a shell keeps the rights that it was given"


@pytest.mark.parametrize("words", [["redis-cli", "--version"], ["sh", "-c", "echo redis-cli from sh"]], ids=" ".join)
def test_any_other_command_runs_instead_of_the_server(image: Image, data: Path, words: list[str]) -> None:
    container = image.start(data, *words)
    assert container.process.wait(30) == 0
    assert container.log.read_text().splitlines()[-1].startswith("redis-cli ")


def test_redis_cli_in_the_container_reaches_the_server(start: StartContainer, port: int) -> None:
    assert start().execute("redis-cli", "-p", str(port), "XADD", "s", "1-1", "f", "v").stdout == "1-1\n"


def test_a_dump_in_a_fresh_volume_is_loaded_and_then_logged(start: StartContainer, port: int, data: Path) -> None:
    first = start(HEADRACE_APPENDONLY="no")
    with Wire(port) as wire:
        assert wire.ask("SET", "k", "v") == b"OK"
        assert wire.ask("SAVE") == b"OK"
    assert first.stop() == 0
    second = start()
    with Wire(port) as wire:
        assert wire.ask("GET", "k") == b"v"
        assert wire.ask("SET", "k", "w") == b"OK"
    second.kill()
    start()
    with Wire(port) as wire:
        assert wire.ask("GET", "k") == b"w"


def test_root_without_the_right_to_change_its_user_is_refused_in_one_line(image: Image, data: Path) -> None:
    container = image.start(data, capabilities="-setuid,-setgid")
    assert container.process.wait(30) == 1
    line = container.log.read_text().splitlines()[-1]
    assert "start it as that user (--user 6379:6379)" in line


def test_the_image_holds_the_program_and_neither_tools_nor_tests(image: Image) -> None:
    packages = image.final.root / "opt/headrace/lib"
    names = image.shell(f"ls {packages}/*/site-packages").split()
    assert {"headrace", "hiredis", "prometheus_client"} <= set(names)
    assert not {"pip", "setuptools", "pytest", "tests"} & set(names)


@pytest.mark.skipif(headrace_build.why_pure() is not None, reason="nothing to compile with")
def test_the_image_is_compiled(start: StartContainer) -> None:
    assert start().execute("headrace", "--version").stdout.endswith(" form=compiled\n")


def test_the_variables_of_the_documentation_are_understood(start: StartContainer, port: int) -> None:
    """docs/ci.md, the service of GitHub Actions."""
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    (snippet,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    service = yaml.safe_load(snippet)["jobs"]["test"]["services"]["headrace"]
    start(**service["env"])
    with Wire(port) as wire:
        assert wire.ask("CONFIG", "GET", "appendonly") == [b"appendonly", b"no"]
        assert wire.ask("CONFIG", "GET", "maxmemory") == [b"maxmemory", b"%d" % (256 << 20)]
