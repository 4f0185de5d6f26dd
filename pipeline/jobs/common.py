"""The common part of the jobs: arguments, progress on a terminal, and the summary line."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ..errors import OptionError, PipelineError, message_of
from ..options.kinds import Endpoint, option_name, parse

# Arguments and the options of the data source that they set. There is none for a password: it would show in the process
# list.
CONNECTION = {
    "host": "host",
    "port": "port",
    "socket-path": "socketPath",
    "sentinels": "sentinels",
    "sentinel-master": "master",
    "db": "db",
    "tls-ca-file": "tlsCaFile",
    "tls-cert-file": "tlsCertFile",
    "tls-key-file": "tlsKeyFile",
    "username": "username",
    "password-file": "passwordFile",
    "password-env": "passwordEnv",
    "sentinel-username": "sentinelUsername",
    "sentinel-password-file": "sentinelPasswordFile",
    "sentinel-password-env": "sentinelPasswordEnv",
    "retry-for": "retryFor",
}

Summary = dict[str, Any]


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the connection."""
    group = parser.add_argument_group("server")
    meanings = {option_name(row.name): row.metadata["meaning"] for row in fields(Endpoint)}
    for word, name in CONNECTION.items():
        kind = "TIME" if word == "retry-for" else word.split("-")[-1].upper()
        group.add_argument(f"--{word}", metavar=kind, help=_as_help(meanings[name]))
    group.add_argument("--tls", action="store_true", help=_as_help(meanings["tls"]))


def _as_help(meaning: str) -> str:
    return f"{meaning[0].lower()}{meaning[1:]}".rstrip(".").replace("%", "%%")


def connection_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Returns the connection arguments as options of the data source. Raises OptionError."""
    if bool(arguments.sentinels) != bool(arguments.sentinel_master):
        raise OptionError("options --sentinels and --sentinel-master need each other: give both, or neither")
    given = {name: getattr(arguments, word.replace("-", "_")) for word, name in CONNECTION.items()}
    options = {name: value for name, value in given.items() if value is not None}
    return options | ({"tls": "true"} if arguments.tls else {})


def endpoint(arguments: argparse.Namespace) -> Endpoint:
    """Returns the connection arguments as an Endpoint. Raises OptionError."""
    return parse(Endpoint, connection_options(arguments))


def add_spark(parser: argparse.ArgumentParser) -> None:
    """Declares the argument `--master`."""
    parser.add_argument("--master", help="Spark master; the default is $SPARK_MASTER or local[*]")


@contextlib.contextmanager
def advising(advice: Mapping[str, str]) -> Iterator[None]:
    """Replaces the advice of an error, which names options of the data source, by one that names those of the job.

    Raises PipelineError for an error with such an advice; other errors pass unchanged.
    """
    try:
        yield
    except Exception as error:
        message = message_of(error)
        for theirs, ours in advice.items():
            if theirs in message:
                raise PipelineError(message.replace(theirs, ours)) from None
        raise


@dataclass(frozen=True)
class Job:
    """A job of `python -m headrace.pipeline`."""

    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Summary]


@dataclass
class Progress:
    """A progress line that overwrites itself. It is not shown if standard error is not a terminal."""

    what: str
    _started: float = field(default_factory=time.monotonic)
    _is_shown: bool = False

    @property
    def is_seen(self) -> bool:
        """Whether standard error is a terminal."""
        return sys.stderr.isatty()

    def show(self, count: int) -> None:
        """Shows the count and the rate: `archive: 120000 entries, 40000/s`."""
        if self.is_seen:
            elapsed_s = max(time.monotonic() - self._started, 0.001)
            print(f"\r{self.what}: {count} entries, {count / elapsed_s:.0f}/s  ", end="", file=sys.stderr, flush=True)
            self._is_shown = True

    def end(self) -> None:
        """Ends the progress line."""
        if self._is_shown:
            print(file=sys.stderr)


def print_summary(name: str, started: float, summary: Summary) -> None:
    """Prints the summary as one line of JSON."""
    print(json.dumps({"job": name, **summary, "seconds": round(time.monotonic() - started, 1)}), flush=True)
