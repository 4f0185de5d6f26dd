"""What the jobs share: words of the command line, progress on a terminal, and the summary line."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from ..options import Endpoint, option_name, parse

CONNECTION = {
    "host": "host",
    "port": "port",
    "socket-path": "socketPath",
    "db": "db",
    "tls-ca-file": "tlsCaFile",
    "tls-cert-file": "tlsCertFile",
    "tls-key-file": "tlsKeyFile",
    "username": "username",
    "password-file": "passwordFile",
    "password-env": "passwordEnv",
    "retry-for": "retryFor",
}
"""Words of the command line for options of the data source. A password has none: it would show in the process list."""

Summary = dict[str, Any]


def add_connection(parser: argparse.ArgumentParser) -> None:
    """The words that say where the server is."""
    group = parser.add_argument_group("server")
    meanings = {option_name(row.name): row.metadata["meaning"] for row in fields(Endpoint)}
    for word, name in CONNECTION.items():
        kind = "TIME" if word == "retry-for" else word.split("-")[-1].upper()
        group.add_argument(f"--{word}", metavar=kind, help=_as_help(meanings[name]))
    group.add_argument("--tls", action="store_true", help=_as_help(meanings["tls"]))


def _as_help(meaning: str) -> str:
    return f"{meaning[0].lower()}{meaning[1:]}".rstrip(".").replace("%", "%%")


def connection_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The same as options of the data source."""
    given = {name: getattr(arguments, word.replace("-", "_")) for word, name in CONNECTION.items()}
    options = {name: value for name, value in given.items() if value is not None}
    return options | ({"tls": "true"} if arguments.tls else {})


def endpoint(arguments: argparse.Namespace) -> Endpoint:
    """The same for a connection of one's own. Raises OptionError."""
    return parse(Endpoint, connection_options(arguments))


def add_spark(parser: argparse.ArgumentParser) -> None:
    """Where Spark runs."""
    parser.add_argument("--master", help="Spark master; the default is $SPARK_MASTER or local[*]")


@dataclass(frozen=True)
class Job:
    """A job as `python -m headrace.pipeline` knows it."""

    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Summary]


@dataclass
class Progress:
    """A line on the terminal that is written over; nothing where standard error is no terminal."""

    what: str
    _started: float = field(default_factory=time.monotonic)
    _is_shown: bool = False

    @property
    def is_seen(self) -> bool:
        """Whether there is a terminal."""
        return sys.stderr.isatty()

    def show(self, count: int) -> None:
        """`archive: 120000 entries, 40000/s`."""
        if self.is_seen:
            elapsed_s = max(time.monotonic() - self._started, 0.001)
            print(f"\r{self.what}: {count} entries, {count / elapsed_s:.0f}/s  ", end="", file=sys.stderr, flush=True)
            self._is_shown = True

    def end(self) -> None:
        """Go to the next line."""
        if self._is_shown:
            print(file=sys.stderr)


def print_summary(name: str, started: float, summary: Summary) -> None:
    """One line of JSON on standard output."""
    print(json.dumps({"job": name, **summary, "seconds": round(time.monotonic() - started, 1)}), flush=True)
