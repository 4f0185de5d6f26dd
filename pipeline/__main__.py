"""`python -m headrace.pipeline JOB ...`."""

from __future__ import annotations

import argparse
import sys
import time

from .errors import PipelineError, message_of
from .jobs.common import print_summary

try:
    # Jobs import pyspark when they run; importing it here reports a missing package before that.
    import pyspark as pyspark

    from .jobs import archive, audit, deadletter, replay
except ModuleNotFoundError as missing:
    package = (missing.name or "").partition(".")[0]
    raise SystemExit(f"headrace.pipeline needs {package}: pip install 'headrace[spark]'") from None

JOBS = {job.name: job for job in (archive.JOB, replay.JOB, deadletter.JOB, audit.JOB)}


def command_line() -> argparse.ArgumentParser:
    """Returns the parser of the arguments of all jobs."""
    parser = argparse.ArgumentParser(prog="headrace.pipeline", description="Jobs around streams and consumer groups.")
    subparsers = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    for job in JOBS.values():
        job.add_arguments(subparsers.add_parser(job.name, help=job.help, description=job.help))
    return parser


def main(words: list[str] | None = None) -> int:
    """Runs a job. An error is one line on standard error and exit code 1."""
    parser = command_line()
    for word in sys.argv[1:] if words is None else words:
        if _is_no_text(word):
            parser.error(f"{word!r} is not UTF-8: the command line cannot name keys with other bytes")
    arguments = parser.parse_args(words)
    started = time.monotonic()
    try:
        summary = JOBS[arguments.job].run(arguments)
    except KeyboardInterrupt:
        print(f"{arguments.job}: interrupted; run the same command again to continue", file=sys.stderr)
        return 130
    except Exception as error:
        if not isinstance(error, PipelineError) and not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        print(f"{arguments.job}: {message_of(error)}", file=sys.stderr)
        return 1
    print_summary(arguments.job, started, summary)
    return 0


def _is_no_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
