"""A consumer group of one stream: the commands that queue mode and the job deadletter need."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...store.ids import StreamID, parse_id
from ..columns.page import Page, join_pages, parse_page
from ..connection.client import Argument, Connection, ReplyError, pack
from ..connection.streams import key_bytes, prepare_stream
from ..errors import OptionError, PipelineError, Unsupported
from ..options.kinds import QueueOptions, WriteOptions
from .spans import StreamState

# The delivery count of entries released as FATAL.
FATAL = 2**63 - 1
# Prefix of the names of groups that do not exist; reading from one tests the command without an effect.
PROBE_PREFIX = "headrace:probe:"
# Dead letters copied before they are acknowledged. All parts of a batch share the 10,000 rows that a stream remembers
# of a producer.
BURIED_AT_ONCE = 500


@dataclass(slots=True)
class Held:
    """Pending entries as XPENDING lists them: IDs, idle times and delivery counts."""

    ids: list[bytes]
    idle_ms: list[int]
    counts: list[int]


@dataclass(frozen=True, slots=True)
class Standing:
    """The position of a group in its stream."""

    # Entries never delivered; the length of the stream, an upper bound, if the server does not know the lag.
    new: int
    # Entries delivered and not acknowledged, of all consumers.
    pending: int
    # The group's last-delivered ID.
    last_id: StreamID


class Group:
    """A consumer group of one stream. All methods raise PipelineError."""

    def __init__(self, connection: Connection, stream: str, name: str, page_size: int) -> None:
        self._connection = connection
        self.stream = stream
        self.name = name
        self._key = key_bytes(stream)
        self.page_size = page_size
        # Dead-letter streams that have been prepared.
        self._prepared: set[str] = set()

    @property
    def _doing(self) -> str:
        return f"group {self.name} of stream {self.stream}"

    def _ask(self, *words: Argument) -> Any:
        return self._connection.call(*words, doing=self._doing)

    @cached_property
    def _settings(self) -> dict[bytes, bytes] | None:
        """What `XGROUP CONFIG` has set for the group. None on Redis, which has neither that nor XACKIF and IFOWNED."""
        reply = self._connection.call_all([("XINFO", "POLICY", self._key, self.name)])[0]
        if isinstance(reply, ReplyError):
            return None
        settings = dict(zip(reply[::2], reply[1::2], strict=True))[b"settings"]
        return dict(zip(settings[::2], settings[1::2], strict=True))

    @property
    def buries_itself(self) -> bool:
        """Whether the server moves dead letters of the group, by its own limit (`DEADLETTER`)."""
        return b"DEADLETTER" in (self._settings or {})

    @property
    def deliveries_max(self) -> int:
        """How often the server delivers an entry of the group before it is a dead letter; 0 without a limit."""
        settings = self._settings or {}
        return int(settings.get(b"MAX-DELIVERIES", 0)) if self.buries_itself else 0

    def consumers(self) -> dict[str, dict[bytes, Any]]:
        """Returns the rows of XINFO CONSUMERS by consumer name."""
        rows = [
            dict(zip(row[::2], row[1::2], strict=True)) for row in self._ask("XINFO", "CONSUMERS", self._key, self.name)
        ]
        return {row[b"name"].decode("utf-8", "surrogateescape"): row for row in rows}

    def standing(self) -> Standing:
        """Returns the position of the group."""
        for row in self._ask("XINFO", "GROUPS", self._key):
            known = dict(zip(row[::2], row[1::2], strict=True))
            if known[b"name"] == self.name.encode():
                lag = known.get(b"lag")
                return Standing(
                    self.stream_state().length if lag is None else lag,
                    known[b"pending"],
                    parse_id(known[b"last-delivered-id"]),
                )
        raise PipelineError(
            f"stream {self.stream} has no group {self.name}: create it with XGROUP CREATE (option group)"
        )

    def stream_state(self) -> StreamState:
        """Returns the state of the stream."""
        return StreamState.from_reply(self._ask("XINFO", "STREAM", self._key))

    def take(self, takes: Sequence[tuple[str, int]], min_idle_ms: int | None) -> None:
        """Has the server deliver entries to consumers, each up to its count, without sending the entries here.

        Replies are suppressed, errors included. So the command is sent first for a group that does not exist: any
        other reply than NOGROUP is raised as an error.
        """
        self._connection.require_silence()
        claim = () if min_idle_ms is None else ("CLAIM", min_idle_ms)
        missing = PROBE_PREFIX + os.urandom(8).hex()
        requests: list[tuple[Argument, ...]] = []
        requests.append(("XREADGROUP", "GROUP", missing, "probe", *claim, "STREAMS", self._key, ">"))
        for consumer, count in takes:
            requests.append(("CLIENT", "REPLY", "SKIP"))
            requests.append(
                ("XREADGROUP", "GROUP", self.name, consumer, "COUNT", count, *claim, "STREAMS", self._key, ">")
            )
        requests.append(("ECHO", ""))

        def ask() -> str:
            self._connection.send_all(requests)
            return str(self._connection.receive(2)[0])

        reply = self._connection.retry(ask)
        if reply.startswith("ERR ") and claim:
            raise OptionError(
                "option minIdle: this server cannot claim while reading (Headrace and Redis 8.4 can): set minIdle=off"
            )
        if not reply.startswith("NOGROUP"):
            raise self._connection.refused(self._doing, reply)

    def held(self, consumer: str) -> Iterator[Held]:
        """Yields the pending entries of a consumer, in pages."""
        first = b"-"
        while True:
            rows = self._ask("XPENDING", self._key, self.name, first, "+", self.page_size, consumer)
            if rows:
                yield Held([row[0] for row in rows], [row[2] for row in rows], [row[3] for row in rows])
            if len(rows) < self.page_size:
                return
            first = b"(" + rows[-1][0]

    def held_count(self, prefix: str) -> int:
        """Returns how many entries are pending at the consumers whose names begin with `prefix`."""
        return sum(row[b"pending"] for name, row in self.consumers().items() if name.startswith(prefix))

    def make_consumer(self, name: str) -> bool:
        """Creates a consumer; False if it exists already."""
        return bool(self._ask("XGROUP", "CREATECONSUMER", self._key, self.name, name))

    def fatal(self, consumer: str) -> list[bytes]:
        """Returns the IDs of the consumer's pending entries that were released as FATAL."""
        return [
            one
            for held in self.held(consumer)
            for one, count in zip(held.ids, held.counts, strict=True)
            if count == FATAL
        ]

    def entries(self, ids: Sequence[bytes]) -> Page:
        """Returns the entries with these IDs, which ascend.

        It reads them as ranges, because reading them as a consumer would count as a delivery.
        """
        wanted = set(ids)
        pages = []
        first, last = ids[0], ids[-1]
        while True:
            request = ("XRANGE", self._key, first, last, "COUNT", self.page_size)
            page = parse_page(self._connection.fetch(pack(request)))
            pages.append(page.select(wanted))
            if len(page) < self.page_size:
                return join_pages(pages)
            # Continue at the next wanted ID instead of reading the entries before it.
            reached = parse_id(page.last_id)
            first = next((one for one in ids if parse_id(one) > reached), b"")
            if not first:
                return join_pages(pages)

    def acknowledge(self, ids: Sequence[bytes], *, delete: bool, owner: str | None = None) -> None:
        """Acknowledges entries (XACK), or acknowledges and deletes them (XACKDEL).

        With an owner, entries that it has lost meanwhile are not acknowledged, if the server can distinguish them.
        """
        if delete:
            self._ask("XACKDEL", self._key, self.name, "IDS", len(ids), *ids)
        elif owner is None or not self._acknowledge_owned(ids, owner):
            self._ask("XACK", self._key, self.name, *ids)

    def _acknowledge_owned(self, ids: Sequence[bytes], owner: str) -> bool:
        """Acknowledges what a consumer owns (XACKIF). False if the server lacks it, or the user may not use it."""
        if self._settings is None:
            return False
        reply = self._connection.call_all([("XACKIF", self._key, self.name, owner, "IDS", len(ids), *ids)])[0]
        if isinstance(reply, ReplyError) and reply.code != "NOPERM":
            raise self._connection.refused(self._doing, str(reply))
        return not isinstance(reply, ReplyError)

    def release(self, ids: Sequence[bytes]) -> None:
        """Releases entries (XNACK FAIL): they are claimable at once, and keep their delivery counts.

        Where the server moves dead letters of the group, entries that have reached its limit become dead letters.
        """
        self._ask("XNACK", self._key, self.name, "FAIL", "IDS", len(ids), *ids)

    def renew(self, consumer: str, ids: Sequence[bytes], count: int | None = None) -> None:
        """Resets the idle time of a consumer's entries to zero, and sets their delivery count if one is given."""
        words: tuple[Argument, ...] = () if count is None else ("RETRYCOUNT", count)
        self._ask("XCLAIM", self._key, self.name, consumer, 0, *ids, *words, "JUSTID")

    def renew_owned(self, consumer: str, ids: Sequence[bytes]) -> None:
        """Resets the idle time of the entries that a consumer still owns. On Redis it claims those that it has lost."""
        if_owned = () if self._settings is None else ("IFOWNED",)
        self._ask("XCLAIM", self._key, self.name, consumer, 0, *ids, "JUSTID", *if_owned)

    def bury(self, ids: Sequence[bytes], counts: Sequence[int], target: str | None) -> None:
        """Copies entries to another stream, with fields for their origin, and acknowledges them.

        Repeating it adds no second copy. Without a target it only acknowledges the entries.
        """
        if target is None:
            self.acknowledge(ids, delete=False)
            return
        self.prepare_target(target)
        for start in range(0, len(ids), BURIED_AT_ONCE):
            part = slice(start, start + BURIED_AT_ONCE)
            self._copy(ids[part], counts[part], target)
            self.acknowledge(ids[part], delete=False)

    def prepare_target(self, target: str) -> None:
        """Makes the dead-letter stream remember copies, so that a repeated copy is recognised."""
        if target in self._prepared:
            return
        try:
            prepare_stream(self._connection, key_bytes(target), WriteOptions())
        except Unsupported:
            raise Unsupported(
                f"dead letters for stream {target}: this server cannot recognise copies (XADD IDMP is in Headrace and "
                "in Redis 8.6): keep dead letters as files, with the job deadletter and only --path"
            ) from None
        except PipelineError as error:
            if type(error) is not PipelineError:  # ServerGone and Refused have their own messages
                raise
            raise PipelineError(
                f"dead letters for stream {target}: it cannot be made to recognise copies while other producers "
                "write to it (XCFGSET): use another stream"
            ) from None
        self._prepared.add(target)

    def _copy(self, ids: Sequence[bytes], counts: Sequence[int], target: str) -> None:
        copies: list[tuple[Argument, ...]] = []
        deliveries = dict(zip(ids, counts, strict=True))
        page = self.entries(ids)
        for entry_id, pairs in zip(page.ids.to_pylist(), page.pairs(), strict=True):
            origin = ("_dlq_stream", self._key, "_dlq_id", entry_id, "_dlq_deliveries", deliveries[entry_id])
            producer = f"dlq:{self.stream}:{self.name}"
            copies.append(("XADD", target, "IDMP", producer, entry_id, "*", *pairs, *origin))
        for reply in self._connection.call_all(copies):
            if isinstance(reply, ReplyError):
                raise self._connection.refused(f"option deadLetterStream {target}", str(reply))

    def drop(self, consumer: str) -> None:
        """Deletes a consumer unless it has pending entries, which would be deleted with it."""
        if not any(True for _ in self.held(consumer)):
            self._ask("XGROUP", "DELCONSUMER", self._key, self.name, consumer)


def groups_of(connection: Connection, options: QueueOptions) -> list[Group]:
    """Returns the group of each of the streams."""
    return [Group(connection, stream, options.group, options.page_size) for stream in options.stream]
