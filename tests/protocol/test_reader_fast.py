"""The fast parser and the careful parser agree.

Goal: what is read never depends on the way taken. Method: the same bytes, ordinary, random and made to deceive the
counting, go to a reader with its fast way, compiled and not, and to one without; ordinary traffic must also really take
the fast way.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from itertools import product

import pytest

from headrace.protocol import frames_plain, packing
from headrace.protocol.packing import pack_command
from headrace.protocol.reader import RequestReader
from headrace.protocol.requests import SLICE_SIZE, Request, Split

SEEDS = (20261, 20262, 20263, 20264)

# Of the twin, and of the compiled module if there is one.
SPLITTERS: list[Callable[[], Split]] = list({frames_plain.splitter, packing.splitter})

Outcome = tuple[list[Request], bytes | None, bool, int]


def never(data: bytes, bulk_size_max: int) -> tuple[list[Request], int]:
    return [], 0


def outcome(data: bytes, way: Split, split: int = 0) -> Outcome:
    reader = RequestReader()
    reader._split = way
    requests = reader.feed(data[:split]) if split else []
    requests += reader.feed(data[split:])
    # Bytes that remain in hiredis would show in the next read.
    requests += reader.feed(b"*1\r\n$4\r\nPING\r\n")
    is_over = reader.error is not None or reader.dropped  # then what else had come counts for nothing
    return (
        requests,
        reader.error.text if reader.error else None,
        reader.dropped,
        -1 if is_over else reader.buffered_size,
    )


def assert_same(data: bytes, split: int = 0) -> None:
    expected = outcome(data, never)
    for splitter in SPLITTERS:
        assert outcome(data, splitter(), split) == expected, (splitter, data, split)


class Counted:
    """A way that counts the requests it finds. Those of a reader that it did not find were read carefully."""

    def __init__(self, way: Split) -> None:
        self.way = way
        self.requests_count = 0

    def __call__(self, data: bytes, bulk_size_max: int) -> tuple[list[Request], int]:
        requests, taken_size = self.way(data, bulk_size_max)
        self.requests_count += len(requests)
        return requests, taken_size


def takes_fast_way(data: bytes, way: Split) -> bool:
    reader = RequestReader()
    counted = reader._split = Counted(way)
    requests = reader.feed(data)
    return bool(requests) and len(requests) == counted.requests_count


@pytest.mark.parametrize(
    "arguments",
    [
        (b"PING",),
        (b"XADD", b"s", b"*", b"field", b"value"),
        (b"XADD", b"s", b"MAXLEN", b"~", b"1000", b"*", b"f", b"v"),
        (b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"10", b"STREAMS", b"s", b">"),
        (b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"),
        (b"XREAD", b"STREAMS", b"s", b"+"),
        (b"XRANGE", b"s", b"-", b"+"),
        (b"XRANGE", b"s", b"(1-0", b"+"),
        (b"XPENDING", b"s", b"g", b"IDLE", b"5", b"-", b"+", b"10"),
        (b"SET", b"k", b""),
        (b"SET", b"k", b"a=5"),
        (b"SET", b"k", b"%7C|x~>=#f"),
        (b"SET", b"k", b"text\r\nof two lines\r\n"),
        (b"SET", b"k\r", b"\n"),
        (b"SET", b"k", b"#f"),
        (b"XACK", b"s", b"g", *(b"%d-0" % number for number in range(2000))),
    ],
)
@pytest.mark.parametrize("count", [1, 2, 16, 500])
def test_ordinary_traffic_takes_the_fast_way(arguments: tuple[bytes, ...], count: int) -> None:
    data = pack_command(arguments) * count
    for splitter in SPLITTERS:
        assert takes_fast_way(data, splitter())
    reader = RequestReader()
    assert reader.feed(data) == [list(arguments)] * count
    assert reader.buffered_size == 0


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_a_long_pipeline_cut_anywhere_keeps_to_the_fast_way_but_for_the_cut_request(
    splitter: Callable[[], Split],
) -> None:
    request = (b"XADD", b"s", b"*", b"field", b"value")
    data = pack_command(request) * 1000
    reader = RequestReader()
    requests: list[Request] = []
    for start in range(0, len(data), 7001):
        counted = reader._split = Counted(splitter())
        read = reader.feed(data[start : start + 7001])
        # At a cut: the one request that began in the read before.
        assert 0 <= len(read) - counted.requests_count <= 1
        requests += read
    assert requests == [list(request)] * 1000


DECEPTIONS = [
    # A missing line end (`XX`) made up for by a value that hiredis knows and a request may not hold.
    b"*1\r\n$1\r\naXX#f\r\n",
    b"*1\r\n$1\r\naXX#t\r\n",
    b"*1\r\n$1\r\naXX*1\r\n",
    b"*1\r\n$1\r\naXX*2\r\n",
    b"*1\r\n$1\r\naXX_\r\n",
    b"*1\r\n$1\r\naXX:7\r\n",
    b"*1\r\n$1\r\na\r\n:7\r\n",
    b"*1\r\n$1\r\na\r\n,7\r\n",
    b"*1\r\n$1\r\naXX+\r\n",
    b"*1\r\n$1\r\naXX*0\r\n",
    b"*1\r\n$1\r\naXX-ERR\r\n",
    # A verbatim string costs as much as a bulk string, or more if its type tag holds a line end.
    b"*1\r\n=5\r\ntxt:a\r\n",
    b"*2\r\n$2\r\na\r\nX=5\r\ntxt:a\r\n",
    b"*2\r\n$1\r\naXX=7\r\n\r\nX:abc\r\n",
    b"*2\r\n$1\r\naXX=7\r\nX\r\n:abc\r\n",
    b"*3\r\n+x\r\n=7\r\n\r\nX:abc\r\n$1\r\na\r\n",
    b"*2\r\n$1\r\naXX=5\r\ntxt:a\r\n#f\r\n",
    # Containers that hiredis gives as lists, or as dictionaries.
    b"*1\r\n$1\r\na\r\n~1\r\n$1\r\na\r\n",
    b"*1\r\n$1\r\na\r\n|1\r\n$1\r\na\r\n$1\r\nb\r\n",
    b"*1\r\n$1\r\na\r\n>1\r\n$1\r\na\r\n",
    b"*1\r\n$1\r\naXX%1\r\n$1\r\nb\r\n$1\r\nc\r\n",
    b"*1\r\n$1\r\naXX%1\r\n:0\r\n$1\r\nc\r\n",
    b"*1\r\n~1\r\n$1\r\na\r\n",
    b"*1\r\n~0\r\n",
    # Elements that are bytes but not bulk strings, with line ends from elsewhere.
    b"*2\r\n+a\r\n$2\r\n\r\n\r\n",
    b"*2\r\n$2\r\nb\r\n\r+a\r\n",
    b"*2\r\n(12\r\n$2\r\n\r\n\r\n",
    b"*1\r\n+a\r\n\r\n",
    b"*2\r\n$1\r\n\r\n\r$1\r\na\r\n",
    b"*2\r\n$1\r\n\r\nX$1\r\na\r\n",
    b"*2\r\n$1\r\n\n\r\n$1\r\na\r\n",
    b"*1\r\n$1\r\na\r\n\r\n",
    b"*1\r\n$1\r\na\r\n\n",
    # Nulls, nesting, empty requests, odd numbers.
    b"*1\r\n$-1\r\n",
    b"*-1\r\n",
    b"*0\r\n*1\r\n$1\r\na\r\n",
    b"*1\r\n*1\r\n$1\r\na\r\n",
    b"*1\r\n*0\r\n",
    b"*2\r\n$1\r\na\r\n*-1\r\n",
    b"*" * 20 + b"\r\n",
    b"*1\r\n" * 12,
    b"*1\r\n$01\r\na\r\n",
    b"*01\r\n$1\r\na\r\n",
    b"*1\r\n$1\r\r\na\r\n",
    b"*1\r\n$1\ra\r\n",
    b"*99999\r\n$1\r\na\r\n",
    b"*9999\r\n$1\r\na\r\n",
    b"*1\r\n$9\r\na\r\n",
    b"*1\r\n$4\r\nPOST\r\n",
    b"*1\r\n$5\r\nhOsT:\r\n*1\r\n$1\r\na\r\n",
    b"*1\r\n$1\r\na\r\nPING\r\n",
    b"*1\r\n$2\r\n*5\r\n*2\r\n$2\r\n*5\r\n$1",
    b"*2\r\n$4\r\n\r\n*1\r\n$1\r\na\r\n",
]


@pytest.mark.parametrize("data", DECEPTIONS)
def test_what_deceives_the_counting_reads_alike(data: bytes) -> None:
    good = pack_command((b"XADD", b"s", b"*", b"f", b"v"))
    for before, after in product((b"", good, good * 3), (b"", good, good + b"*3\r\n$1\r\na\r\n")):
        whole = before + data + after
        assert_same(whole)
        for split in range(1, len(whole), 5):
            assert_same(whole, split)


@pytest.mark.parametrize("data", DECEPTIONS)
def test_what_deceives_the_counting_reads_alike_in_a_read_of_many_slices(data: bytes) -> None:
    filler = pack_command((b"SET", b"k", b"v" * SLICE_SIZE)) + pack_command((b"GET", b"k")) * 9
    for whole in (filler + data, data + filler, filler + data + filler):
        assert_same(whole)


def test_small_frames_put_together_in_every_way_read_alike() -> None:
    # Exhaustive over short rows of the pieces deceptions are made of.
    heads = (b"*1\r\n", b"*2\r\n")
    pieces = (
        b"$1\r\na\r\n",
        b"$1\r\naXX",
        b"$2\r\na\r\nX",
        b"$1\r\n\r\r\n",
        b"$2\r\n\r\n\r\n",
        b"+a\r\n",
        b"(1\r\n",
        b"=5\r\ntxt:a\r\n",
        b"=7\r\n\r\nX:abc\r\n",
        b"#f\r\n",
        b":7\r\n",
        b"~1\r\n",
        b"|1\r\n",
        b"%1\r\n",
        b"*1\r\n",
        b"*0\r\n",
        b"\r\n",
    )
    for head in heads:
        for length in (1, 2, 3):
            for row in product(pieces, repeat=length):
                assert_same(head + b"".join(row))


def random_value(rng: random.Random) -> bytes:
    kinds: list[Callable[[], bytes]] = [
        lambda: rng.randbytes(rng.randrange(12)),
        lambda: bytes(rng.choice(b"\r\n$*+:=~|%>#12") for _ in range(rng.randrange(8))),
        lambda: b"%d-%d" % (rng.getrandbits(40), rng.randrange(5)),
        lambda: struct.pack("<Q", rng.getrandbits(64)) * rng.randrange(40),
    ]
    return rng.choice(kinds)()


def random_request(rng: random.Random) -> bytes:
    return pack_command(tuple(random_value(rng) for _ in range(rng.randrange(1, 7))))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_and_damaged_pipelines_read_alike(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(1500):
        data = bytearray(b"".join(random_request(rng) for _ in range(rng.randrange(1, 6))))
        for _ in range(rng.choice((0, 0, 1, 2, 4))):
            at = rng.randrange(len(data))
            match rng.randrange(4):
                case 0:
                    data[at] = rng.choice(b"\r\n$*+:=~|%>#_,(019aX")
                case 1:
                    del data[at : at + rng.randrange(1, 4)]
                case 2:
                    data[at:at] = rng.choice(DECEPTIONS)
                case _:
                    data[at:at] = rng.choice((b"\r\n", b"\r", b"\n", b"*1\r\n", b"$1\r\n", b"#f\r\n", b":7\r\n"))
        whole = bytes(data)
        assert_same(whole)
        split = rng.randrange(1, len(whole) + 1) if whole else 0
        assert_same(whole, split)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_requests_are_read_as_they_were_packed_however_they_are_cut(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(150):
        expected = [[random_value(rng) for _ in range(rng.randrange(1, 7))] for _ in range(rng.randrange(1, 60))]
        data = b"".join(pack_command(tuple(request)) for request in expected)
        for splitter in SPLITTERS:
            reader, requests, start = RequestReader(), [], 0
            reader._split = splitter()
            while start < len(data):
                size = rng.choice((1, 7, 64, 700, 5000))
                requests += reader.feed(data[start : start + size])
                start += size
            assert requests == expected
            assert reader.buffered_size == 0


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_a_value_above_bulk_size_max_is_refused_in_a_fast_read_too(splitter: Callable[[], Split]) -> None:
    reader = RequestReader(bulk_size_max=100)
    reader._split = splitter()
    assert reader.feed(pack_command((b"SET", b"k", b"v" * 101))) == []
    assert reader.error is not None
    assert reader.error.text == b"invalid bulk length"


def words_left(data: bytearray, position: int, count: int, size_max: int, words: list[bytes]) -> int:
    """Leaves all to the careful parser."""
    return position


@pytest.mark.parametrize("data", [pack_command((b"A", b"", b"\r\n$1\r\n", b"x" * 300)) * 2, *DECEPTIONS])
def test_a_request_in_pieces_is_read_as_a_whole_one(data: bytes) -> None:
    for limits in product((5, 1024), (7, 1024)):
        found = []
        for way in (words_left, packing.read_words):
            outcomes = []
            for size in (1, 2, 3, 7, 50):
                reader = RequestReader(*limits)
                reader._split = never
                reader._read_words = way
                requests = [each for at in range(0, len(data), size) for each in reader.feed(data[at : at + size])]
                outcomes.append((requests, reader.error and reader.error.text, reader.dropped, reader.buffered_size))
            found.append(outcomes)
        assert found[0] == found[1]


def test_a_large_request_in_pieces_keeps_its_arguments_in_order() -> None:
    words = [b"RPUSH", b"k", *(b"%d" % number for number in range(20_000))]
    data = pack_command(words)
    reader = RequestReader()
    requests = [each for at in range(0, len(data), 5_003) for each in reader.feed(data[at : at + 5_003])]
    assert requests == [words]
    assert reader.buffered_size == 0
