"""Requests out of bytes: one table of rows, fed in every way the network may cut them.

Goal: what a read is cut into never changes what is read. Method: each row is fed whole, byte by byte, in two pieces at
every split and after a PING; ceilings are checked by what they cost.
"""

from __future__ import annotations

import tracemalloc

import pytest

from headrace.protocol import reader as reader_module
from headrace.protocol.packing import pack_command
from headrace.protocol.reader import INLINE_SIZE_MAX, Request, RequestReader, split_words

PING = b"*1\r\n$4\r\nPING\r\n"

ROWS: list[tuple[bytes, list[Request], bytes | None]] = [
    # Arrays.
    (PING, [[b"PING"]], None),
    (b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", [[b"ECHO", b""]], None),
    (b"*1\r\n$0\r\n\r\n", [[b""]], None),
    (b"*1\r\n$4\r\nPINGxx", [[b"PING"]], None),
    (b"*1\r\n$4\r\nPINGxx" + PING, [[b"PING"], [b"PING"]], None),
    (b"*1x\n" + PING, [], b"invalid multibulk length"),
    (b"*1\rx$4\rxPING\r\n", [[b"PING"]], None),
    (b"*1\n$4\nPING\n", [], None),
    (b"*2\r\n$1\r\na\r\n$4\r\n\r\n\r\n\r\n", [[b"a", b"\r\n\r\n"]], None),
    (b"*3\r\n$1\r\n*\r\n$1\r\n>\r\n$1\r\n$\r\n", [[b"*", b">", b"$"]], None),
    (b"*2\r\n$3\r\n*10\r\n$4\r\n=5\r\n\r\n", [[b"*10", b"=5\r\n"]], None),
    (b"*0\r\n*-1\r\n*-5\r\n" + PING, [[b"PING"]], None),
    (b"*-0\r\n", [], b"invalid multibulk length"),
    (b"*01\r\n", [], b"invalid multibulk length"),
    (b"*+1\r\n", [], b"invalid multibulk length"),
    (b"* 1\r\n", [], b"invalid multibulk length"),
    (b"*\r\n", [], b"invalid multibulk length"),
    (b"*a\r\n", [], b"invalid multibulk length"),
    (b"*2147483648\r\n", [], b"invalid multibulk length"),
    (b"*99999999999999999999999\r\n", [], b"invalid multibulk length"),
    (b"*2147483647\r\n", [], None),
    (b"*1\r\n$-1\r\n", [], b"invalid bulk length"),
    (b"*1\r\n$\r\n", [], b"invalid bulk length"),
    (b"*1\r\n$04\r\nPING\r\n", [], b"invalid bulk length"),
    (b"*1\r\n$4x\r\nPING\r\n", [], b"invalid bulk length"),
    (b"*1\r\n$536870913\r\n", [], b"invalid bulk length"),
    (b"*1\r\n$536870912\r\n", [], None),
    (b"*1\r\n:1\r\n", [], b"expected '$', got ':'"),
    (b"*1\r\n+x\r\n", [], b"expected '$', got '+'"),
    (b"*1\r\n*1\r\n$1\r\na\r\n", [], b"expected '$', got '*'"),
    (b"*1\r\n\r\n", [], b"expected '$', got '\r'"),
    (b"*1\r\n\xff\r\n", [], b"expected '$', got '\xff'"),
    (PING + b"*1\r\n_\r\n" + PING, [[b"PING"]], b"expected '$', got '_'"),
    # Inline requests, and both kinds mixed.
    (b"PING\r\n", [[b"PING"]], None),
    (b"PING\n", [[b"PING"]], None),
    (b"\r\n\n  \r\nPING\r\n", [[b"PING"]], None),
    (b"ping\r\n" + PING + b"echo a\n", [[b"ping"], [b"PING"], [b"echo", b"a"]], None),
    (b"echo \"a b\" 'c d'\r\n", [[b"echo", b"a b", b"c d"]], None),
    (b'echo "a"b\r\n', [], b"unbalanced quotes in request"),
    (b'PING\r\necho "a\r\n', [[b"PING"]], b"unbalanced quotes in request"),
    (b"+OK\r\n:1\r\n", [[b"+OK"], [b":1"]], None),
]


def read(pieces: list[bytes], reader: RequestReader | None = None) -> tuple[list[Request], bytes | None]:
    reader = reader or RequestReader()
    requests = [request for piece in pieces for request in reader.feed(piece)]
    return requests, reader.error.text if reader.error else None


@pytest.mark.parametrize(("data", "requests", "error"), ROWS)
def test_rows_read_alike_however_they_are_cut(data: bytes, requests: list[Request], error: bytes | None) -> None:
    expected = (requests, error)
    assert read([data]) == expected
    assert read([data[at : at + 1] for at in range(len(data))]) == expected
    for split in range(1, len(data)):
        assert read([data[:split], data[split:]]) == expected, split
    assert read([PING + data]) == ([[b"PING"], *requests], error)
    assert read([PING, PING[:9], PING[9:] + data]) == ([[b"PING"], [b"PING"], *requests], error)


@pytest.mark.parametrize(("data", "requests", "error"), ROWS)
def test_after_a_fault_nothing_is_read(data: bytes, requests: list[Request], error: bytes | None) -> None:
    reader = RequestReader()
    reader.feed(data)
    if error is not None:
        assert reader.feed(PING) == []
        assert reader.error is not None
        assert reader.error.wire_text.startswith(b"ERR Protocol error: ")
        assert b"\r" not in reader.error.wire_text


def test_a_bad_bulk_header_in_a_later_read_is_reported() -> None:
    # Redis 8.10.2 leaves such a connection hanging.
    assert read([b"*2\r\n$4\r\nECHO\r\n", b"$x\r\n"]) == ([], b"invalid bulk length")
    assert read([b"*1\r\n$", b"1" * (INLINE_SIZE_MAX + 1)]) == ([], b"too big bulk count string")


@pytest.mark.parametrize(
    ("start", "error"),
    [
        (b"", b"too big inline request"),
        (b"*", b"too big mbulk count string"),
        (b"*1\r\n$", b"too big bulk count string"),
    ],
)
def test_a_line_is_refused_past_the_ceiling_whether_its_end_has_come_or_not(start: bytes, error: bytes) -> None:
    line_start = start[start.rfind(b"\n") + 1 :]
    longest = start + b"1" * (INLINE_SIZE_MAX - len(line_start))
    assert read([longest]) == ([], None)
    assert read([longest + b"1"]) == ([], error)
    assert read([longest, b"1"]) == ([], error)
    assert read([longest + b"1\r\n"]) == read([longest + b"1", b"\r\n"]) == ([], error)


@pytest.mark.parametrize("word", [b"POST", b"post", b"Host:", b"HOST:"])
@pytest.mark.parametrize("fast", [True, False])
def test_a_browser_is_dropped_without_a_reply(word: bytes, fast: bool) -> None:
    for request in (word + b" / HTTP/1.1\r\n", pack_command((word, b"/"))):
        reader = RequestReader()
        reader.authenticated = fast
        assert reader.feed(PING + request + PING) == [[b"PING"]]
        assert reader.dropped
        assert reader.error is None
        assert reader.feed(PING) == []


def test_post_and_host_are_ordinary_words_after_the_first() -> None:
    assert read([pack_command((b"ECHO", b"POST")) + b"ECHO Host:\r\n"])[0] == [[b"ECHO", b"POST"], [b"ECHO", b"Host:"]]


# -- ceilings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"*2147483647\r\n",
        b"*2147483647\r\n$3\r\nSET\r\n",
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10000000000\r\nabc",
        PING + b"*2147483647\r\n$1\r\na\r\n",
        b"*1\r\n*2147483647\r\n",
        b"*1\r\n~2147483647\r\n",
        b"*2\r\n$1\r\naXX~2147483647\r\n",
        b"*1\r\n$1\r\naXX%2147483647\r\n",
        b"*1\r\n$1\r\naXX|2147483647\r\n",
        b"*1\r\n$1\r\naXX>2147483647\r\n",
    ],
)
def test_announcing_much_costs_nothing(data: bytes) -> None:
    reader = RequestReader(bulk_size_max=10**11)
    tracemalloc.start()
    try:
        reader.feed(data)
        peak_size = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_size < 64 * 1024


