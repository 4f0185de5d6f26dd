"""Whole RDB files: dump.rdb, and the base of an append-only file.

    file:   "REDIS" | version, 4 digits | record ... | 0xFF | CRC-64 of all before it, zero for none
    record: an opcode and what it says, or type | key | value

Opcodes select the database of the next keys, set the expiry of the next key, have metadata or the text of a library of
functions, or contain data that is skipped: hints, data of modules. The policy lines of a key (`policy_lines`) follow
it, each as metadata that Redis skips.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple, Protocol, TypeAlias

from ... import REDIS_VERSION, __version__
from ...store.companions.hash_value import HashValue
from ...store.image import KeyImage, PackedImage, Part, ShortStreamsImage, StreamImage, StringsImage
from ...store.key_uses import SavedUse
from ...store.limits import Limits
from ...store.policies.lines import lines_of
from ...store.stream import Stream
from ...store.value import Value
from ..errors import BadPolicyLine, EmptyValue, ForeignType, RdbError, TooManyDatabases
from ..placing import StreamPlace
from ..policy_lines import AUX_NAME, policy_text, words_of_text
from .foreign import can_skip, skip_module_fields, skip_value
from .imported_hashes import HASH_NUMBERED_TYPES, Templates
from .keys import EXPIRY_MS, LONG_SIZE, encode_name
from .lengths import (
    encode_length,
    encode_string,
    encode_time_ms,
    read_length,
    read_string,
    read_time_ms,
    string_parts,
)
from .nodes import encode_short, read_short
from .payload import LIBRARY, library_record
from .primitives import IS_COMPILED, crc64
from .source import Source
from .values import READABLE_TYPES, VERSION, encode_value, read_value, type_error, type_of, value_of_packed

try:
    from .small_codec import encode_small, read_small
    from .string_codec import encode_strings, read_strings
except ImportError:  # there was no C compiler at installation
    from .small_codec_plain import encode_small, read_small
    from .string_codec_plain import encode_strings, read_strings

logger = logging.getLogger(__name__)

MAGIC: Final = b"REDIS"
HEADER_SIZE: Final = 9
CHECKSUM_SIZE: Final = 8
# Files of older versions have no checksum.
CHECKSUM_VERSION: Final = 5
# Bytes that are collected before they are written.
BLOCK_SIZE: Final = 64 * 1024

# The names of the fields of hashes, and their number.
HASH_TEMPLATE: Final = 242
SLOT_INFO: Final = 244
MODULE_AUX: Final = 247
IDLE: Final = 248
FREQUENCY: Final = 249
AUX: Final = 250
RESIZE_DB: Final = 251
EXPIRY_S: Final = 253
SELECT_DB: Final = 254
END: Final = 255
# The smallest opcode; lower bytes are types. Opcodes without a name above are refused.
OPCODE_MIN: Final = 242
# Digits of a Unix time in seconds that are read.
TIME_DIGITS_MAX: Final = 19

# The metadata of a file that names the version of Headrace. Redis ignores names that it does not know.
OWN_VERSION: Final = b"headrace-ver"


class FileKey(NamedTuple):
    """One key of a file. `expires_ms` is Unix ms, None for never."""

    db_index: int
    key: bytes
    value: Value
    expires_ms: int | None
    # What the file has of its uses; None for nothing.
    use: SavedUse | None = None


class FileKeys(NamedTuple):
    """Keys of a database in a file that have strings, short streams or small values of other types, each with its value
    and its expiry time."""

    db_index: int
    values: list[tuple[bytes, Value, int | None]]

    def keys(self) -> Iterator[FileKey]:
        """Yield each key."""
        for key, value, expires_ms in self.values:
            yield FileKey(self.db_index, key, value, expires_ms)


class FilePolicy(NamedTuple):
    """The words of a policy line, which concerns a key before it."""

    db_index: int
    words: list[bytes]


class FileLibrary(NamedTuple):
    """A library of functions."""

    code: bytes


# A key of a small value: its name, the type and the text of the value, its expiry time, and where in the block it ends.
SmallKey: TypeAlias = tuple[bytes, int, bytes, int | None, int]
FilePart: TypeAlias = FileKey | FileKeys | FilePolicy | FileLibrary


class StreamForm(Protocol):
    """Another form of streams than Redis', for data that only Headrace reads: a module of `persistence/rows`."""

    @property
    def kind(self) -> int:
        """The type byte, which Redis does not have."""
        ...

    def encode(self, stream: StreamImage, now_ms: int) -> Iterator[bytes]:
        """Yield a stream without its type, in pieces; see `encode_stream`."""
        ...

    def read(self, source: Source, limits: Limits, now_ms: int) -> Stream:
        """The stream. Raises RdbError."""
        ...


