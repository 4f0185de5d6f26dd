"""Strings that APPEND and SETRANGE change: in place where no other code can see it, in a copy otherwise."""

from __future__ import annotations

import random

import pytest

from headrace.store.database import Database, KeyTable, Store
from headrace.store.events import APPEND, SETRANGE
from headrace.store.image import StoreImage

needs_compiler = pytest.mark.skipif(KeyTable.__module__.endswith("_plain"), reason="strings are always copied")

LONG_SIZE = 10_000


def holding(size: int) -> Database:
    """A database with one string that only its key refers to."""
    db = Database(0)
    db.put(b"key", random.Random(size).randbytes(size))
    return db


def text_of(db: Database) -> bytes:
    """The string as it is now, copied."""
    value = db.keys[b"key"]
    assert isinstance(value, bytes)
    return bytes(memoryview(value))


@pytest.mark.parametrize("size", [1, 41, 42, 4095, 4096, LONG_SIZE, 1_000_000])
def test_splicing_does_what_a_bytearray_does(size: int) -> None:
    source = random.Random(size)
    db = holding(size)
    model = bytearray(text_of(db))
    for _ in range(200):
        offset = source.choice((len(model), source.randrange(len(model) + 5000), 0))
        piece = source.randbytes(source.choice((1, 17, 5000)))
        model.extend(bytes(max(offset + len(piece) - len(model), 0)))
        model[offset : offset + len(piece)] = piece
        assert db.splice(b"key", offset, piece, SETRANGE) == len(model)
        assert text_of(db) == model
    db.check()


@pytest.mark.parametrize("offset", [0, LONG_SIZE, LONG_SIZE + 100])
def test_a_string_that_a_reply_holds_stays_as_it_was(offset: int) -> None:
    db = holding(LONG_SIZE)
    held, before = db.keys[b"key"], text_of(db)
    db.splice(b"key", offset, b"new", APPEND)
    assert held == before
    assert text_of(db) == before[:offset] + bytes(max(offset - LONG_SIZE, 0)) + b"new" + before[offset + 3 :]


@pytest.mark.parametrize("offset", [0, LONG_SIZE])
def test_a_string_that_a_view_holds_stays_as_it_was(offset: int) -> None:
    db = holding(LONG_SIZE)
    before = text_of(db)
    with memoryview(db.keys[b"key"]) as view:  # type: ignore[arg-type]
        db.splice(b"key", offset, b"new", APPEND)
        assert view == before


@pytest.mark.parametrize("offset", [0, LONG_SIZE])
def test_an_image_shows_the_string_of_its_moment(offset: int) -> None:
    store = Store(1)
    db = store.databases[0]
    db.put(b"key", random.Random(1).randbytes(LONG_SIZE))
    before = text_of(db)
    image = StoreImage(store)
    for _ in range(3):
        db.splice(b"key", offset, b"new", APPEND)
    assert [each.value for each in image] == [before]


@pytest.mark.parametrize("offset", [0, LONG_SIZE])
def test_a_changed_string_has_the_hash_of_its_bytes(offset: int) -> None:
    db = holding(LONG_SIZE)
    hash(db.keys[b"key"])
    db.splice(b"key", offset, b"new", APPEND)
    assert hash(db.keys[b"key"]) == hash(text_of(db))


@needs_compiler
def test_a_long_string_of_its_key_alone_is_changed_in_place() -> None:
    keys = holding(LONG_SIZE).keys
    assert keys.splice(b"key", 0, b"new")
    assert keys.splice(b"key", LONG_SIZE, b"new")
    held = keys[b"key"]
    assert not keys.splice(b"key", 0, b"new")
    assert len(held) == LONG_SIZE + 3


@needs_compiler
def test_a_string_without_memory_to_grow_stays_as_it_was() -> None:
    db = holding(LONG_SIZE)
    before, size = text_of(db), db.size
    with pytest.raises(MemoryError):
        db.splice(b"key", 2**62, b"new", SETRANGE)
    assert text_of(db) == before
    assert db.size == size
    db.check()