def test_bulk_size_max_holds_from_the_next_header_on() -> None:
    reader = RequestReader(bulk_size_max=4)
    assert reader.feed(PING) == [[b"PING"]]
    reader.bulk_size_max = 3
    assert read([PING], reader) == ([], b"invalid bulk length")


def test_a_query_buffer_past_its_limit_drops_the_client() -> None:
    reader = RequestReader(query_buffer_size_max=1000)
    head = b"*1\r\n$2000\r\n"
    reader.feed(head + b"x" * 1000)
    assert not reader.dropped
    assert (reader.unparsed_size, reader.buffered_size) == (1000, 1000 + len(head))
    reader.feed(b"x")
    assert reader.dropped


def test_complete_arguments_do_not_count_against_the_query_buffer_limit() -> None:
    reader = RequestReader(query_buffer_size_max=1000)
    argument = b"$998\r\n" + b"x" * 998 + b"\r\n"
    assert reader.feed(b"*5\r\n" + argument * 4) == []
    assert (reader.unparsed_size, reader.buffered_size) == (0, 4 + 4 * len(argument))
    assert reader.feed(argument) == [[b"x" * 998] * 5]
    assert not reader.dropped


@pytest.mark.parametrize("step", [1, 500, 5000])
def test_an_argument_that_fills_the_query_buffer_with_its_end_drops_the_client(step: int) -> None:
    reader = RequestReader(query_buffer_size_max=1000)
    data = PING + b"*2\r\n$4\r\nECHO\r\n$999\r\n" + b"x" * 999 + b"\r\n" + PING
    # A fast parser takes whole requests, which are shorter than any limit of a server.
    reader._split = lambda data, size_max: ([], 0)
    requests = [request for start in range(0, len(data), step) for request in reader.feed(data[start : start + step])]
    assert requests == [[b"PING"]]
    assert reader.dropped


