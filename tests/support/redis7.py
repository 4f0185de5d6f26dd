"""A Redis of version 7: an older server, for what must be refused or read. That of Debian uses TLS, too."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from support.servers import Server, oracle_folder

# Debian has one program for both names, and only redis-tools is installed where no server shall be started.
NAMES = ("redis-server", "redis-check-rdb")


def redis7() -> str:
    """The path of a redis-server of version 7: of HEADRACE_TEST_REDIS7, else one on the PATH. Skips without one, or
    fails if HEADRACE_REQUIRE_REDIS7 is set.
    """
    for program in (os.environ.get("HEADRACE_TEST_REDIS7"), *map(shutil.which, NAMES)):
        if program and re.search(r"v=7\.", _version(program)):
            return program
    message = "no redis-server 7 found: HEADRACE_TEST_REDIS7 names one, and so does redis-tools of Debian 12"
    if os.environ.get("HEADRACE_REQUIRE_REDIS7", "") not in ("", "0"):
        pytest.fail(message)
    pytest.skip(message)


def redis_with_tls() -> str:
    """The path of a redis-server that was built with TLS: the oracle's, else one of version 7. Skips or fails as
    `redis7` does.
    """
    folder = oracle_folder()
    if folder is not None and _has_tls(str(folder / "redis-server")):
        return str(folder / "redis-server")
    program = redis7()
    assert _has_tls(program), f"{program} was built without TLS"
    return program


def _has_tls(program: str) -> bool:
    """Whether it lacks no more than a certificate. It starts in no case."""
    words = ["redis-server", "--port", "0", "--tls-port", "6379"]
    done = subprocess.run(words, executable=program, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    return "No tls-cert-file configured" in done.stdout


def _version(program: str) -> str:
    words = ["redis-server", "--version"]
    return subprocess.run(words, executable=program, capture_output=True, text=True, check=False).stdout


class OldRedis(Server):
    """A server process of Redis 7, whose program may have another name."""

    def program(self) -> list[str]:
        link = self.folder / "redis-server"
        if not link.exists():
            link.symlink_to(redis7())
        return [str(link)]
