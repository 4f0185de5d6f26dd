"""Opening listening sockets, and the errors that refused connections get."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
from pathlib import Path
from typing import Any, Final

# Errors that an address marked `-` may have: this host does not have the address. Any other error stops the start.
OPTIONAL_ADDRESS_ERRORS: Final = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT}

TCP_REMEDIES: Final = {
    errno.EADDRINUSE: "another process has the port: stop it, or choose another port (--port)",
    errno.EACCES: "this user may not have that port: choose one above 1023 (--port)",
    socket.EAI_NONAME: "give addresses of this machine (--bind)",
    **dict.fromkeys(OPTIONAL_ADDRESS_ERRORS, "this machine does not have the address: choose another (--bind)"),
}
COMMENT_REMEDY: Final = "a comment needs a line of its own (--bind)"
# What to do about an error, by errno; 0 if Python refuses the path without a system call.
UNIX_REMEDIES: Final = {
    errno.ENOENT: "create its folder, or choose another path (--unixsocket)",
    errno.ENOTDIR: "its folder is a file: choose another path (--unixsocket)",
    errno.EACCES: "this user may not write to its folder: choose another path (--unixsocket)",
    errno.EADDRINUSE: "a file of that name is not a socket: move it away, or choose another path (--unixsocket)",
    0: "choose a path of at most 107 bytes (--unixsocket)",
}

TOO_MANY_CLIENTS: Final = b"-ERR max number of clients reached\r\n"

# Redis' text, since clients show it to people.
PROTECTED_MODE: Final = (
    b"-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the "
    b"default user. In this mode connections are only accepted from the loopback interface. If you want to connect "
    b"from external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode "
    b"sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the "
    b"same host the server is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. "
    b"Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by "
    b"editing the Redis configuration file, and setting the protected mode option to 'no', and then restarting the "
    b"server. 3) If you started the server manually just for testing, restart it with the '--protected-mode no' "
    b"option. 4) Set up an authentication password for the default user. NOTE: You only need to do one of the above "
    b"things in order for the server to start accepting connections from the outside.\r\n"
)


class ListenError(Exception):
    """An address or path cannot be listened on. The text is one line for a person, with the address and the remedy."""

    @classmethod
    def explain(cls, what: str, error: OSError, remedies: dict[int, str]) -> ListenError:
        """The error that `what` failed, with the usual remedy if there is one."""
        reason, remedy = error.strerror or str(error), remedies.get(error.errno or 0)
        return cls(f"{what}, aborting: {reason}" + (f"; {remedy}" if remedy else ""))


def is_loopback(peer: Any) -> bool:
    """Whether a peer address is of this host, as Unix sockets are."""
    if not isinstance(peer, tuple):
        return True
    address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def open_tcp_sockets(addresses: list[str], port: int, backlog: int, *, directive: str = "port") -> list[socket.socket]:
    """Listen on every address of `bind`; `*` is any IPv4, `::` and `::*` any IPv6, a leading `-` makes it optional.

    Port 0 lets the system choose. `directive` is what has named the port. Raises ListenError; sockets
    opened before are closed then.
    """
    opened: list[socket.socket] = []
    for word in addresses:
        try:
            opened.append(_open_tcp_socket(word.removeprefix("-"), port, backlog))
        except OSError as error:
            if word.startswith("-") and error.errno in OPTIONAL_ADDRESS_ERRORS:
                continue
            for listening in opened:
                listening.close()
            what = f"Failed listening on port {port} (tcp) of {word}"
            remedies = {number: text.replace("--port", f"--{directive}") for number, text in TCP_REMEDIES.items()}
            if word.startswith("#"):
                remedies[error.errno or 0] = COMMENT_REMEDY
            raise ListenError.explain(what, error, remedies) from error
    return opened


def _open_tcp_socket(word: str, port: int, backlog: int) -> socket.socket:
    host = {"*": "0.0.0.0", "::*": "::"}.get(word, word)
    try:
        # Bytes: for a text, Python imports the encoding of international names, as which Redis does not take it either.
        found = socket.getaddrinfo(os.fsencode(host), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except ValueError:  # Python refuses the name: no name has such characters, or parts so long
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from None
    family, kind, protocol, _, address = found[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(backlog)
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening


def open_unix_socket(path: str, permissions: int, backlog: int) -> socket.socket:
    """Listen on a Unix socket. A socket that an earlier server left under that name is replaced. With `permissions` 0,
    the umask applies.

    Raises ListenError.
    """
    try:
        return _open_unix_socket(Path(path), permissions, backlog)
    except OSError as error:
        what = f"Failed opening Unix socket {os.path.abspath(path)}"
        raise ListenError.explain(what, error, UNIX_REMEDIES) from error


def _open_unix_socket(path: Path, permissions: int, backlog: int) -> socket.socket:
    if path.is_socket():
        path.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(path))
        if permissions:
            path.chmod(permissions)
        listening.listen(backlog)
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening


class UnixSocketFile:
    """The file of an open Unix socket. It is removed with the socket, unless another server has replaced it."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._inode = self._path.stat().st_ino

    def remove(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()