def test_whole_request_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    # Empty arguments occupy memory as well: payload alone would never reach the limit.
    monkeypatch.setattr(reader_module, "REQUEST_SIZE_MAX", 6000)
    reader = RequestReader(query_buffer_size_max=1000)
    reader.feed(b"*1000000\r\n")
    sizes = []
    while not reader.dropped:
        reader.feed(b"$0\r\n\r\n" * 100)
        sizes.append(reader.buffered_size)
    assert sizes[0] == 10 + 600
    assert len(sizes) == 10


def test_complete_requests_are_not_buffered() -> None:
    reader = RequestReader(query_buffer_size_max=100)
    assert len(reader.feed(PING * 1000)) == 1000
    assert reader.buffered_size == 0
    assert len(reader.feed(PING * 1000 + PING[:5])) == 1000
    assert reader.buffered_size == 5
    assert len(reader.feed(PING[5:] + PING * 1000 + b"*2\r\n$1\r\na\r\n")) == 1001
    assert reader.buffered_size == 11
    assert not reader.dropped


def test_strangers_may_send_little() -> None:
    def stranger(data: bytes) -> tuple[list[Request], bytes | None, bool]:
        reader = RequestReader()
        reader.authenticated = False
        requests, error = read([data], reader)
        return requests, error, reader.dropped

    assert len(stranger(pack_command((b"a",) * 10))[0]) == 1
    assert stranger(pack_command((b"a",) * 11)) == ([], b"unauthenticated multibulk length", False)
    assert len(stranger(pack_command((b"x" * 16384,)))[0]) == 1
    assert stranger(PING + pack_command((b"x" * 16385,))) == ([[b"PING"]], b"unauthenticated bulk length", False)
    # Ten arguments of the largest size fit into the buffer many times over; a line or header stops far earlier.
    assert len(stranger(pack_command((b"x" * 16384,) * 10) * 100)[0]) == 100


def test_the_buffer_of_a_stranger_is_smaller_than_the_limit_for_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    # No request within the other limits fills it, so the ceiling itself is lowered.
    monkeypatch.setattr("headrace.protocol.reader.UNAUTHENTICATED_BUFFER_SIZE_MAX", 1000)
    for is_known in (True, False):
        reader = RequestReader()
        reader.authenticated = is_known
        reader.feed(b"*1\r\n$2000\r\n" + b"x" * 1001)
        assert reader.dropped is not is_known


