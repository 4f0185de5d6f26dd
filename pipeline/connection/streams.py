"""Streams as the server knows them: their keys, and the settings by which they recognise repeated rows.

`XADD key IDMP producer row ..` adds nothing if the stream knows the row. A stream remembers the newest `idmp-maxsize`
rows of each producer for `idmp-duration` seconds; XCFGSET sets both.
"""

from __future__ import annotations

import uuid
from typing import Any

from ..errors import PipelineError, Unsupported
from ..options.kinds import WriteOptions
from .client import Connection, ReplyError


def key_bytes(key: str) -> bytes:
    """Returns a key as bytes, as the server stores it."""
    return key.encode("utf-8")


def prepare_stream(connection: Connection, key: bytes, options: WriteOptions) -> int:
    """Makes a stream remember as many rows, for as long, as the options ask; creates the stream if it is missing.

    Returns how many rows of each producer the stream remembers. Raises PipelineError if other settings are in use:
    XCFGSET with a new value makes the stream forget all rows, so it is sent only while the stream remembers none.
    """
    name = key.decode("utf-8", "replace")
    known = _stream_settings(connection, key, name)
    if known is None:
        _make_stream(connection, key)
        known = _stream_settings(connection, key, name) or {}
    if b"idmp-maxsize" not in known:
        raise Unsupported(
            "this server cannot recognise rows (XADD IDMP is in Headrace and in Redis 8.6): set idempotency=none (for "
            "the job replay: --ids keep)"
        )
    size, duration = int(known[b"idmp-maxsize"]), int(known[b"idmp-duration"])
    if size >= options.idmp_max_size and duration >= options.idmp_duration:
        return size
    if known.get(b"iids-tracked"):
        raise PipelineError(
            f"stream {name} remembers {size} rows of a producer for {duration} s, and these settings are in use: set "
            "idmpMaxSize and idmpDuration to no more, or use XCFGSET while no producer writes"
        )
    size, duration = max(size, options.idmp_max_size), max(duration, options.idmp_duration)
    connection.call("XCFGSET", key, "IDMP-DURATION", duration, "IDMP-MAXSIZE", size, doing=f"stream {name}")
    return size


def _stream_settings(connection: Connection, key: bytes, name: str) -> dict[bytes, Any] | None:
    reply = connection.call_all([("XINFO", "STREAM", key)])[0]
    if isinstance(reply, ReplyError):
        if str(reply) == "ERR no such key":
            return None
        raise connection.refused(f"stream {name}", str(reply))
    return dict(zip(reply[::2], reply[1::2], strict=True))


def _make_stream(connection: Connection, key: bytes) -> None:
    """Makes an empty stream, by creating a group and destroying it."""
    group = "headrace:maker:" + uuid.uuid4().hex
    replies = connection.call_all(
        [("XGROUP", "CREATE", key, group, "0", "MKSTREAM"), ("XGROUP", "DESTROY", key, group)]
    )
    for reply in replies:
        if isinstance(reply, ReplyError):
            raise connection.refused(f"making stream {key.decode('utf-8', 'replace')}", str(reply))
