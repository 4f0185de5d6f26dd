"""The arguments of XREAD and XREADGROUP, and the limits that these set on a reply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ...protocol.replies import PairList
from ...store.errors import GenericError, syntax_error
from ...store.ids import StreamID
from ...store.spans import Piece
from ..core.numbers import integer, integer_or, timeout
from ..core.table import Argument

if TYPE_CHECKING:
    from ..execution.context import Context

# Hits counted for a key with entries to read: Redis looks the key up once for its group or last ID, once to read.
HITS_OF_A_READ: Final = 2


class ReadRequest:
    """The arguments of XREAD and XREADGROUP. A count of -1 means no limit; times are in ms.

    It is not frozen: the parser sets one option after the other, and a frozen copy would cost 1 us, a fifth of
    XREADGROUP. Only the parser changes it.
    """

    __slots__ = (
        "block_ms", "claim_idle_ms", "consumer", "count", "count_max", "group", "id_tokens", "ids_index", "keys",
        "name", "no_ack", "size_max",
    )  # fmt: skip

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.group: bytes | None = None
        self.consumer = b""
        self.count = -1
        self.block_ms: int | None = None
        self.count_max: int | None = None
        self.size_max: int | None = None
        self.claim_idle_ms: int | None = None
        self.no_ack = False
        self.keys: list[bytes] = []
        self.id_tokens: list[bytes] = []
        # Index of the first ID in `argv`.
        self.ids_index = 0


def parse_read(argv: list[bytes], *, is_group: bool, now_ms: int) -> ReadRequest:
    """Parses all options, and the keys and IDs after STREAMS. IDs stay unparsed. Raises GenericError."""
    request = ReadRequest(b"xreadgroup" if is_group else b"xread")
    argc = len(argv)
    index = 1
    while index < argc:
        word = argv[index].upper()
        more = argc - 1 - index
        if word == b"STREAMS" and more:
            _split_streams(argv, index + 1, request, is_group=is_group)
            break
        if word in (b"GROUP", b"NOACK", b"CLAIM") and (word == b"NOACK" or more >= (2 if word == b"GROUP" else 1)):
            if not is_group:
                raise GenericError(b"The %b option is only supported by XREADGROUP. You called XREAD instead." % word)
            index += _read_group_option(argv, index, word, request)
        elif word in _NUMBER_OPTIONS and more:
            _read_number(word, argv[index + 1], request, now_ms)
            index += 2
        else:
            raise syntax_error()
    if not request.keys:
        raise syntax_error()
    if is_group and request.group is None:
        raise GenericError(b"Missing GROUP option for XREADGROUP")
    if request.count_max is not None and request.count > 0 and request.count_max < request.count:
        raise GenericError(b"MAXCOUNT must be greater than or equal to COUNT")
    return request


_NUMBER_OPTIONS: Final = (b"COUNT", b"BLOCK", b"MAXCOUNT", b"MAXSIZE")


def _split_streams(argv: list[bytes], first: int, request: ReadRequest, *, is_group: bool) -> None:
    count = len(argv) - first
    if count % 2:
        ids = b"an ID or '>'" if is_group else b"an ID, '+', or '$'"
        raise GenericError(
            b"Unbalanced '%b' list of streams: for each stream key %b must be specified." % (request.name, ids)
        )
    request.ids_index = first + count // 2
    request.keys = argv[first : request.ids_index]
    request.id_tokens = argv[request.ids_index :]


def _read_group_option(argv: list[bytes], index: int, word: bytes, request: ReadRequest) -> int:
    if word == b"GROUP":
        request.group, request.consumer = argv[index + 1], argv[index + 2]
        return 3
    if word == b"NOACK":
        request.no_ack = True
        return 1
    message = b"min-idle-time is not an integer or out of range"
    request.claim_idle_ms = integer_or(argv[index + 1], message)
    if request.claim_idle_ms < 0:
        raise GenericError(b"min-idle-time must be a positive integer")
    return 2


def _read_number(word: bytes, token: bytes, request: ReadRequest, now_ms: int) -> None:
    if word == b"BLOCK":
        request.block_ms = timeout(token, now_ms)
        return
    number = integer(token)
    if word == b"COUNT":
        request.count = number if number > 0 else -1
        return
    if number <= 0:
        raise GenericError(word + b" must be a positive integer")
    if word == b"MAXCOUNT":
        request.count_max = number
    else:
        request.size_max = number


class ReplyBudget:
    """The entries that a read may still send: COUNT for each stream, MAXCOUNT and MAXSIZE for all streams together.

    MAXSIZE counts the reply bytes so far, without the headers of arrays that are not complete, and with the messages
    that the read itself sends to its client (keyspace events, if the client is subscribed). It never excludes the first
    entry. In RESP2 it also counts four bytes for each stream, the `*2` of the pair of key and entries.
    """

    __slots__ = (
        "_context", "_count_left", "_per_stream", "_size", "_size_max", "_stream_header_size", "sent", "streams",
    )  # fmt: skip

    def __init__(self, request: ReadRequest, context: Context) -> None:
        self._context = context
        self._per_stream = request.count
        self._count_left = request.count_max
        self._size_max = request.size_max
        self._size = 0 if request.size_max is None else -self._kept_size()
        self._stream_header_size = 4 if context.client.protocol == 2 else 0
        self.sent = 0
        self.streams = PairList()

    def may_visit(self) -> bool:
        """Whether the limits allow entries of another stream."""
        return not self._is_spent() and (self._count_left is None or self._count_left > 0)

    def stream_count(self) -> int:
        """Returns how many entries the next stream may contribute; -1 for all."""
        if self._count_left is None:
            return self._per_stream
        return self._count_left if self._per_stream < 0 else min(self._per_stream, self._count_left)

    def open_stream(self, key: bytes) -> None:
        """Counts the header of a stream that the reply contains."""
        self._size += self._stream_header_size + len(b"$%d\r\n%b\r\n" % (len(key), key))

    def admit(self, entries: Iterator[tuple[StreamID, bytes]]) -> Iterator[tuple[StreamID, bytes]]:
        """Yields entries until MAXSIZE is reached."""
        for entry_id, entry in entries:
            if self._is_spent():
                return
            self._size += len(entry)
            self.sent += 1
            yield entry_id, entry

    def close_stream(self, key: bytes, count: int, pieces: Sequence[Piece]) -> None:
        """Adds a stream with all its entries to the reply."""
        header = b"*%d\r\n" % count
        self._size += len(header)
        if self._count_left is not None:
            self._count_left -= count
        self.streams.append((key, (header, *pieces)))

    @property
    def is_limited_by_size(self) -> bool:
        """Whether the read has MAXSIZE, so that the size of each entry must be counted."""
        return self._size_max is not None

    def _kept_size(self) -> int:
        return self._context.server.courier.kept_size(self._context.client)

    def _is_spent(self) -> bool:
        return self._size_max is not None and self.sent > 0 and self._size + self._kept_size() >= self._size_max


STREAMS_ARGUMENT = Argument(
    "streams",
    "block",
    token="STREAMS",
    arguments=(Argument("key", "key", key_spec_index=0, multiple=True), Argument("id", "string", multiple=True)),
)
BLOCK_ARGUMENT = Argument("milliseconds", "integer", token="BLOCK", optional=True)
LIMIT_ARGUMENTS = (
    Argument("maxcount", "integer", token="MAXCOUNT", optional=True, since="8.10.0"),
    Argument("maxsize", "integer", token="MAXSIZE", optional=True, since="8.10.0"),
)
LIMITS_ADDED = ("8.10.0", "Added the `MAXCOUNT` and `MAXSIZE` options.")
