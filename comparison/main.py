"""headrace-compare: compares the datasets of two servers that run, each a Headrace or a Redis.

    headrace-compare [options] A B

It only reads, a page at a time, and both servers may be written to meanwhile: docs/migration.md. Exit codes: 0 if all
is equal, 1 if something differs, 2 if it could not be compared.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from .address import FORMS, Address, parse
from .connection import Connection, TlsFiles
from .errors import CannotCompare
from .pair import Pair
from .pieces import Databases, Piece
from .report import CANNOT_COMPARE, Report
from .second_look import SecondLook
from .survey import Survey

# Pieces that are looked at again together.
WAITING_COUNT_MAX: Final = 1000
LIMIT_DEFAULT: Final = 100
ROUNDS_DEFAULT: Final = 5
TIMEOUT_DEFAULT_S: Final = 30.0
PROGRESS_EVERY_S: Final = 0.2
INTERRUPTED: Final = 130
UNRELATED_NOTE: Final = "the servers do not follow each other"

DESCRIPTION: Final = """Compares the datasets of two servers that run, each a Headrace or a Redis (7.0 or newer): keys,
types, expiry times, strings, hashes, lists, sets, sorted sets, streams, groups, consumers and pending entries. It only
reads. What differs is looked at again, since clients may write meanwhile."""
EPILOGUE: Final = f"""Addresses: {FORMS}. A password is better in
HEADRACE_COMPARE_PASSWORD_A and _B, or REDISCLI_AUTH for both. Exit codes: 0 if all is equal, 1 if something differs,
2 if it could not be compared."""


def command_line() -> argparse.ArgumentParser:
    """The parser of the options."""
    parser = argparse.ArgumentParser(
        prog="headrace-compare", description=DESCRIPTION, epilog=EPILOGUE, allow_abbrev=False
    )
    add = parser.add_argument
    add("a", metavar="A", help="the address of a server")
    add("b", metavar="B", help="the address of the other server")
    add("--database", type=int, action="append", metavar="N", help="only this database; may be repeated")
    add("--match", metavar="PATTERN", help="only keys that match, as in SCAN MATCH")
    add("--limit", type=int, default=LIMIT_DEFAULT, metavar="N", help="end after N differences; 0: never (default 100)")
    add("--rounds", type=int, default=ROUNDS_DEFAULT, metavar="N", help="looks at what differs (default 5)")
    add("--timeout", type=float, default=TIMEOUT_DEFAULT_S, metavar="SECONDS", help="for replies and lag (default 30)")
    add("--json", action="store_true", help="print a JSON object for each difference, and one for the result")
    add("--tls-ca-file", metavar="FILE", help="trusted certificates of rediss:// servers (default: of the system)")
    add("--tls-cert-file", metavar="FILE", help="a certificate of the client")
    add("--tls-key-file", metavar="FILE", help="its key")
    return parser


class Progress:
    """A line on the terminal that shows how far the comparison is. Without a terminal there is none."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._is_shown = output.isatty()
        self._next_s = 0.0
        self.survey: Survey | None = None
        self.second_look: SecondLook | None = None

    def step(self) -> None:
        """Show the line again if it is time."""
        if not self._is_shown or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + PROGRESS_EVERY_S
        assert self.survey is not None
        counts = self.survey.counts
        line = f"{counts.keys:,} of {counts.keys_total:,} keys, {counts.entries:,} entries, {counts.pending:,} pending"
        if self.second_look is not None and self.second_look.waiting_count:
            line += f"; looking again at {self.second_look.waiting_count:,}"
        self._output.write(f"\r\x1b[K{line}")
        self._output.flush()

    def clear(self) -> None:
        """Remove the line, before something else is written."""
        if self._is_shown:
            self._output.write("\r\x1b[K")
            self._output.flush()


def databases_of(a: Address, b: Address, named: Sequence[int] | None) -> list[Databases] | None:
    """The databases that the command line names; None for all of them. Raises CannotCompare."""
    in_addresses = [each.database for each in (a, b) if each.database is not None]
    if named and in_addresses:
        raise CannotCompare("--database and a database in an address cannot be combined")
    if in_addresses:
        return [(in_addresses[0], in_addresses[-1])]
    return [(index, index) for index in sorted(set(named))] if named else None


def compare(words: argparse.Namespace, output: TextIO, progress: Progress) -> int:
    """Compare, and write the report. Returns the exit code. Raises CannotCompare."""
    started_s = time.monotonic()
    address_a, address_b = parse("A", words.a), parse("B", words.b)
    databases = databases_of(address_a, address_b, words.database)
    tls = TlsFiles(words.tls_ca_file, words.tls_cert_file, words.tls_key_file)
    report = Report(output, is_json=words.json, limit=words.limit)
    with Connection(address_a, tls, words.timeout) as a, Connection(address_b, tls, words.timeout) as b:
        pair = Pair(a, b, words.timeout)
        matching = None if words.match is None else words.match.encode("utf-8", "surrogateescape")
        survey = progress.survey = Survey(pair, matching, progress.step)
        second_look = progress.second_look = SecondLook(pair, words.rounds, progress.step)
        note = "" if pair.are_related() else UNRELATED_NOTE
        for pieces in _portions(survey.run(survey.databases() if databases is None else databases)):
            for finding in second_look.run(pieces):
                progress.clear()
                report.add(finding)
                if report.is_full:
                    break
            if report.is_full:
                break
        progress.clear()
        report.add_foreign(survey.foreign, survey.foreign_count)
        return report.end(survey.counts, survey.foreign_count, time.monotonic() - started_s, note)


def _portions(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    """The pieces in portions, each piece once in its portion."""
    waiting: dict[Piece, None] = {}
    for piece in pieces:
        waiting[piece] = None
        if len(waiting) == WAITING_COUNT_MAX:
            yield list(waiting)
            waiting = {}
    if waiting:
        yield list(waiting)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit code; one line on standard error says why nothing could be compared."""
    parsed = command_line().parse_args(words)
    progress = Progress(sys.stderr)
    try:
        return compare(parsed, sys.stdout, progress)
    except CannotCompare as error:
        progress.clear()
        print(f"headrace-compare: {error}", file=sys.stderr)
        return CANNOT_COMPARE
    except KeyboardInterrupt:
        progress.clear()
        print("headrace-compare: interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
