"""Redis' Sentinels, which watch servers and promote a replica when the primary is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from support.links import until
from support.ports import free_port
from support.redis7 import redis_with_tls
from support.secured import Secured
from support.servers import oracle_folder
from support.wire import Wire

NAME = "orders"
# Periods of a Sentinel in ms. Its own are ten seconds for INFO, and two for the rest: a busy machine makes it wait
# half a minute if one of its turns comes two seconds late (tilt). It asks once a second for INFO while the primary is
# down, and chooses no replica whose INFO is older than five pings.
QUICK = {"info-period": 500, "publish-period": 300, "ask-period": 200, "ping-period": 500, "tilt-trigger": 60_000}

FAILOVER_TIMEOUT_MS = 20_000
# A vote without a winner is repeated after twice the timeout.
FAILOVER_DEADLINE_S = 20 + 2 * FAILOVER_TIMEOUT_MS / 1000


class Sentinels:
    """Sentinels that watch one primary. With `is_quick`, they look more often than they do by themselves; with
    `secured`, they use TLS alone.
    """

    def __init__(
        self,
        folder: Path,
        primary_port: int,
        *,
        count: int = 3,
        quorum: int = 2,
        down_after_ms: int = 1500,
        is_quick: bool = True,
        lines: tuple[str, ...] = (),
        password: str = "",
        secured: Secured | None = None,
    ) -> None:
        self.count = count
        self.ports = [free_port() for _ in range(count)]
        self.processes: list[subprocess.Popen[bytes]] = []
        self._context = secured.context if secured else None
        program = redis_with_tls() if secured else f"{oracle_folder()}/redis-server"
        for port in self.ports:
            own = folder / f"sentinel-{port}"
            own.mkdir(parents=True)
            path = own / "sentinel.conf"
            settings = [
                *(["port 0", f"tls-port {port}", *secured.lines()] if secured else [f"port {port}"]),
                "bind 127.0.0.1",
                f"sentinel monitor {NAME} 127.0.0.1 {primary_port} {quorum}",
                f"sentinel down-after-milliseconds {NAME} {down_after_ms}",
                f"sentinel failover-timeout {NAME} {FAILOVER_TIMEOUT_MS}",
                *lines,
                *([f"requirepass {password}", f"sentinel sentinel-pass {password}"] if password else []),
            ]
            path.write_text("\n".join([*settings, ""]))
            words = ["redis-server", path, "--sentinel", "--logfile", own / "sentinel.log"]
            self.processes.append(subprocess.Popen(words, executable=program, cwd=own))
        self.wires = [self._connect(port) for port in self.ports]
        if password:
            for wire in self.wires:
                assert wire.call("AUTH", password) == b"+OK\r\n"
        if is_quick:
            periods = [str(word) for pair in QUICK.items() for word in pair]
            for wire in self.wires:
                assert wire.call("SENTINEL", "DEBUG", *periods) == b"+OK\r\n"

    def _connect(self, port: int) -> Wire:
        found: list[Wire] = []

        def answers() -> bool:
            try:
                found.append(Wire(port, context=self._context))
            except ConnectionRefusedError:
                return False
            return True

        until(answers, "a Sentinel does not start")
        return found[0]

    @property
    def addresses(self) -> str:
        """The addresses as clients write them: `127.0.0.1:1,127.0.0.1:2`."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def facts(self, wire: Wire | None = None) -> dict[bytes, bytes]:
        """What one Sentinel knows of the primary."""
        words = (wire or self.wires[0]).ask("SENTINEL", "MASTER", NAME)
        return dict(zip(words[::2], words[1::2], strict=True))

    def replicas(self, wire: Wire | None = None) -> list[dict[bytes, bytes]]:
        """What one Sentinel, the first if none is named, knows of the replicas."""
        rows = (wire or self.wires[0]).ask("SENTINEL", "REPLICAS", NAME)
        return [dict(zip(words[::2], words[1::2], strict=True)) for words in rows]

    def primary_port(self) -> int:
        """The port of the primary, as all Sentinels say; 0 while they disagree."""
        found = {int(wire.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1]) for wire in self.wires}
        return found.pop() if len(found) == 1 else 0

    def await_topology(self, replicas_count: int) -> None:
        """Wait until each Sentinel knows all replicas, and all other Sentinels."""

        def is_known() -> bool:
            return all(
                int(facts[b"num-slaves"]) == replicas_count and int(facts[b"num-other-sentinels"]) == self.count - 1
                for facts in map(self.facts, self.wires)
            )

        until(is_known, "the Sentinels do not find all servers")

        def is_sane() -> bool:
            # Any of them may choose: it takes a replica whose priority it does not know yet for one of the usual one.
            rows = [row for wire in self.wires for row in self.replicas(wire)]
            return all(row[b"flags"] == b"slave" and row[b"master-link-status"] == b"ok" for row in rows)

        until(is_sane, "a replica is not ready")

    def await_failover(self, from_port: int) -> int:
        """Wait until a replica is promoted and the others follow it. Returns the port of the new primary."""
        until(lambda: self.primary_port() not in (0, from_port), "no replica is promoted", FAILOVER_DEADLINE_S)
        until(
            lambda: not any(b"failover" in self.facts(wire)[b"flags"] for wire in self.wires),
            "the failover does not end",
        )
        return self.primary_port()

    def log_text(self) -> str:
        """What all of them have logged."""
        return "".join(path.read_text() for path in self._logs())

    def _logs(self) -> list[Path]:
        return [Path(str(process.args[1])).parent / "sentinel.log" for process in self.processes]  # type: ignore[index]

    def stop(self) -> None:
        """End all of them."""
        for wire in self.wires:
            wire.close()
        for process in self.processes:
            process.kill()
            process.wait()


StartSentinels = Callable[..., Sentinels]
