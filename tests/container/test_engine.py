"""The image as a real engine builds and runs it. `make test-clients` runs this: it takes two minutes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clients import are_clients_required
from support.engine import Engine, missing_tools
from support.packaging import ROOT, copy_context
from support.ports import free_port

DEADLINE_S = 60
SERVER = "headrace-under-test"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with the image `headrace`."""
    if not are_clients_required() or os.geteuid() != 0:
        pytest.skip("`make test-clients` builds the image, as root")
    if missing := missing_tools():
        pytest.fail(f"no {', '.join(missing)} found: .ci/run installs them")
    folder = tmp_path_factory.mktemp("engine")
    engine = Engine(folder)
    try:
        engine.build_bases()
        # podman of Debian 12 does not know this option, which is for Docker 25 and newer.
        dockerfile = (ROOT / "Dockerfile").read_text("utf-8").replace(" --start-interval=1s", "")
        engine.build("headrace", dockerfile, copy_context(folder / "context"))
        yield engine
    finally:
        engine.close()


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume of root."""
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o711)
    folder = tmp_path / "volume"
    folder.mkdir()
    return folder


@pytest.fixture
def removed(engine: Engine) -> Iterator[None]:
    """Removes the server of the test."""
    yield
    engine.call("rm", "--force", "--time=0", SERVER)


def wait_until_healthy(engine: Engine) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while engine.call("healthcheck", "run", SERVER).returncode != 0:
        assert time.monotonic() < deadline_s, engine.call("logs", SERVER).stderr


@pytest.mark.parametrize(
    "words", [["redis-server", "--appendonly", "yes"], ["headrace"], [], ["sh", "-c", 'exec headrace "$@"', "sh"]]
)
@pytest.mark.usefixtures("removed")
def test_the_server_starts_from_every_form_of_words(engine: Engine, volume: Path, words: list[str]) -> None:
    port = str(free_port())
    options = ["--bind", "127.0.0.1", "--port", port]
    started = engine.run(
        "--detach", "--name", SERVER, "--read-only", f"--volume={volume}:/data", "headrace", *words, *options
    )
    assert started.returncode == 0, started.stderr
    wait_until_healthy(engine)
    assert engine.call("exec", SERVER, "redis-cli", "-p", port, "XADD", "s", "1-1", "f", "v").stdout == "1-1\n"
    assert engine.call("stop", SERVER).returncode == 0
    assert "bye bye" in "".join(engine.call("logs", SERVER).stdout + engine.call("logs", SERVER).stderr)
    owner = 0 if words[:1] == ["sh"] else 6379
    assert {path.stat().st_uid for path in (volume / "appendonlydir", *volume.rglob("*.aof"))} == {owner}


@pytest.mark.usefixtures("removed")
def test_the_user_of_the_image_needs_no_capability(engine: Engine, volume: Path) -> None:
    os.chown(volume, 6379, 6379)
    options = ["--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=6379:6379", "--read-only"]
    words = ["--bind", "127.0.0.1", "--port", str(free_port())]
    started = engine.run("--detach", "--name", SERVER, *options, f"--volume={volume}:/data", "headrace", *words)
    assert started.returncode == 0, started.stderr
    wait_until_healthy(engine)


def test_another_command_runs_instead_of_the_server(engine: Engine) -> None:
    assert engine.run("--rm", "headrace", "redis-cli", "--version").stdout.startswith("redis-cli ")
    assert engine.run("--rm", "headrace", "sh", "-c", "id -un").stdout == "root\n"


def test_root_without_capabilities_gets_one_line(engine: Engine) -> None:
    refused = engine.run("--rm", "--cap-drop=ALL", "headrace")
    assert refused.returncode == 1
    assert "start it as that user (--user 6379:6379)" in refused.stderr
