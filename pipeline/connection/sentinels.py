"""Asks Sentinels which server is the primary, and which replicas it has."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from typing import Any, Final

import hiredis

from ...protocol.packing import pack_command
from ..errors import PipelineError, refused
from ..options.kinds import Endpoint
from .tls import client_context

Address = tuple[str, int]

RECEIVE_SIZE: Final = 1 << 16
# The rights that a user of a Sentinel needs.
RIGHTS: Final = "+sentinel|get-master-addr-by-name +sentinel|replicas"
PASSWORD_HINT: Final = "set sentinelPasswordFile or sentinelPasswordEnv"
# The flags of a replica that the Sentinels take for alive.
ALIVE: Final = b"slave"


class NoSentinel(Exception):
    """None of the Sentinels has answered; the message is the reason of the last one."""


class Sentinels:
    """The Sentinels of an endpoint. Each question goes to the one that has answered last, or to the next ones."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._addresses = list(endpoint.sentinels)

    def primary(self) -> Address:
        """Returns the address of the primary. Raises NoSentinel, and PipelineError if none knows the name."""
        reply = self._ask("GET-MASTER-ADDR-BY-NAME")
        return reply[0].decode(), int(reply[1])

    def replicas(self) -> list[Address]:
        """Returns the addresses of the replicas that are alive and follow the primary. Raises as `primary`."""
        rows = [dict(zip(row[::2], row[1::2], strict=True)) for row in self._ask("REPLICAS")]
        return [
            (row[b"ip"].decode(), int(row[b"port"]))
            for row in rows
            if row[b"flags"] == ALIVE and row[b"master-link-status"] == b"ok"
        ]

    def turn(self) -> None:
        """Asks another one next time: what this one has said was not true any more."""
        self._addresses.append(self._addresses.pop(0))

    def _ask(self, question: str) -> Any:
        """Returns the reply to `SENTINEL <question> <master>`."""
        endpoint = self._endpoint
        failure, unknown_at = "", ""
        for _ in range(len(self._addresses)):
            address = self._addresses[0]
            try:
                reply = self._ask_one(address, question)
            except OSError as error:
                failure = f"{_shown(address)}: {error.strerror or error}"
            else:
                if reply is not None:
                    return reply
                unknown_at = _shown(address)
            self.turn()
        if unknown_at:
            raise PipelineError(f"the Sentinel {unknown_at} knows no {endpoint.master} (option master)")
        raise NoSentinel(f"no Sentinel answers ({failure})")

    def _ask_one(self, address: Address, question: str) -> Any:
        """Returns the reply of one Sentinel, None if it does not know the name. Raises OSError and PipelineError."""
        endpoint, where = self._endpoint, _shown(address)
        requests: list[Sequence[str]] = [("SENTINEL", question, endpoint.master or "")]
        password = endpoint.resolve_sentinel_password()
        if password is not None:
            user = [endpoint.sentinel_username] if endpoint.sentinel_username else []
            requests.insert(0, ("AUTH", *user, password))
        with contextlib.closing(self._connect(address)) as connected:
            connected.sendall(b"".join(pack_command(tuple(map(str.encode, words))) for words in requests))
            replies = _receive(connected, len(requests), where)
        for request, reply in zip(requests, replies, strict=True):
            if not isinstance(reply, hiredis.ReplyError):
                continue
            text = str(reply)
            if text.startswith("ERR No such master"):
                return None
            if text.startswith("ERR unknown command"):
                raise PipelineError(f"{where} is no Sentinel (option sentinels)")
            if text.startswith("NOAUTH"):
                raise PipelineError(f"the Sentinel {where} wants a password: {PASSWORD_HINT}")
            if request[0] == "AUTH":
                raise PipelineError(
                    f"the Sentinel {where} refused the password: check sentinelUsername, sentinelPasswordFile and "
                    "sentinelPasswordEnv"
                )
            raise refused(f"asking the Sentinel {where}", text, RIGHTS)
        return replies[-1]

    def _connect(self, address: Address) -> socket.socket:
        endpoint = self._endpoint
        connected = socket.create_connection(address, endpoint.connect_timeout)
        if endpoint.tls:
            try:
                return client_context(endpoint).wrap_socket(connected, server_hostname=address[0])
            except BaseException:
                connected.close()
                raise
        return connected


def _receive(connected: socket.socket, count: int, where: str) -> list[Any]:
    """Returns the next replies. Raises OSError, and PipelineError for bytes that are none."""
    reader = hiredis.Reader()
    replies: list[Any] = []
    while len(replies) < count:
        try:
            reply = reader.gets()
        except hiredis.HiredisError:
            raise PipelineError(f"{where} is no Sentinel (option sentinels)") from None
        if reply is not False:
            replies.append(reply)
            continue
        data = connected.recv(RECEIVE_SIZE)
        if not data:
            raise ConnectionError("the connection was closed")
        reader.feed(data)
    return replies


def _shown(address: Address) -> str:
    return f"{address[0]}:{address[1]}"
