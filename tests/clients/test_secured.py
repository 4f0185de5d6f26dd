"""Clients over TLS and over the Unix socket, with users of their own, against a server process."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import redis
import redis.asyncio

from conftest import StartServer
from support.certificates import Authority
from support.links import until
from support.packaging import ROOT
from support.ports import free_port
from support.servers import STOP_DEADLINE_S, Server


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def tls_server(authority: Authority, start_server: StartServer) -> tuple[Server, int]:
    """A server that also speaks TLS, and that port."""
    certificate, key = authority.issue("server")
    port = free_port()
    words = ["--tls-port", str(port), "--tls-cert-file", str(certificate), "--tls-key-file", str(key)]
    words += ["--tls-ca-cert-file", str(authority.file), "--tls-auth-clients-user", "CN"]
    words += ["--user", "al", "on", ">pw", "~al:*", "+@all", "-@dangerous"]
    return start_server("headrace", *words), port


def options(authority: Authority, port: int, name: str) -> dict[str, object]:
    """How redis-py connects with a certificate for `name`."""
    certificate, key = authority.issue(name, common_name=name)
    return {
        "host": "127.0.0.1",
        "port": port,
        "ssl": True,
        "ssl_ca_certs": str(authority.file),
        "ssl_certfile": str(certificate),
        "ssl_keyfile": str(key),
        "decode_responses": True,
    }


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_over_tls(protocol: int, tls_server: tuple[Server, int], authority: Authority) -> None:
    _, port = tls_server
    with redis.Redis(**options(authority, port, "somebody"), protocol=protocol) as client:  # type: ignore[arg-type]
        assert client.acl_whoami() == "default"
        ids = [client.xadd("s", {"n": number}) for number in range(100)]
        assert [entry_id for entry_id, _ in client.xrange("s")] == ids
        big = "x" * 5_000_000
        client.set("big", big)
        assert client.get("big") == big
        with client.pipeline() as pipeline:
            for _ in range(5000):
                pipeline.get("s-none")
            assert pipeline.execute() == [None] * 5000


def test_a_certificate_is_its_users_password(tls_server: tuple[Server, int], authority: Authority) -> None:
    _, port = tls_server
    with redis.Redis(**options(authority, port, "al")) as client:  # type: ignore[arg-type]
        assert client.acl_whoami() == "al"
        assert client.set("al:k", "v")
        with pytest.raises(redis.exceptions.NoPermissionError, match="No permissions to access a key"):
            client.set("k", "v")
        with pytest.raises(redis.exceptions.NoPermissionError, match="'flushall'"):
            client.flushall()


async def test_redis_py_asyncio_over_tls_waits_and_wakes(tls_server: tuple[Server, int], authority: Authority) -> None:
    _, port = tls_server
    async with redis.asyncio.Redis(**options(authority, port, "somebody")) as client:  # type: ignore[arg-type]
        await client.xgroup_create("s", "g", mkstream=True)
        await client.xadd("s", {"f": "v"})
        ((_, entries),) = await client.xreadgroup("g", "c", {"s": ">"}, block=5000)
        assert [fields for _, fields in entries] == [{"f": "v"}]
        assert await client.xack("s", "g", entries[0][0]) == 1


def test_a_client_without_a_certificate_is_refused(tls_server: tuple[Server, int], authority: Authority) -> None:
    server, port = tls_server
    with (
        redis.Redis(host="127.0.0.1", port=port, ssl=True, ssl_ca_certs=str(authority.file)) as client,
        pytest.raises(redis.exceptions.ConnectionError),
    ):
        client.ping()
    assert "Error accepting a client connection" in server.log_tail()
    assert "Traceback" not in server.log_tail()


def test_the_worker_of_the_examples_asks_no_sentinel_of_an_unknown_authority(
    tls_server: tuple[Server, int], tmp_path: Path
) -> None:
    """The handshake comes first, so that any server will do."""
    log = tmp_path / "worker.log"
    environment = {**os.environ, "REDIS_URL": "rediss://al:pw@", "REDIS_SENTINELS": f"127.0.0.1:{tls_server[1]}"}
    with log.open("wb") as output:
        words = [sys.executable, str(ROOT / "examples" / "worker.py")]
        worker = subprocess.Popen(words, env=environment, stdout=output, stderr=output)
    try:
        until(lambda: "certificate verify failed" in log.read_text(), "the worker does not say why it waits")
    finally:
        worker.kill()
        worker.wait()


def test_redis_cli_over_tls(tls_server: tuple[Server, int], authority: Authority) -> None:
    """The redis-cli of the oracle is built without TLS; that of a distribution has it."""
    program = next(filter(os.path.exists, ("/usr/bin/redis-cli", "/usr/local/bin/redis-cli")), None)
    if program is None or "--tls " not in subprocess.run([program, "--help"], capture_output=True, text=True).stderr + (
        subprocess.run([program, "--help"], capture_output=True, text=True).stdout
    ):
        pytest.skip("no redis-cli with TLS: apt-get install redis-tools")
    certificate, key = authority.issue("cli")
    words = ["--tls", "--cacert", authority.file, "--cert", certificate, "--key", key, "PING"]
    _, port = tls_server
    command = [program, "-h", "127.0.0.1", "-p", str(port), *map(str, words)]
    assert subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout == "PONG\n"


# -- the Unix socket -----------------------------------------------------------------------------


def unix_server(folder: Path, *words: str) -> subprocess.Popen[str]:
    """A server that listens on the socket `s` alone; it is ready when this returns."""
    command = [sys.executable, "-m", "headrace", "--port", "0", "--unixsocket", "s", "--save", "", *words]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "Ready to accept" in line:
            return process
    raise AssertionError("it did not start")


def test_redis_py_over_a_unix_socket(tmp_path: Path) -> None:
    process = unix_server(tmp_path, "--unixsocketperm", "700", "--requirepass", "pw")
    try:
        path = tmp_path / "s"
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        with redis.Redis(unix_socket_path=str(path), password="pw", decode_responses=True) as client:
            client.xadd("s", {"f": "v"})
            assert client.xlen("s") == 1
            (line,) = client.client_list()
            assert line["addr"] == "s:0"
            assert "U" in line["flags"]
            assert client.info("server")["tcp_port"] == 0
    finally:
        process.terminate()
        assert process.wait(STOP_DEADLINE_S) == 0
    assert not path.exists(), "the socket goes when the server stops"


def test_a_server_leaves_the_socket_of_its_successor_alone(tmp_path: Path) -> None:
    first, second = unix_server(tmp_path), unix_server(tmp_path)
    first.terminate()
    assert first.wait(STOP_DEADLINE_S) == 0
    with redis.Redis(unix_socket_path=str(tmp_path / "s")) as client:
        assert client.ping()
    second.terminate()
    assert second.wait(STOP_DEADLINE_S) == 0
    assert not (tmp_path / "s").exists()


def test_the_socket_of_an_ended_server_is_replaced(tmp_path: Path) -> None:
    killed = unix_server(tmp_path)
    killed.kill()
    killed.wait()
    assert (tmp_path / "s").is_socket()
    process = unix_server(tmp_path)
    with redis.Redis(unix_socket_path=str(tmp_path / "s")) as client:
        assert client.ping()
    process.terminate()
    assert process.wait(STOP_DEADLINE_S) == 0