class KeysTarget(Protocol):
    """Takes the keys of a file. Its methods for keys raise RdbError for one that exists."""

    def put(self, key: FileKey) -> None:
        """Store one key."""
        ...

    def put_many(self, part: FileKeys) -> None:
        """Store keys with strings, short streams or small values of other types."""
        ...

    def put_policy(self, policy: FilePolicy) -> None:
        """Apply a policy line. Raises LoadError if it may not be left out."""
        ...

    def put_library(self, library: FileLibrary) -> None:
        """Load a library of functions. Raises RdbError."""
        ...


# -- writing -----------------------------------------------------------------------------------------


def write_file(
    parts: Iterable[Part],
    aux: Mapping[bytes, bytes],
    *,
    now_ms: int,
    compress: bool = True,
    has_checksum: bool = True,
    sizes: Mapping[int, tuple[int, int]] | None = None,
    block_size: int = BLOCK_SIZE,
    form: StreamForm | None = None,
    libraries: Iterable[bytes] = (),
) -> Iterator[bytes]:
    """Yield a file with a dataset in parts, ordered by database, in blocks of about `block_size`; some may be empty.

    `aux` has the metadata of the file, `libraries` the texts of the libraries of functions. `sizes` has for each
    database the number of keys, and of keys with expiry, as a hint for loading. `now_ms` decides which idempotent IDs
    are still valid. `form`: of the streams, None for Redis'.
    """
    crc = 0
    head = _head(aux, libraries, compress=compress)
    records = chain(head, _records(parts, sizes or {}, form, now_ms=now_ms, compress=compress))
    for block in _gathered(records, block_size):
        if has_checksum:
            crc = crc64(block, crc)
        yield block
    yield crc.to_bytes(CHECKSUM_SIZE, "little")


