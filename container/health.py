"""The health check of the container image: succeeds while the server would serve a client.

    python -I health.py [PID]

The address comes from what configures the server: the words of process PID (1), variables, and a configuration file. A
server without a plain port is asked through TLS or its Unix socket. PING succeeds, or wants a password; a server that
loads, or that cannot write its log, replies with an error.
"""

from __future__ import annotations

import os
import socket
import ssl
import sys
from contextlib import suppress
from pathlib import Path

from headrace.server.configuration.config import Config
from headrace.server.configuration.config_lines import ConfigError
from headrace.server.main import read_configuration

TIMEOUT_S = 2
HEALTHY = (b"+PONG", b"-NOAUTH")
# Programs that start the server; the words of the command line follow.
PROGRAMS = ("headrace", "redis-server")


def words_of_server(pid: int) -> list[bytes]:
    """The words that the server was started with; none if that process is not the server."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    except FileNotFoundError:
        return []
    names = [os.fsdecode(word).rpartition("/")[2] for word in words]
    places = [index for index, name in enumerate(names) if name in PROGRAMS]
    return words[places[0] + 1 :] if places else []


def server_pid(pid: int) -> int:
    """The server: this process, or a child of it if it is an init (`docker run --init`)."""
    with suppress(FileNotFoundError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split():
            if not words_of_server(pid) and words_of_server(int(child)):
                return int(child)
    return pid


def address_of(config: Config) -> str:
    """An address that the server listens on: the loopback one, unless `bind` has others only."""
    first = os.fsdecode(config.bind.split()[0]).removeprefix("-")
    wide = {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::*": "::1", "::": "::1"}
    return wide.get(first, first)


def connect(config: Config) -> socket.socket:
    """A connection to the server, by the first of its kinds of port that is there."""
    if not config.bind or not (config.port or config.tls_port):
        local = socket.socket(socket.AF_UNIX)
        local.settimeout(TIMEOUT_S)
        local.connect(os.fsdecode(config.unixsocket))
        return local
    plain = socket.create_connection((address_of(config), config.port or config.tls_port), TIMEOUT_S)
    if config.port:
        return plain
    # Nothing is learnt from the server but its health, so its certificate is not verified.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    # A server that demands certificates of clients mostly accepts one of its own authority: its own.
    with suppress(OSError):
        context.load_cert_chain(config.tls_cert_file, config.tls_key_file, config.tls_key_file_pass or None)
    return context.wrap_socket(plain)


def is_healthy(pid: int) -> bool:
    """Whether the server serves clients."""
    config = read_configuration(words_of_server(server_pid(pid)), os.environb)
    os.chdir(config.dir)  # names in the configuration are relative to it
    with connect(config) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(64).startswith(HEALTHY)


if __name__ == "__main__":
    try:
        ok = is_healthy(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    except (OSError, ConfigError) as error:
        sys.exit(f"not healthy: {error}")
    sys.exit(0 if ok else "not healthy: the server loads, or refuses writes")
