"""A primary and its replicas, each with a configuration file that it can write, watched by Sentinels."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path

from support.cut_link import CutLink
from support.links import DEADLINE_S, await_link, field, until
from support.secured import Secured
from support.sentinels import Sentinels
from support.servers import Server
from support.wire import Wire

# A failover takes some seconds, and on a busy machine some more.
FAILOVER_DEADLINE_S = 3 * DEADLINE_S
DIRECTIVES = ("repl-diskless-sync-delay 0", "repl-ping-replica-period 1")


class Member(Server):
    """A server with a configuration file. With `secured`, it uses TLS alone."""

    def __init__(
        self, name: str, folder: Path, directives: tuple[str, ...] = (), secured: Secured | None = None
    ) -> None:
        super().__init__(name, folder)
        folder.mkdir(parents=True)
        self.path = folder / "redis.conf"
        self.password = next((line.split()[1] for line in directives if line.startswith("requirepass ")), "")
        self._secured = secured
        self.path.write_text("\n".join([*DIRECTIVES, *directives, *(secured.lines() if secured else ()), ""]))

    def program(self) -> list[str]:
        """The words that start it, the file included."""
        return [*super().program(), str(self.path)]

    def ports(self) -> list[str]:
        """The words that name the port on which it listens."""
        return ["--port", "0", "--tls-port", str(self.port)] if self._secured else super().ports()

    def connect(self, protocol: int = 2) -> Wire:
        """A new raw connection, logged in."""
        wire = Wire(self.port, protocol=protocol, context=self._secured.context if self._secured else None)
        if self.password:
            assert wire.call("AUTH", self.password) == b"+OK\r\n"
        return wire

    def _answers(self) -> bool:
        with contextlib.suppress(OSError, AssertionError), self.connect() as wire:
            return wire.call("PING") == b"+PONG\r\n"
        return False


class Lost(Enum):
    """How a primary is lost."""

    KILLED = "kill -9"
    STOPPED = "SIGSTOP"
    CUT = "a cut link"


class Watched:
    """A primary, its replicas and three Sentinels. The others reach the primary through a link that can be cut."""

    def __init__(
        self,
        folder: Path,
        names: tuple[str, ...],
        directives: tuple[tuple[str, ...], ...] = (),
        *,
        secured: Secured | None = None,
        **sentinel_options: object,
    ) -> None:
        self.nodes: list[Member] = []
        self.sentinels: Sentinels | None = None
        self.link = CutLink(0)
        for number, (name, own) in enumerate(zip(names, directives or ((),) * len(names), strict=True)):
            announced = () if number else ("replica-announce-ip 127.0.0.1", f"replica-announce-port {self.link.port}")
            node = Member(name, folder / f"{name}-{number}", (*announced, *own), secured)
            self.nodes.append(node)
            node.start()
        self.primary, *self.replicas = self.nodes
        self.link.target_port = self.primary.port
        self.secured = secured
        self._sentinel_options = {**sentinel_options, "secured": secured}
        self._folder = folder

    def watch(self) -> Sentinels:
        """Let the replicas follow the primary, and the Sentinels watch it, until all know each other."""
        for replica in self.replicas:
            with replica.connect() as wire:
                assert wire.call("REPLICAOF", "127.0.0.1", self.link.port) == b"+OK\r\n"
                await_link(wire)
        self.sentinels = Sentinels(self._folder, self.link.port, **self._sentinel_options)  # type: ignore[arg-type]
        self.sentinels.await_topology(len(self.replicas))
        return self.sentinels

    def lose(self, how: Lost) -> None:
        """Lose the primary."""
        if how is Lost.KILLED:
            self.primary.kill()
        elif how is Lost.STOPPED:
            os.kill(self.primary.pid, signal.SIGSTOP)
        else:
            self.link.cut()

    def bring_back(self, how: Lost) -> None:
        """Let the primary that was lost come back."""
        if how is Lost.KILLED:
            self.primary.start(self.primary.port)
        elif how is Lost.STOPPED:
            os.kill(self.primary.pid, signal.SIGCONT)
        else:
            self.link.heal()

    def await_failover(self) -> Member:
        """Wait until a replica was promoted and the others follow it. Returns the promoted one."""
        assert self.sentinels is not None
        port = self.sentinels.await_failover(self.link.port)
        return next(replica for replica in self.replicas if replica.port == port)

    def await_follower(self, node: Member, primary: Member) -> None:
        """Wait until a server follows this primary."""

        def follows() -> bool:
            with contextlib.suppress(OSError), node.connect() as wire:
                return (
                    field(wire, "role") == "slave"
                    and field(wire, "master_port") == str(primary.port)
                    and field(wire, "master_link_status") == "up"
                )
            return False

        until(follows, f"{node.folder.name} does not follow {primary.folder.name}", FAILOVER_DEADLINE_S)

    def close(self) -> None:
        """End all processes."""
        if self.sentinels is not None:
            self.sentinels.stop()
        for node in self.nodes:
            node.kill()
        self.link.close()


StartWatched = Callable[..., Watched]


def start_all(folder: Path) -> Iterator[StartWatched]:
    """The body of a fixture that starts watched servers and ends them."""
    started: list[Watched] = []

    def start(*words: object, **options: object) -> Watched:
        started.append(Watched(folder / str(len(started)), *words, **options))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for one in started:
        one.close()