def redis_aux(
    version: str, *, now_ms: int, used_memory: int, is_aof_base: bool, place: StreamPlace | None = None
) -> dict[bytes, bytes]:
    """Return the metadata that Redis of that version writes. `used_memory` is in bytes."""
    aux = {
        b"redis-ver": version.encode(),
        b"redis-bits": b"64",
        b"ctime": b"%d" % (now_ms // 1000),
        b"used-mem": b"%d" % used_memory,
    }
    if place is not None:
        aux[b"repl-stream-db"] = b"%d" % place.db_index
        aux[b"repl-id"] = place.replid.encode()
        aux[b"repl-offset"] = b"%d" % place.offset
    aux[b"aof-base"] = b"%d" % is_aof_base
    return aux


def own_aux(
    *, now_ms: int, used_memory: int, is_aof_base: bool, place: StreamPlace | None = None
) -> dict[bytes, bytes]:
    """Return the metadata that Headrace writes. Tools decide by `redis-ver` what a file may contain, so it names the
    Redis whose format this is.
    """
    aux = redis_aux(REDIS_VERSION, now_ms=now_ms, used_memory=used_memory, is_aof_base=is_aof_base, place=place)
    aux[OWN_VERSION] = __version__.encode()
    return aux


def _gathered(pieces: Iterable[bytes], block_size: int) -> Iterator[bytes]:
    """Join pieces to larger blocks. An empty piece, which lets the event loop run other work, is yielded at once."""
    block = bytearray()
    for piece in pieces:
        block += piece
        if len(block) >= block_size:
            yield bytes(block)
            block.clear()
        elif not piece:
            yield piece
    yield bytes(block)


def _head(aux: Mapping[bytes, bytes], libraries: Iterable[bytes], *, compress: bool) -> Iterator[bytes]:
    yield MAGIC + b"%04d" % VERSION
    for name, text in aux.items():
        yield _aux(name, text, compress=compress)
    for code in libraries:
        yield library_record(code, compress=compress)


def _records(
    parts: Iterable[Part],
    sizes: Mapping[int, tuple[int, int]],
    form: StreamForm | None,
    *,
    now_ms: int,
    compress: bool,
) -> Iterator[bytes]:
    selected: int | None = None
    for part in parts:
        if part.db_index != selected:
            selected = part.db_index
            yield _opcode(SELECT_DB) + encode_length(selected)
            if selected in sizes:
                yield _opcode(RESIZE_DB) + b"".join(map(encode_length, sizes[selected]))
        if isinstance(part, StringsImage):
            yield from _strings_records(part, compress=compress)
        elif isinstance(part, ShortStreamsImage):
            yield encode_short(part.streams, part.expires, compress, compress and IS_COMPILED)
        elif isinstance(part, PackedImage):
            yield encode_small(part.values, part.expires, compress)
        else:
            yield from _key_records(part, form, now_ms=now_ms, compress=compress)
    yield _opcode(END)


def _strings_records(part: StringsImage, *, compress: bool) -> Iterator[bytes]:
    pairs, expires, index = part.pairs, part.expires, 0
    while index < len(pairs):
        piece, index = encode_strings(pairs, index, expires, compress)
        yield piece
        if index < len(pairs) and len(pairs[index][1]) > LONG_SIZE:
            key, value = pairs[index]
            yield encode_name(key, expires.get(key), compress=compress)
            yield from string_parts(value, compress=compress)
            index += 1


def _key_records(key: KeyImage, form: StreamForm | None, *, now_ms: int, compress: bool) -> Iterator[bytes]:
    if key.expires_ms is not None:
        yield _opcode(EXPIRY_MS) + encode_time_ms(key.expires_ms)
    if key.use is not None and key.use.idle_s is not None:
        yield _opcode(IDLE) + encode_length(key.use.idle_s)
    elif key.use is not None and key.use.frequency is not None:
        yield bytes((FREQUENCY, key.use.frequency))
    name = encode_string(key.key, compress=compress)
    if form is not None and isinstance(key.value, StreamImage):
        yield _opcode(form.kind) + name
        yield from form.encode(key.value, now_ms)
    else:
        yield _opcode(type_of(key.value)) + name
        # In the pure form, compressing stream nodes takes longer than the rest of writing them.
        compress_value = compress and (IS_COMPILED or not isinstance(key.value, StreamImage))
        yield from encode_value(key.value, now_ms=now_ms, compress=compress_value)
    if isinstance(key.value, StreamImage):
        for words in lines_of(key.key, key.value):
            yield _aux(AUX_NAME, policy_text(words), compress=compress)


def _aux(name: bytes, text: bytes, *, compress: bool) -> bytes:
    return _opcode(AUX) + encode_string(name, compress=compress) + encode_string(text, compress=compress)


def _opcode(code: int) -> bytes:
    return bytes((code,))


# -- reading -----------------------------------------------------------------------------------------


class FileReader:
    """Reads one file, in blocks of any size. Streams it makes follow `limits`.

    `drops_expired`: keys that expired before `now_ms` are left out (dump.rdb; an AOF base keeps them). `skips_foreign`:
    values of unsupported types are skipped instead of refused. `checks_checksum`: `rdbchecksum`. `form`: another form
    of streams that is read besides Redis'.
    """

    def __init__(
        self,
        blocks: Iterable[bytes],
        limits: Limits,
        *,
        now_ms: int,
        drops_expired: bool = True,
        skips_foreign: bool = False,
        checks_checksum: bool = True,
        databases_count: int = 16,
        form: StreamForm | None = None,
    ) -> None:
        self._form = form
        self._source = Source(blocks, is_checksummed=checks_checksum)
        self._limits = limits
        self._now_ms = now_ms
        self._drops_expired = drops_expired
        self._skips_foreign = skips_foreign
        self._checks_checksum = checks_checksum
        self._databases_count = databases_count
        self._version = 0
        self._db_index = 0
        # Expiry time of the next key.
        self._expires_ms: int | None = None
        self._use: SavedUse | None = None
        # Whether the last key was left out, and the policy line that was read and not yielded.
        self._is_left_out = False
        self._policy: FilePolicy | None = None
        # The library that was read and not yielded.
        self._library: FileLibrary | None = None
        self._templates = Templates()
        # The metadata of the file.
        self.aux: dict[bytes, bytes] = {}
        # Keys read, without those left out.
        self.keys_count = 0
        # Keys left out because they had expired, with their databases.
        self.expired_keys: list[tuple[int, bytes]] = []
        # Keys left out because of their type.
        self.foreign_count = 0

    @property
    def expired_count(self) -> int:
        """Keys left out because they had expired."""
        return len(self.expired_keys)

    @property
    def place(self) -> StreamPlace | None:
        """The place of the dataset in a replication stream; None if the file names none."""
        try:
            replid, offset = self.aux[b"repl-id"].decode("ascii"), int(self.aux[b"repl-offset"])
            return StreamPlace(int(self.aux.get(b"repl-stream-db", b"0")), replid, offset) if offset >= 0 else None
        except (KeyError, ValueError):
            return None

    @property
    def offset(self) -> int:
        """Bytes read; after the last key, the size of the file."""
        return self._source.offset

    def __iter__(self) -> Iterator[FileKey]:
        """Yield every key once. Raises RdbError; the keys before it must not be used then."""
        for part in self.parts():
            if isinstance(part, FileKey):
                yield part
            elif isinstance(part, FileKeys):
                yield from part.keys()

    def parts(self) -> Iterator[FilePart]:
        """Yield every key once, those with strings, short streams and small values several at a time, policy lines and
        libraries: see `__iter__`."""
        self._read_header()
        while True:
            yield from self._read_many()
            kind = self._source.byte()
            if kind == END:
                break
            if kind >= OPCODE_MIN:
                self._read_opcode(kind)
                if self._policy is not None:
                    policy, self._policy = self._policy, None
                    yield policy
                elif self._library is not None:
                    library, self._library = self._library, None
                    yield library
            elif (key := self._read_key(kind)) is not None:
                yield key
        self._check_checksum()
        self._templates.end()

    def rest(self) -> Iterator[bytes]:
        """Yield the bytes after the file: in an append-only file with an RDB preamble, its records. Call after the last
        key."""
        return self._source.rest()

    def _read_header(self) -> None:
        header = self._source.take(HEADER_SIZE)
        if not header.startswith(MAGIC):
            raise RdbError("Wrong signature trying to load DB from file")
        digits = header[len(MAGIC) :]
        self._version = int(digits) if digits.isdigit() else 0
        if not 1 <= self._version <= VERSION:
            raise RdbError(f"Can't handle RDB format version {self._version}")

    def _read_opcode(self, code: int) -> None:
        read = _OPCODES.get(code)
        if read is None:
            raise RdbError(f"Unknown RDB opcode {code} at offset {self.offset - 1}")
        read(self, self._source)

    def _read_select(self, source: Source) -> None:
        self._db_index = read_length(source)
        if self._db_index >= self._databases_count:
            raise TooManyDatabases(
                "FATAL: Data file was created with a Redis server configured to handle more than "
                f"{self._databases_count} databases. Exiting"
            )

    def _read_expiry_ms(self, source: Source) -> None:
        self._expires_ms = read_time_ms(source)

    def _read_expiry_s(self, source: Source) -> None:
        self._expires_ms = 1000 * int.from_bytes(source.take(4), "little", signed=True)

    def _read_aux(self, source: Source) -> None:
        name = read_string(source)
        text = read_string(source)
        if name == AUX_NAME:
            self._read_policy(text)
            return
        self.aux[name] = text
        if name == b"redis-ver":
            logger.info("Loading RDB produced by version %s", text.decode("utf-8", "backslashreplace"))
        elif name == b"ctime" and text.isdigit():
            logger.info("RDB age %d seconds", max(0, self._now_ms // 1000 - int(text[:TIME_DIGITS_MAX])))
        elif name == b"aof-base" and text == b"1":
            logger.info("RDB is base AOF")

    def _read_policy(self, text: bytes) -> None:
        """Read a policy line; those of a key that was left out are left out with it."""
        if self._is_left_out:
            return
        try:
            self._policy = FilePolicy(self._db_index, words_of_text(text))
        except BadPolicyLine as error:
            raise RdbError(str(error)) from error

    def _read_idle(self, source: Source) -> None:
        self._use = SavedUse(read_length(source), None)

    def _read_frequency(self, source: Source) -> None:
        self._use = SavedUse(None, source.byte())

    def _skip_sizes(self, source: Source) -> None:
        for _ in range(2):
            read_length(source)

    def _skip_slot_info(self, source: Source) -> None:
        for _ in range(3):
            read_length(source)

    def _read_template(self, source: Source) -> None:
        self._templates.read(source)

    def _read_library(self, source: Source) -> None:
        self._library = FileLibrary(read_string(source))

    def _skip_module_aux(self, source: Source) -> None:
        read_length(source)
        skip_module_fields(source)

    def _read_many(self) -> Iterator[FileKeys]:
        """Yield the keys with strings, short streams and small values that are next in the present block."""
        source = self._source
        while self._expires_ms is None and self._use is None:
            values, position = read_strings(*source.ahead())
            if not values:
                streams, position = read_short(*source.ahead())
                values = [(key, Stream.of_short(short, self._limits), expires_ms) for key, short, expires_ms in streams]
            if values:
                source.skip_ahead(position)
            else:
                small = read_small(*source.ahead())
                if not small:
                    break
                values = self._small_values(small)
            # The policy lines that may follow are those of the last one.
            last_ms = values[-1][2] if values else None
            self._is_left_out = self._drops_expired and last_ms is not None and last_ms < self._now_ms
            if self._drops_expired:
                now_ms = self._now_ms
                self.expired_keys += [
                    (self._db_index, each[0]) for each in values if each[2] is not None and each[2] < now_ms
                ]
                values = [each for each in values if each[2] is None or each[2] >= now_ms]
            self.keys_count += len(values)
            if values:
                yield FileKeys(self._db_index, values)

    def _small_values(self, small: list[SmallKey]) -> list[tuple[bytes, Value, int | None]]:
        """The keys that `read_small` returned, without those whose values are empty. Raises RdbError."""
        values: list[tuple[bytes, Value, int | None]] = []
        for key, kind, text, expires_ms, end in small:
            # After what was read also if that is damaged.
            self._source.skip_ahead(end)
            try:
                value = value_of_packed(kind, text, self._limits)
            except EmptyValue:
                continue  # as in Redis
            if isinstance(value, HashValue):
                self._templates.note_hash(value)
            values.append((key, value, expires_ms))
        return values

    def _is_kept(self, key: bytes, expires_ms: int | None) -> bool:
        """Count a key that was read. Returns False if it is left out because it has expired."""
        if self._drops_expired and expires_ms is not None and expires_ms < self._now_ms:
            self.expired_keys.append((self._db_index, key))
            return False
        self.keys_count += 1
        return True

    def _read_key(self, kind: int) -> FileKey | None:
        """Read a key after its type. Returns None if the key is left out."""
        source = self._source
        key, expires_ms, use = read_string(source), self._expires_ms, self._use
        self._expires_ms = self._use = None
        self._is_left_out = True
        is_own = self._form is not None and kind == self._form.kind
        if kind not in READABLE_TYPES and kind not in HASH_NUMBERED_TYPES and not is_own:
            if not self._skips_foreign or not skip_value(source, kind):
                text = key.decode("utf-8", "backslashreplace")
                why = f"The key '{text}' in database {self._db_index} cannot be loaded: {type_error(kind)}"
                raise ForeignType(why) if can_skip(kind) else RdbError(why)
            self.foreign_count += 1
            return None
        value: Value
        if self._form is not None and is_own:
            value = self._form.read(source, self._limits, self._now_ms)
        elif kind in HASH_NUMBERED_TYPES:
            value = self._templates.read_hash(source, kind, self._limits)
        else:
            try:
                value = read_value(source, kind, self._limits, now_ms=self._now_ms)
            except EmptyValue:
                return None  # as in Redis
        if isinstance(value, HashValue):
            self._templates.note_hash(value)
        self._is_left_out = not self._is_kept(key, expires_ms)
        return None if self._is_left_out else FileKey(self._db_index, key, value, expires_ms, use)

    def _check_checksum(self) -> None:
        if self._version < CHECKSUM_VERSION:
            return
        computed = self._source.crc if self._checks_checksum else 0
        found = int.from_bytes(self._source.take(CHECKSUM_SIZE), "little")
        if self._checks_checksum and found not in (0, computed):
            raise RdbError(f"Wrong RDB checksum expected: ({computed:x}) but got ({found:x}). Aborting now.")


def in_steps(parts: Iterable[FilePart], target: KeysTarget) -> Iterator[None]:
    """Store the parts of a file. A step has one key, some keys with strings, short streams or small values, a policy
    line, or a library."""
    for part in parts:
        if isinstance(part, FileKey):
            target.put(part)
        elif isinstance(part, FileKeys):
            target.put_many(part)
        elif isinstance(part, FileLibrary):
            target.put_library(part)
        else:
            target.put_policy(part)
        yield


_OPCODES: Final[dict[int, Callable[[FileReader, Source], None]]] = {
    SLOT_INFO: FileReader._skip_slot_info,
    LIBRARY: FileReader._read_library,
    HASH_TEMPLATE: FileReader._read_template,
    MODULE_AUX: FileReader._skip_module_aux,
    IDLE: FileReader._read_idle,
    FREQUENCY: FileReader._read_frequency,
    AUX: FileReader._read_aux,
    RESIZE_DB: FileReader._skip_sizes,
    EXPIRY_MS: FileReader._read_expiry_ms,
    EXPIRY_S: FileReader._read_expiry_s,
    SELECT_DB: FileReader._read_select,
}
