"""Programs of Redis 7.0 and of Prometheus on the server, its log and its metrics."""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from conftest import StartServer
from support.clients import require_program
from support.ports import free_port
from support.servers import Server

DEADLINE_S = 60


def output(*words: str | Path, text: str = "") -> str:
    """What a program prints; it must succeed."""
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fill(server: Server) -> None:
    """A string that expires, and a stream with a group and a pending entry."""
    with server.connect() as wire:
        wire.call("SET", "k", "v", "EX", 1000)
        wire.call("XADD", "s", "1-1", "f", "v")
        wire.call("XGROUP", "CREATE", "s", "g", "0")
        wire.call("XREADGROUP", "GROUP", "g", "ann", "STREAMS", "s", ">")


def save_and_rewrite(server: Server) -> None:
    """Write a snapshot, and a log with a new base."""
    with server.connect() as wire:
        assert wire.call("SAVE") == b"+OK\r\n"
        assert not wire.call("BGREWRITEAOF").startswith(b"-")
        while re.search(rb"aof_rewrite_(in_progress|scheduled):1", wire.ask("INFO", "persistence")):
            pass


def test_redis_cli_of_version_7_reads_and_writes(server: Server) -> None:
    require_program("/usr/bin/redis-cli", "--version")
    cli = ["/usr/bin/redis-cli", "-p", str(server.port)]
    assert output(*cli, "--version").startswith("redis-cli 7.")
    assert output(*cli, "XADD", "s", "1-1", "f", "v") == "1-1\n"
    assert output(*cli, "-3", "XREAD", "STREAMS", "s", "0") == "s 1-1\nf\nv\n"
    assert "Biggest stream found" in output(*cli, "--bigkeys")
    assert "errors: 0, replies: 2" in output(*cli, "--pipe", text="SET k v\r\nGET k\r\n")


def test_redis_check_aof_of_version_7_accepts_the_log(start_server: StartServer) -> None:
    """tests/persistence tries the programs of the oracle on both kinds of files."""
    require_program("redis-cli", "--version")  # of the same package
    server = start_server("headrace", "--appendonly", "yes")
    fill(server)
    manifest = server.folder / "appendonlydir" / "appendonly.aof.manifest"
    assert "All AOF files and manifest are valid" in output("/usr/bin/redis-check-aof", manifest)


def judged(printed: str) -> list[str]:
    """What redis-check-rdb counted in a file, and its judgement of it, without the offsets."""
    lines = [re.sub(r"^\[.*?\] ", "", line) for line in printed.splitlines() if line.startswith(("[info]", "[offset"))]
    return [line for line in lines if not line.startswith(("Checking", "AUX", "Selecting", "Checksum"))]


@pytest.mark.oracle
def test_redis_check_rdb_counts_the_same_in_our_files_as_in_those_of_redis(
    start_server: StartServer, oracle_tools: Path, tmp_path: Path
) -> None:
    """The program of the oracle is its server under another name. That of version 7.0 refuses the format of both."""
    require_program("redis-cli", "--version")  # of the same package
    program = tmp_path / "redis-check-rdb"
    program.symlink_to(oracle_tools / "redis-server")
    findings: list[list[str]] = []
    for name in ("headrace", "oracle"):
        server = start_server(name, "--appendonly", "yes", "--aof-use-rdb-preamble", "yes")
        fill(server)
        save_and_rewrite(server)
        (base,) = server.folder.glob("appendonlydir/*.base.rdb")
        for path in (server.folder / "dump.rdb", base):
            refused = subprocess.run(["/usr/bin/redis-check-rdb", path], capture_output=True, text=True)
            assert refused.returncode == 1
            assert "Can't handle RDB format version" in refused.stdout
            findings.append(judged(output(program, path)) + judged(refused.stdout))
    assert findings[0][:3] == [r"\o/ RDB looks OK! \o/", "2 keys read", "1 expires"]
    assert findings == [findings[0]] * 4


def test_promtool_accepts_the_metrics(start_server: StartServer) -> None:
    require_program("promtool", "--version")
    port = free_port()
    server = start_server("headrace", "--metrics-port", str(port), "--appendonly", "yes")
    if not server.is_headrace:
        pytest.skip("Redis has no metrics endpoint")
    fill(server)
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    assert output("promtool", "check", "metrics", text=text) == ""


# What redis_exporter has for Redis and not for Headrace, and why.
NOT_EXPORTED = {
    "redis_db0_distrib_strings_sizes": "INFO has no sizes of strings, which would need a scan of all keys; "
    "redis_exporter does not read the field of Redis either, and shows 0",
}


def exported(server: Server) -> dict[str, str]:
    """The series of redis_exporter for a server, with all that it can be asked for, and their values."""
    port = free_port()
    words = [f"--redis.addr=redis://127.0.0.1:{server.port}", f"--web.listen-address=127.0.0.1:{port}"]
    words += ["--check-streams=db0=s", "--check-keys=db0=*", "--count-keys=db0=*"]
    words += ["--include-config-metrics", "--include-system-metrics", "--export-client-list"]
    exporter = subprocess.Popen(["prometheus-redis-exporter", *words], stderr=subprocess.DEVNULL)
    try:
        text = ""
        while not text:
            assert exporter.poll() is None
            with suppress(URLError), urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                text = answer.read().decode()
    finally:
        exporter.kill()
        exporter.wait()
    return dict(re.findall(r"^(redis_\w+(?:\{.*?\})?) (\S+)$", text, re.MULTILINE))


def test_redis_exporter_serves_the_server_its_keys_and_its_streams(start_server: StartServer) -> None:
    require_program("prometheus-redis-exporter", "--version")
    server = start_server("headrace", "--appendonly", "yes")
    fill(server)
    values = exported(server)
    assert values["redis_up"] == values["redis_aof_enabled"] == "1"
    assert values['redis_db_keys{db="db0"}'] == "2"
    assert values['redis_stream_length{db="db0",stream="s"}'] == "1"
    assert values['redis_stream_group_messages_pending{db="db0",group="g",stream="s"}'] == "1"
    assert float(values["redis_aof_current_size_bytes"]) > 0


@pytest.mark.oracle
def test_redis_exporter_has_the_series_of_redis_for_headrace(start_server: StartServer) -> None:
    """After a snapshot, a rewrite, an error and a refused request; with the labels of each series, not their values."""
    require_program("prometheus-redis-exporter", "--version")
    names: dict[str, set[str]] = {}
    for name in ("headrace", "oracle"):
        server = start_server(name, "--appendonly", "yes")
        fill(server)
        with server.connect() as wire:
            assert wire.call("APPEND", "s", "v").startswith(b"-WRONGTYPE")
            assert wire.call("GET").startswith(b"-ERR wrong number")
        save_and_rewrite(server)
        values = exported(server)
        names[name] = {re.sub(r'="(?:[^"\\]|\\.)*"', "", series) for series in values}
        done = {"redis_aof_last_bgrewrite_status", "redis_aof_last_write_status", "redis_rdb_last_bgsave_status"}
        assert {series: values[series] for series in done} == dict.fromkeys(done, "1"), name
    assert names["oracle"] - names["headrace"] == set(NOT_EXPORTED)
    assert names["headrace"] <= names["oracle"]
    page = (Path(__file__).parents[2] / "docs" / "clients.md").read_text("utf-8")
    assert all(f"`{series}`" in page for series in NOT_EXPORTED)
