"""Listening sockets: a failure names the address or path that failed, and what to do about it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headrace.server.sockets.listener import ListenError, open_tcp_sockets, open_unix_socket


def test_taken_port_is_named_with_its_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError) as failure:
            open_tcp_sockets(["127.0.0.1"], port, 1)
    assert str(failure.value) == (
        f"Failed listening on port {port} (tcp) of 127.0.0.1, aborting: Address already in use; another process has "
        "the port: stop it, or choose another port (--port)"
    )


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("nosuchhost.invalid", "Name or service not known; give addresses of this machine"),
        ("192.0.2.1", "Cannot assign requested address; this machine does not have the address"),
    ],
)
def test_address_that_is_not_ours_is_named(word: str, reason: str) -> None:
    with pytest.raises(ListenError) as failure:
        open_tcp_sockets(["127.0.0.1", word], 0, 1)
    assert str(failure.value) == f"Failed listening on port 0 (tcp) of {word}, aborting: {reason}" + (
        " (--bind)" if word.startswith("n") else ": choose another (--bind)"
    )


@pytest.mark.parametrize("word", ["#", "#local"])
def test_comment_after_an_address_gets_a_hint(word: str) -> None:
    with pytest.raises(ListenError) as failure:
        open_tcp_sockets(["127.0.0.1", word], 0, 1)
    assert str(failure.value).endswith("; a comment needs a line of its own (--bind)")


def test_optional_address_may_be_missing() -> None:
    assert open_tcp_sockets(["-192.0.2.1"], 0, 1) == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nosuch/s", "No such file or directory; create its folder, or choose another path (--unixsocket)"),
        ("file/s", "Not a directory; its folder is a file: choose another path (--unixsocket)"),
        (
            "file",
            "Address already in use; a file of that name is not a socket: move it away, or choose another path "
            "(--unixsocket)",
        ),
        ("l" * 120, "AF_UNIX path too long; choose a path of at most 107 bytes (--unixsocket)"),
    ],
)
def test_unix_socket_that_cannot_be_opened_is_named(
    name: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("kept")
    with pytest.raises(ListenError) as failure:
        open_unix_socket(name, 0, 1)
    assert str(failure.value) == f"Failed opening Unix socket {tmp_path}/{name}, aborting: {reason}"
    assert (tmp_path / "file").read_text() == "kept"
