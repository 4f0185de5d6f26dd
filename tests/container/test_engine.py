"""The image as a real engine builds and runs it. `make test-clients` runs this: it takes over a minute.

The command lines of Docker that the documents show are taken out of them and run with podman, so that a new line is
tested with no change here.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clients import are_clients_required
from support.documents import docker_lines
from support.engine import Engine, missing_tools
from support.packaging import ROOT, copy_context
from support.ports import free_port
from support.wire import Wire

DEADLINE_S = 60
SERVER = "headrace-under-test"
# podman of Debian 12 does not know this option, which is for Docker 25 and newer.
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8").replace(" --start-interval=1s", "")

COMPOSE_LINES = [line for line in docker_lines() if line.startswith("docker compose --file compose.sentinel.yaml")]

# Lines of the documents that are not run here -> why.
NOT_RUN = {
    "docker compose up --build": "needs Docker Compose; test_compose.py runs both services as the file says",
    **dict.fromkeys(COMPOSE_LINES, "needs Docker Compose; test_compose_sentinel.py runs all services as the file says"),
    "docker buildx build --platform linux/amd64,linux/arm64 -t headrace .": "needs base images of both processors",
    "docker run headrace /etc/redis.conf": "needs a file in the container; test_image.py starts from one",
    "docker run headrace redis-cli -h db PING": "needs a server on a host named db; a test below runs redis-cli",
}
SHOWN = sorted(docker_lines() - set(NOT_RUN))


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
        engine.build(["--tag=headrace"], DOCKERFILE, copy_context(folder / "context"))
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


def test_lines_that_are_not_run_are_shown() -> None:
    assert set(NOT_RUN) <= docker_lines(), "no document shows it any more"
    assert {line.split()[1] for line in SHOWN} <= {"build", "run", "exec", "inspect"}, "no test knows how to run it"


def start_as_shown(engine: Engine, words: list[str]) -> list[int]:
    """`docker run` with these words, in the background and on free ports of this machine, which it returns."""
    ports: list[int] = []
    for index, word in enumerate(words):
        if words[index - 1] == "-p":
            ports.append(free_port())
            words[index] = re.sub(r"^127\.0\.0\.1:\d+:", f"127.0.0.1:{ports[-1]}:", word)
            assert words[index] != word, f"{word} is published on every address"
    started = engine.run("--detach", "--name", SERVER, *words, network="bridge")
    assert started.returncode == 0, started.stderr
    wait_until_healthy(engine)
    return ports


@pytest.mark.usefixtures("removed")
@pytest.mark.parametrize("line", [line for line in SHOWN if line.startswith("docker run ")])
def test_a_shown_container_serves_on_the_ports_that_it_publishes(engine: Engine, line: str) -> None:
    """The image's name is the place of the dots, where a line ends in dots."""
    words = ["headrace" if word == "..." else word for word in shlex.split(line)[2:]]
    for port in start_as_shown(engine, words):
        with Wire(port) as wire:
            assert wire.call("PING") == b"+PONG\r\n"


@pytest.mark.usefixtures("removed")
@pytest.mark.parametrize("line", [line for line in SHOWN if line.startswith("docker build ")])
def test_a_shown_build_makes_an_image_that_serves(engine: Engine, line: str) -> None:
    """Scripts run in an image that was built with that extra, and in no other."""
    *options, context = shlex.split(line)[2:]
    assert context == "."
    name = "headrace-as-shown"
    engine.build([name if word == "headrace" else word for word in options], DOCKERFILE, engine.folder / "context")
    start_as_shown(engine, [name])
    reply = engine.call("exec", SERVER, "redis-cli", "EVAL", "return 'run'", "0").stdout
    assert reply.startswith("run" if "scripts" in line else "ERR scripts need")


@pytest.mark.usefixtures("removed")
@pytest.mark.parametrize("line", [line for line in SHOWN if line.split()[1] in ("exec", "inspect")])
def test_a_shown_line_about_a_container_works(engine: Engine, line: str) -> None:
    """Without a terminal, which a test does not have, and with the name of the container."""
    start_as_shown(engine, ["headrace"])
    words = [re.sub("^-it$", "-i", word).replace("NAME", SERVER) for word in shlex.split(line)[1:]]
    if SERVER not in words:
        words.append(SERVER)
    done = engine.call(*words)
    assert done.returncode == 0, done.stderr
    assert words[0] != "inspect" or done.stdout == "healthy\n"
