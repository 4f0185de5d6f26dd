"""deadletter: moves entries delivered too often, or released as FATAL, from their group to another stream.

For each page of entries it does three things in order: it claims them, so that no other consumer has them; it copies
them to the stream, where a repeated copy is recognised by its ID, and to a file named after its content; and it
acknowledges the page in one command. After a crash the entries are still with this job's consumer. The next run begins
with them, and repeating a step has no effect.

With `--redrive` it does the reverse, if the server has XREDRIVE: dead letters that the server made are given back.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..columns.page import Page
from ..connection.client import Connection, ReplyError
from ..connection.streams import key_bytes
from ..errors import PipelineError, Unsupported
from ..options.values import seconds
from ..reading.group import FATAL, Group, Held
from .common import Job, Progress, Summary, add_connection, endpoint

CONSUMER = "headrace:deadletter"
PAGE_SIZE = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the job."""
    parser.add_argument("--stream", required=True, help="key of the stream")
    parser.add_argument("--group", required=True, help="its consumer group")
    parser.add_argument(
        "--max-deliveries", type=int, default=5, help="move entries delivered more often (default %(default)s)"
    )
    parser.add_argument("--min-idle", default="60s", help="skip entries delivered more recently (default %(default)s)")
    parser.add_argument("--target", help="stream to copy them to")
    parser.add_argument("--path", help="folder for Parquet files with them")
    parser.add_argument(
        "--redrive", action="store_true", help="give the dead letters in --target back to the group, on Headrace"
    )
    parser.add_argument("--dry-run", action="store_true", help="only count them")
    add_connection(parser)


def run(arguments: argparse.Namespace) -> Summary:
    """Moves the entries. Raises PipelineError."""
    if not (arguments.target or arguments.path or arguments.dry_run):
        raise PipelineError("--target or --path is needed (or --dry-run): entries are not thrown away")
    if arguments.max_deliveries < 0:
        raise PipelineError("--max-deliveries must not be negative")
    if arguments.target == arguments.stream:
        raise PipelineError("--target must be another stream")
    if arguments.redrive:
        return redrive(arguments)
    try:
        min_idle_ms = round(seconds(arguments.min_idle) * 1000)
    except ValueError as error:
        raise PipelineError(f"--min-idle must be {error}") from None
    progress, moved = Progress("deadletter"), 0
    with Connection(endpoint(arguments)) as connection:
        group = Group(connection, arguments.stream, arguments.group, PAGE_SIZE)
        if arguments.dry_run:
            found = find(connection, group, arguments.max_deliveries, min_idle_ms)
            return {"entries": sum(len(ids) for ids in found), "moved": 0}
        while held := _claimed(connection, group, arguments, min_idle_ms):
            page = group.entries(held.ids)
            if arguments.path and len(page):
                write_parquet(Path(arguments.path), arguments.stream, arguments.group, page, held)
            group.bury(held.ids, held.counts, arguments.target)
            moved += len(held.ids)
            progress.show(moved)
        if CONSUMER in group.consumers():
            group.drop(CONSUMER)
    progress.end()
    return {"entries": moved, "target": arguments.target, "path": arguments.path}


def redrive(arguments: argparse.Namespace) -> Summary:
    """Gives dead letters back to their group, and counts those that stay by the reason. Raises PipelineError."""
    if not arguments.target or arguments.path or arguments.dry_run:
        raise PipelineError("--redrive needs --target, and neither --path nor --dry-run")
    progress, moved = Progress("deadletter"), 0
    request = ("XREDRIVE", key_bytes(arguments.target), "COUNT", PAGE_SIZE, "GROUP", arguments.group)
    with Connection(endpoint(arguments)) as connection:
        while True:
            reply = connection.call_all([request])[0]
            if isinstance(reply, ReplyError):
                if str(reply).startswith("ERR unknown command"):
                    raise Unsupported("--redrive: this server has no XREDRIVE; Headrace has it")
                raise connection.refused(f"--redrive {arguments.target}", str(reply))
            count, kept = reply
            moved += count
            progress.show(moved)
            if not count:
                break
    progress.end()
    reasons = Counter(reason.decode("utf-8", "replace") for _, reason in kept)
    return {"redriven": moved, "kept": dict(reasons), "target": arguments.target}


def _claimed(connection: Connection, group: Group, arguments: argparse.Namespace, min_idle_ms: int) -> Held | None:
    """Returns the next page of entries claimed by this job, entries of a crashed run first; None at the end."""
    held = next(group.held(CONSUMER), None)
    if held is not None:
        return held
    for ids in find(connection, group, arguments.max_deliveries, min_idle_ms):
        if arguments.target:
            group.prepare_target(arguments.target)
        connection.call("XCLAIM", group.stream, group.name, CONSUMER, min_idle_ms, *ids, "JUSTID")
        held = next(group.held(CONSUMER), None)
        if held is not None:
            return held
    return None


def find(connection: Connection, group: Group, most: int, min_idle_ms: int) -> Iterator[list[bytes]]:
    """Yields, in pages, the IDs of idle pending entries that were delivered more than `most` times."""
    first = b"-"
    while True:
        doing = f"group {group.name} of stream {group.stream}"
        rows: Any = connection.call("XPENDING", group.stream, group.name, first, "+", PAGE_SIZE, doing=doing)
        ids = [row[0] for row in rows if row[3] > most and (row[2] >= min_idle_ms or not row[1])]
        if ids:
            yield ids
        if len(rows) < PAGE_SIZE:
            return
        first = b"(" + rows[-1][0]


def write_parquet(folder: Path, stream: str, group: str, page: Page, held: Held) -> Path:
    """Writes a page to a file named after its content, so that a repeated page replaces the same file."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise PipelineError("--path needs pyarrow: pip install 'headrace[spark]'") from None
    ids = page.ids.to_pylist()
    known = dict(zip(held.ids, held.counts, strict=True))
    counts = [known[one] for one in ids]
    pairs = pa.list_(pa.struct([("field", pa.binary()), ("value", pa.binary())]))
    table = pa.table(
        {
            "_stream": pa.array([stream] * len(page), pa.string()),
            "_group": pa.array([group] * len(page), pa.string()),
            "_id": page.ids.cast(pa.string()),
            "_deliveries": pa.array(counts, pa.int64()),
            "_reason": pa.array(["fatal" if count == FATAL else "deliveries" for count in counts], pa.string()),
            "_pairs": pa.array(
                [[{"field": f, "value": v} for f, v in zip(p[::2], p[1::2], strict=True)] for p in page.pairs()], pairs
            ),
        }
    )
    digest = hashlib.sha256(b" ".join([stream.encode(), group.encode(), *ids])).hexdigest()[:12]
    target = folder / f"dead-{ids[0].decode()}-{digest}.parquet"
    temporary = folder / f".{target.name}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, temporary, compression="zstd")
        temporary.rename(target)
    except OSError as error:
        raise PipelineError(f"--path: cannot write {target}: {error.strerror}") from None
    return target


JOB = Job("deadletter", "Move entries that were delivered too often to another stream.", add_arguments, run)