@pytest.mark.parametrize("refused", [(b"a",) * 11, (b"ECHO", b"x" * 16385)])
@pytest.mark.parametrize("begun_size", [0, 9, 14])
def test_what_a_stranger_was_refused_is_read_on_after_authenticating(
    refused: tuple[bytes, ...], begun_size: int
) -> None:
    login = pack_command((b"AUTH", b"secret"))
    rest = pack_command(refused) + PING
    reader = RequestReader()
    reader.authenticated = False
    assert reader.feed(login[:begun_size]) == []
    assert reader.feed(login[begun_size:] + rest) == [[b"AUTH", b"secret"]]
    assert reader.error is not None
    assert reader.authenticate() == [list(refused), [b"PING"]]
    assert reader.error is None
    assert reader.buffered_size == 0


def test_authenticating_forgives_no_other_fault() -> None:
    reader = RequestReader()
    reader.authenticated = False
    reader.feed(b"*x\r\n")
    assert reader.authenticate() == []
    assert reader.error is not None


# -- linear reading ------------------------------------------------------------------------------


def test_no_byte_of_a_long_request_is_walked_twice() -> None:
    # Goal: reading one request in n reads takes n steps. Method: add up the bytes that are searched for line ends.
    class Buffer(bytearray):
        walked_size = 0

        def find(self, mark: bytes, start: int) -> int:  # type: ignore[override]
            end = super().find(mark, start)
            self.walked_size += (len(self) if end < 0 else end + 1) - start
            return end

    reader = RequestReader()
    buffer = reader._buffer = Buffer()
    data = pack_command((b"ab",) * 3000)
    assert read([data[at : at + 1] for at in range(len(data))], reader) == ([[b"ab"] * 3000], None)
    assert reader._buffer is buffer
    headers_size = len(data) - 3000 * len(b"ab\r\n")
    assert 0 < buffer.walked_size <= headers_size


def test_a_large_value_in_many_reads_is_whole_and_kept_once() -> None:
    value = bytes(range(256)) * 32768  # 8 MiB
    data = pack_command((b"SET", b"k", value)) + PING
    pieces = [data[at : at + 65536] for at in range(0, len(data), 65536)]
    reader = RequestReader()
    tracemalloc.start()
    try:
        requests, error = read(pieces, reader)
        peak_size = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (requests, error) == ([[b"SET", b"k", value], [b"PING"]], None)
    assert peak_size < 3 * len(value)
    assert reader.buffered_size == 0


# -- inline words --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", []),
        (b" \t\v\f ", []),
        (b"a  b\tc", [b"a", b"b", b"c"]),
        (b"a\vb\fc", [b"a\vb\fc"]),
        (b"\va", [b"a"]),
        (rb'"\n\r\t\b\a\\\"\q"', [b'\n\r\t\b\a\\"q']),
        (rb'"\x41\x0a\xZZ\x4"', [b"A\nxZZx4"]),
        (b'""', [b""]),
        (b"''", [b""]),
        (rb"'it\'s \n \\n'", [rb"it's \n \\n"]),
        (b'ab"c d"', [b"abc d"]),
        (b"ab'c d'", [b"abc d"]),
        (b"'a\"b' \"c'd\"", [b'a"b', b"c'd"]),
        (b'"a"\v"b"', [b"a", b"b"]),
        (b"a\\ b", [b"a\\", b"b"]),
        (b'"a', None),
        (b"'a", None),
        (b'"a\\', None),
        (b'"a\\"', None),
        (rb"'a\\' b", None),
        (b'"a"b', None),
        (b"'a''b'", None),
        (b'a"', None),
        (b"\xff\x80", [b"\xff\x80"]),
    ],
)
def test_inline_words_are_split_like_a_shell_does(line: bytes, words: list[bytes] | None) -> None:
    assert split_words(line) == words


def test_a_long_line_of_quotes_is_split_in_linear_time() -> None:
    # Backtracking over these would not end.
    assert split_words(b'"' + b"\\" * 60001) is None
    assert split_words(b"'" + b"\\'" * 30000) is None
    assert split_words(b'"" ' * 20000) == [b""] * 20000
