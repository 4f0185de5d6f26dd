"""A start without options imports no module that only an option or a rare command needs, since that takes time.

A server has served a request when its modules are counted, so what the first request needs is imported too.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.ports import free_port

# Modules that a start does not need, and what needs them.
UNNEEDED = {
    "argparse": "no part of the server: options are directives",
    "bz2": "only `shutil`",
    "ctypes": "MEMORY PURGE",
    "decimal": "a reply with a fraction in RESP3",
    "difflib": "a directive that does not exist",
    "encodings.idna": "a host name that is not ASCII",
    "headrace.server.reports.metrics": "a client of the metrics port",
    "logging.handlers": "logfile",
    "lzma": "only `shutil`",
    "pickle": "only `logging.handlers`",
    "secrets": "no part of the server: `os.urandom` is enough",
    "shutil": "no part of the server",
    "sqlite3": "no part of the server",
    "stringprep": "only `encodings.idna`",
    "tempfile": "no part of the server",
    "typing_extensions": "no part of the server",
    "xml": "no part of the server",
}
# Serves a request, prints the modules that are loaded then, and ends.
PROGRAM = """
import os, socket, sys, threading
from headrace.server.main import main

def ask():
    while True:
        try:
            # `create_connection` would import `encodings.idna`.
            with socket.socket() as client:
                client.connect(("127.0.0.1", int(sys.argv[1])))
                client.sendall(b"PING\\r\\n")
                assert client.recv(100) == b"+PONG\\r\\n"
                break
        except ConnectionRefusedError:
            pass
    print("modules", *sys.modules)
    sys.stdout.flush()
    os._exit(0)

threading.Thread(target=ask).start()
main(["--port", sys.argv[1], "--bind", "127.0.0.1", "--appendonly", "yes"])
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    words = [sys.executable, "-c", PROGRAM, str(free_port())]
    folder = tmp_path_factory.mktemp("start")
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("modules ")]
    return frozenset(line.split())


@pytest.mark.parametrize("name", UNNEEDED)
def test_a_start_does_not_import(name: str, modules: frozenset[str]) -> None:
    assert name not in modules, f"only this needs it: {UNNEEDED[name]}"


def test_a_started_server_has_all_commands(modules: frozenset[str]) -> None:
    assert {"headrace.commands.streams.add", "headrace.server.requests.dispatch"} <= modules
