"""Chunks as blocks of bytes: the same entries come out of them, and no wrong block does harm."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from headrace.store import chunk as chunk_module
from headrace.store.chunk import Chunk, ChunkBlocks, ChunkForm
from headrace.store.ids import format_id, make_id
from headrace.store.log import EntryLog
from headrace.store.nodes import IS_COMPILED

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="the blocks are those of the C code")

Texts = list[bytes]


def entry_of(entry_id: int, texts: Texts) -> bytes:
    """The reply form of an entry."""
    name = format_id(entry_id)
    bulks = [b"$%d\r\n%b\r\n" % (len(text), text) for text in texts]
    return b"*2\r\n$%d\r\n%b\r\n*%d\r\n" % (len(name), name, len(texts)) + b"".join(bulks)


@dataclass
class Kind:
    """Chunks of one form."""

    form: ChunkForm
    texts: list[Texts]
    is_packed: bool = True


def rows_texts(count: int) -> list[Texts]:
    """Entries of several shapes, with columns of every kind."""
    draw = random.Random(1)
    found: list[Texts] = []
    for number in range(count):
        texts = [b"sensor", b"s-%06d" % draw.randrange(10**6), b"kind", draw.choice([b"a", b"bb", b""])]
        texts += [b"text", b"v" * draw.randrange(20), b"binary", draw.randbytes(draw.randrange(4))]
        found.append(texts[: draw.choice([2, 4, 8])] if number % 3 else texts)
    return found


KINDS = [
    Kind(ChunkForm.ROWS, rows_texts(300)),
    Kind(ChunkForm.ROWS, [[b"f", b"v"]] * 20),
    Kind(ChunkForm.COMPRESSED, [[b"f", random.Random(number).choice([b"a", b"b"]) * 700] for number in range(90)]),
    Kind(ChunkForm.BODY, rows_texts(40), is_packed=False),
    Kind(ChunkForm.OPEN, rows_texts(40)),
]


def chunk_of(kind: Kind) -> Chunk:
    chunk = Chunk(make_id(7, 0))
    body = chunk.body()
    for number, texts in enumerate(kind.texts):
        entry_id = make_id(7 + number // 3, number % 3)
        body.append(entry_id, entry_of(entry_id, texts))
    if kind.form is not ChunkForm.OPEN:
        chunk_module.pack_sealed(kind.is_packed)
        chunk.seal()
        chunk_module.pack_sealed(True)
        chunk.drop_unpacked()
    assert chunk.blocks().form is kind.form
    return chunk


def removed_from(chunk: Chunk, seed: int) -> Chunk:
    """The chunk without some of its entries."""
    draw = random.Random(seed)
    chunk.kill_head(draw.randrange(3))
    for position in draw.sample(range(chunk.head, chunk.count), draw.randrange(5)):
        if chunk.is_live(position) and chunk.live > 1:
            chunk.kill(position)
    return chunk


def state_of(chunk: Chunk) -> tuple[object, ...]:
    return (
        chunk.first_id, chunk.last_id, chunk.count, chunk.live, chunk.head, chunk.has_holes,
        None if chunk.is_open else chunk.memory_size,
        list(chunk.spans(0, chunk.count)), chunk.index.ids(0, chunk.count),
        chunk.slice(0, chunk.count), [chunk.slice(at, at + 1) for at in range(chunk.count)],
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.form.name)
def test_a_chunk_of_blocks_is_the_same_chunk(kind: Kind) -> None:
    for seed in range(10):
        chunk = removed_from(chunk_of(kind), seed)
        twin = Chunk.of_blocks(chunk.blocks())
        assert state_of(twin) == state_of(chunk)
        if not chunk.is_open:
            assert state_of(twin.compacted()) == state_of(chunk.compacted())


def test_an_open_chunk_grows_on() -> None:
    twin = Chunk.of_blocks(chunk_of(KINDS[-1]).blocks())
    entry_id = make_id(1000, 0)
    twin.body().append(entry_id, entry_of(entry_id, [b"f", b"v"]))
    assert twin.last_id == entry_id


def use(blocks: ChunkBlocks) -> None:
    """Make the chunk, and read all of it in each way. An error must be a ValueError; a crash would end the test run."""
    try:
        chunk = Chunk.of_blocks(blocks)
    except ValueError:
        return
    count = chunk.count
    assert len(chunk.slice(0, count)) == sum([len(chunk.slice(at, at + 1)) for at in range(count)])
    chunk.slice_back(0, count)
    chunk.index.ids(0, count)
    chunk.body().block()
    if not chunk.is_open:
        chunk.compacted()


def changed(data: bytes) -> Iterator[bytes]:
    """The bytes cut off, made longer, and with single bytes changed."""
    for size in {*range(min(len(data), 120)), *range(0, len(data), 97)}:
        yield data[:size]
    yield data + b"\0"
    for index in {*range(min(len(data), 500)), *range(0, len(data), 53)}:
        for change in (0x01, 0x80, 0xFF):
            yield data[:index] + bytes((data[index] ^ change,)) + data[index + 1 :]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.form.name)
def test_changed_blocks_are_refused_or_are_other_entries(kind: Kind) -> None:
    blocks = chunk_of(kind).blocks()
    for entries in changed(blocks.entries):
        use(blocks._replace(entries=entries))
    for ids in changed(blocks.ids):
        use(blocks._replace(ids=ids))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.form.name)
def test_blocks_that_are_cut_off_are_refused(kind: Kind) -> None:
    blocks = chunk_of(kind).blocks()
    for size in range(len(blocks.entries)):
        with pytest.raises(ValueError, match=r"."):
            Chunk.of_blocks(blocks._replace(entries=blocks.entries[:size]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"head": 10**6}, {"head": 2**64 - 1}, {"dead": b"\1" * 21}, {"dead": b"\2"}, {"dead": b"\1"},
        {"first_id": make_id(8, 0)},
    ],
)  # fmt: skip
def test_marks_that_do_not_fit_are_refused(wrong: dict[str, object]) -> None:
    blocks = chunk_of(KINDS[1]).blocks()
    with pytest.raises(ValueError, match=r"entries that do not exist|does not begin"):
        Chunk.of_blocks(blocks._replace(**wrong))  # type: ignore[arg-type]


def test_chunks_out_of_order_are_refused() -> None:
    log = EntryLog()
    log.take_chunk(chunk_of(KINDS[0]))
    with pytest.raises(ValueError, match="a chunk out of order"):
        log.take_chunk(chunk_of(KINDS[0]))
