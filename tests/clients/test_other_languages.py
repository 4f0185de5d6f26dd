"""Clients of Debian's packages in other languages: redis-rb, phpredis, Perl's Redis, hiredis and redigo."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.clients import require_program
from support.servers import Server

SCRIPTS = Path(__file__).parent / "languages"
DEADLINE_S = 60


def run(*words: str | Path) -> str:
    """What a program prints."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_redis_rb_runs_groups_transactions_locks_scripts_and_subscriptions(server: Server) -> None:
    require_program("ruby", "-r", "redis", "-e", "")
    replies: list[Any] = json.loads(run("ruby", SCRIPTS / "groups.rb", str(server.port)))
    tea = [[0, {"item": "tea"}]]
    assert replies == [tea, 1, tea, 1, ["OK", "v"], [True, False], "v", "tea"]


def test_phpredis_runs_groups_transactions_locks_and_scripts(server: Server) -> None:
    require_program("php", "-r", "exit(class_exists('Redis') ? 0 : 1);")
    replies: list[Any] = json.loads(run("php", SCRIPTS / "groups.php", str(server.port)))
    tea = [{"item": "tea"}]
    assert replies == [tea, 1, tea, 1, [True, "v"], [True, False], "v", 0]


def test_redis_of_perl_runs_groups_transactions_locks_scripts_and_subscriptions(server: Server) -> None:
    require_program("perl", "-MRedis", "-e", "1")
    replies: list[Any] = json.loads(run("perl", SCRIPTS / "groups.pl", str(server.port)))
    tea = ["item", "tea"]
    assert replies == [tea, 1, tea, 1, ["OK", "v"], ["OK", None], "v", "tea"]


def test_hiredis_runs_groups_locks_and_pipelines(server: Server, tmp_path: Path) -> None:
    compiler = shutil.which("cc") or "cc"
    require_program(compiler, "-include", "hiredis/hiredis.h", "-E", "-x", "c", "/dev/null")
    run(compiler, "-o", tmp_path / "groups", SCRIPTS / "groups.c", "-lhiredis")
    lines = run(tmp_path / "groups", str(server.port)).splitlines()
    assert lines == ["OK ", "1-1 ", "s 1-1 item te ", "1-1 ", "1 ", "OK ", "nil ", "1 2 3 "]


def test_redigo_runs_groups_transactions_locks_scripts_and_subscriptions(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GO111MODULE", "off")  # the packages of GOPATH, not modules of a proxy
    monkeypatch.setenv("GOPATH", "/usr/share/gocode")
    monkeypatch.setenv("GOCACHE", str(tmp_path / "cache"))
    require_program("go", "list", "github.com/gomodule/redigo/redis")
    run("go", "build", "-o", tmp_path / "groups", SCRIPTS / "groups.go")
    replies: list[Any] = json.loads(run(tmp_path / "groups", str(server.port)))
    delivered = [["s", [["1-1", ["item", "tea"]]]]]
    assert replies == [delivered, ["1-1"], 1, ["OK", "v"], "OK", None, "v", "tea"]
