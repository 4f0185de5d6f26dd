"""The manifest: Redis' format, both ways, and every violation of its rules."""

from __future__ import annotations

import pytest

from headrace.persistence.errors import LoadError
from headrace.persistence.manifest import Manifest, Part

AFTER_REWRITE = b"""file appendonly.aof.2.base.aof seq 2 type b
file appendonly.aof.1.incr.aof seq 1 type h startoffset 0
file appendonly.aof.1.base.aof seq 1 type h
file appendonly.aof.2.incr.aof seq 2 type i startoffset 41 endoffset 99
"""


def test_manifest_of_redis_is_read_and_written_back() -> None:
    manifest = Manifest.decode(AFTER_REWRITE)
    assert manifest.encode() == AFTER_REWRITE
    assert [part.name for part in manifest.readable] == [b"appendonly.aof.2.base.aof", b"appendonly.aof.2.incr.aof"]
    assert manifest.next_sequence(b"b") == 3
    assert manifest.next_sequence(b"i") == 3


def test_size_of_a_base_is_kept() -> None:
    base = Part(b"appendonly.aof.2.base.aof", 2, b"b", size=4096)
    assert base.line() == b"file appendonly.aof.2.base.aof seq 2 type b size 4096\n"
    assert Manifest.decode(base.line()).base == base
    assert base.size_error(4096) is None
    assert base.size_error(0) == "it has 0 bytes, but the list of the log's files says 4096"
    assert Part(b"a.1.base.aof", 1, b"b").size_error(0) is None
    assert Part(b"a.1.base.rdb", 1, b"b").size_error(0) == "it has 0 bytes, but an RDB file is never empty"


def test_reopening_drops_the_mark_of_a_clean_stop() -> None:
    assert Manifest.decode(AFTER_REWRITE).reopened().encode() == AFTER_REWRITE.replace(b" endoffset 99", b"")


@pytest.mark.parametrize("name", [b"a b.aof", b'q"uote', b"back\\slash", b"\x01\xff", b"plain.aof"])
def test_any_name_survives(name: bytes) -> None:
    manifest = Manifest((Part(name, 1, b"i"),))
    assert Manifest.decode(manifest.encode()) == manifest


def test_words_are_read_leniently_where_redis_does() -> None:
    manifest = Manifest.decode(b"# a comment\nSEQ 1 other x TYPE i FILE a.aof\n")
    assert manifest.parts == (Part(b"a.aof", 1, b"i"),)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "Found an empty AOF manifest"),
        (b"\n", "Invalid AOF manifest file format"),
        (b"file a seq 1\n", "Invalid AOF manifest file format"),
        (b"file a seq 1 type i x\n", "Invalid AOF manifest file format"),
        (b"file a seq 0 type i\n", "Invalid AOF manifest file format"),
        (b"file a seq x type i\n", "Invalid AOF manifest file format"),
        (b"file a seq 1 type i", "The AOF manifest file contains too long line"),
        (b"file " + b"a" * 1024 + b" seq 1 type i\n", "The AOF manifest file contains too long line"),
        (b"file ../a seq 1 type i\n", "File can't be a path, just a filename"),
        (b"file a seq 1 type b\nfile b seq 2 type b\n", "Found duplicate base file information"),
        (b"file a seq 2 type i\nfile b seq 2 type i\n", "Found a non-monotonic sequence number"),
        (b"file a seq 1 type q\n", "Unknown AOF file type"),
    ],
)
def test_violations_are_fatal(data: bytes, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        Manifest.decode(data)
