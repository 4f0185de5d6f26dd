"""A hash: its fields with their values and expiry times, and the encoding that Redis would have chosen for them.

A field is due when its expiry time is over. It stays until it is removed; commands that show fields leave it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from ..class_marks import mypyc_attr
from ..due_times import NEVER_DUE_MS
from ..limits import Limits
from ..object_sizes import COLLECTOR_SIZE
from .companion import Companion
from .members import Members

LISTPACK: Final = b"listpack"
# A listpack that had a field with an expiry time at some time: its fields are in the order of their times.
LISTPACK_EX: Final = b"listpackex"
HASHTABLE: Final = b"hashtable"
# Made by HIMPORT: the fields are in the order of `template_order`. Redis keeps the names of such hashes apart, once for
# all that have the same fields.
TEMPLATE_LISTPACK: Final = b"template-listpack"
TEMPLATE_ARRAY: Final = b"template-array"

# Bytes of the object and its attributes.
HASH_SIZE: Final = 96 + COLLECTOR_SIZE


def template_order(field: bytes) -> tuple[int, bytes]:
    """The sort key of a field in a hash that HIMPORT made: short fields come first."""
    return len(field), field


def _pair_order(pair: tuple[bytes, bytes]) -> tuple[int, bytes]:
    return len(pair[0]), pair[0]


@mypyc_attr(acyclic=True)
class HashValue(Companion):
    """A hash. `limits` decide when it is no longer small. Times are Unix ms."""

    __slots__ = ("_encoding", "_had_times", "_has_template", "_members")

    type_name: ClassVar[bytes] = b"hash"
    type_number: ClassVar[int] = 4

    def __init__(self, limits: Limits, members: Members | None = None) -> None:
        super().__init__(limits)
        self._encoding = LISTPACK
        # Whether the encoding is one of those of HIMPORT.
        self._has_template = False
        # Whether a field had an expiry time at some time since the hash was made or loaded.
        self._had_times = False
        self._members = Members() if members is None else members

    @staticmethod
    def of_template(fields: list[bytes], texts: list[bytes], limits: Limits, *, may_be_long: bool = False) -> HashValue:
        """The hash that HIMPORT makes. `fields` are all different, in their order. `may_be_long`: see `set`."""
        value = HashValue(limits)
        value._has_template = True
        is_short = may_be_long or max(map(len, texts)) <= limits.hash_value_max
        is_small = is_short and len(fields) <= limits.hash_entries_max
        value._encoding = TEMPLATE_LISTPACK if is_small else TEMPLATE_ARRAY
        words = [*fields, *texts]
        words[::2], words[1::2] = fields, texts
        value._members.expect(len(fields))
        value._members.put_words(words)
        return value

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, field: bytes) -> bool:
        return field in self._members

    @property
    def encoding(self) -> bytes:
        return self._encoding

    @property
    def has_template(self) -> bool:
        """Whether the encoding is one of those of HIMPORT."""
        return self._has_template

    @property
    def memory_size(self) -> int:
        return HASH_SIZE + self._members.memory_size

    # -- reading ---------------------------------------------------------------------------------

    def get(self, field: bytes) -> bytes | None:
        """The value of a field, due or not; None if there is no such field."""
        return self._members.get(field)

    def get_all(self, fields: list[bytes]) -> list[bytes | None]:
        """Like `get`, for many fields."""
        return self._members.get_all(fields)

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        """The fields with their values, in the order of Redis unless it is a hash table. They must not change
        meanwhile."""
        return self._items()

    def _items(self) -> Iterable[tuple[bytes, bytes]]:
        if self._has_template and not self._members.are_few:
            return sorted(self._members.items(), key=_pair_order)
        return self._members.items()

    def words(self) -> list[bytes]:
        """What `items` returns, each field with its value after it; not of a hash of HIMPORT."""
        assert not self._has_template
        return self._members.words()

    def word_parts(self, count: int) -> Iterator[list[bytes]]:
        """Yield what `words` returns, about `count` fields at a time, or all at once if they are few."""
        assert not self._has_template
        return self._members.word_parts(count)

    def times_by_name(self) -> dict[bytes, int]:
        """The expiry times of the fields that have one, which must not be changed."""
        return self._members.times()

    def listpack(self) -> bytes | None:
        """The listpack of the fields with their values, and with their expiry times in a listpack with such times. None
        if the caller must make it from `items`: see `PackedPairs.listpack`."""
        return self._members.listpack(3 if self._encoding == LISTPACK_EX else 2)

    def live_words(self, now_ms: int) -> list[bytes]:
        """The fields that are not due, each with its value after it."""
        if self.first_due_ms >= now_ms:
            if self._has_template:
                return [word for pair in self._items() for word in pair]
            return self._members.words()
        return [word for pair in self.live_items(now_ms) for word in pair]

    def live_members(self, now_ms: int) -> Members | None:
        """The fields with their values, to be encoded with `Members.bulks`.

        None if there are few, if some may be due, or if they have another order: then it takes no less time to encode
        what others return.
        """
        if self._has_template or self.first_due_ms < now_ms or self._members.are_few:
            return None
        return self._members

    def live_values(self, now_ms: int) -> list[bytes]:
        """The values of the fields that are not due."""
        if self.first_due_ms >= now_ms and not self._has_template:
            return self._members.texts()
        return [text for _, text in self.live_items(now_ms)]

    def live_items(self, now_ms: int) -> Iterable[tuple[bytes, bytes]]:
        """Like `items`, without the fields that are due."""
        if self.first_due_ms >= now_ms:
            return self._items()
        times = self._members.times()
        return [each for each in self._members.items() if times.get(each[0], NEVER_DUE_MS) >= now_ms]

    def live_fields(self, now_ms: int) -> list[bytes]:
        """The fields that are not due."""
        if self._has_template:
            return [field for field, _ in self._items()]
        return self.live(self._members.names(), now_ms)

    def live(self, fields: list[bytes], now_ms: int) -> list[bytes]:
        """Those of the fields that are not due."""
        if self.first_due_ms >= now_ms:
            return fields
        times = self._members.times()
        return [field for field in fields if times.get(field, NEVER_DUE_MS) >= now_ms]

    def at(self, index: int) -> bytes:
        """The field at an index, in an order that lasts until a field comes or goes."""
        return self._members.at(index)

    def at_each(self, indexes: list[int]) -> list[bytes]:
        """Like `at`, for many indexes at once."""
        return self._members.at_each(indexes)

    def scan(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        """See `Members.scan`. In the encodings of HIMPORT, all fields are returned at once."""
        if self._has_template:
            return [field for field, _ in self._items()], 0
        return self._members.scan(cursor, count, is_packed=self._encoding != HASHTABLE)

    def scan_words(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        """Like `scan`, each field with its value after it."""
        if self._has_template:
            return [word for pair in self._items() for word in pair], 0
        return self._members.scan_words(cursor, count, is_packed=self._encoding != HASHTABLE)

    # -- expiry times ----------------------------------------------------------------------------

    def due_ms(self, field: bytes) -> int | None:
        """The expiry time of a field; None if it has none."""
        return self._members.time(field) or None

    def due_times(self, fields: list[bytes]) -> list[int]:
        """The expiry times of existing fields, 0 for none."""
        if self.first_due_ms == NEVER_DUE_MS:
            return [0] * len(fields)
        times = self._members.times()
        return [times.get(field, 0) for field in fields]

    def times_of(self, fields: list[bytes]) -> list[int]:
        """The expiry times of fields: 0 if one has none, -1 if there is no such field."""
        return self._members.times_of(fields)

    def is_due(self, field: bytes, now_ms: int) -> bool:
        """Whether the expiry time of a field is over."""
        return self.first_due_ms < now_ms and 0 < self._members.time(field) < now_ms

    def expire_at(self, field: bytes, due_ms: int) -> None:
        """Set the expiry time of an existing field."""
        self.expire_all_at([field], due_ms)

    def expire_all_at(self, fields: list[bytes], due_ms: int) -> list[bytes]:
        """Set the expiry time of fields. Returns those that are there.

        In a listpack, each field moves before those of its time, also before those that were named earlier.
        """
        self.become_listpack_ex()
        found = self._members.set_times(fields, due_ms, in_order=self._encoding == LISTPACK_EX)
        if found and due_ms < self.first_due_ms:
            self.first_due_ms = due_ms
        return found

    def take_times(self, times: dict[bytes, int]) -> None:
        """Set the expiry times of fields that had none before. In a listpack with expiry times they are in their places
        already. The dictionary is kept."""
        assert self._encoding in (HASHTABLE, LISTPACK_EX)
        assert not self._members.has_times
        self._had_times = True
        self._members.take_times(times)
        self.first_due_ms = min(times.values())

    def persist(self, field: bytes) -> bool:
        """Remove the expiry time of a field. Returns whether it had one."""
        had_time = self._members.drop_time(field, in_order=self._encoding == LISTPACK_EX)
        self._settle_times()
        return had_time

    def persist_all(self, fields: list[bytes], now_ms: int) -> list[int]:
        """Remove the expiry times of fields. Returns for each 1, 0 if it had none, or -1 if there is no such field or
        it is due. In a listpack, the field moves to the end."""
        states = self._members.drop_times(fields, now_ms, in_order=self._encoding == LISTPACK_EX)
        self._settle_times()
        return states

    def _settle_times(self) -> None:
        """Note whether any field has an expiry time, after fields may have lost theirs."""
        if self.first_due_ms != NEVER_DUE_MS and not self._members.has_times:
            self.first_due_ms = NEVER_DUE_MS

    def first_due(self, now_ms: int) -> bytes | None:
        """The field that is due first; None if none is. Sets `first_due_ms` to the present one."""
        first = self._members.first_timed()
        if first is None:
            return None
        self.first_due_ms, field = first
        return field if self.first_due_ms < now_ms else None

    # -- changing --------------------------------------------------------------------------------

    def expect(self, count: int) -> None:
        """Take the encoding for so many fields that are set now."""
        if count > self.limits.hash_entries_max and not self._has_template:
            self._encoding = HASHTABLE

    def expect_words(self, words: list[bytes]) -> None:
        """Like `expect`, for fields and values that are set now. Redis counts options after them as well."""
        if self._has_template:
            return
        size_max = self.limits.hash_value_max
        if len(words) // 2 > self.limits.hash_entries_max:
            self._encoding = HASHTABLE
        for word in words:
            if len(word) > size_max:
                self._encoding = HASHTABLE

    def set(self, field: bytes, value: bytes, *, keeps_time: bool = False, may_be_long: bool = False) -> bool:
        """Set a field; its expiry time goes unless `keeps_time` is set. With `may_be_long` a small encoding takes any
        size. Returns whether it is new."""
        is_new = self._members.put(field, value)
        if self._encoding != HASHTABLE:
            limits = self.limits
            size_max = limits.hash_value_max
            is_long = (len(field) > size_max or len(value) > size_max) and not may_be_long
            if self._has_template:
                self._keep_template(field, value, is_new)
            elif is_long or len(self._members) > limits.hash_entries_max:
                self._encoding = HASHTABLE
        if self.first_due_ms != NEVER_DUE_MS and not keeps_time and not is_new:
            self.persist(field)
        return is_new

    def _keep_template(self, field: bytes, value: bytes, is_new: bool) -> None:
        """Keep the order of the fields and their encoding after one was set."""
        limits = self.limits
        if len(value) > limits.hash_value_max or len(self._members) > limits.hash_entries_max:
            self._encoding = TEMPLATE_ARRAY
        if is_new:
            size = len(field)
            self._members.place(field, lambda other: (len(other), other) > (size, field))

    def set_words(self, words: list[bytes], *, keeps_times: bool = False) -> int:
        """Set fields, each with its value after it; their expiry times go unless `keeps_times` is set, in a hash table.
        Returns how many are new."""
        is_new, index = 0, 0
        has_times = self.first_due_ms != NEVER_DUE_MS and not keeps_times
        if self._encoding == LISTPACK and not has_times and words:
            is_new = self._members.put_words(words)
            limits = self.limits
            if len(self._members) > limits.hash_entries_max or max(map(len, words)) > limits.hash_value_max:
                self._encoding = HASHTABLE
            return is_new
        while (self._encoding != HASHTABLE or has_times) and index < len(words):
            is_new += self.set(words[index], words[index + 1])
            index += 2
        return is_new + self._members.put_words(words[index:] if index else words)

    def fill(self, words: list[bytes]) -> int:
        """Set the fields of a new hash from a listpack of any sizes, each with its value after it. Returns how many are
        new; if these are fewer, the hash must be dropped."""
        is_new = self._members.put_words(words)
        if is_new > self.limits.hash_entries_max:
            self._encoding = HASHTABLE
        return is_new

    def load_listpack(self, listpack: bytes, *, has_times: bool) -> bool:
        """Take over the fields of a listpack, with their values and, if it has them, their expiry times, in an empty
        hash. Returns False if the caller must read them: see `PackedPairs.load`."""
        first_ms = self._members.load(listpack, 3 if has_times else 2)
        if first_ms < 0:
            return False
        if len(self._members) > self.limits.hash_entries_max:
            self._encoding = HASHTABLE
        if has_times:
            self.become_listpack_ex()
        if first_ms:
            self.first_due_ms = first_ms
        return True

    def pop(self, field: bytes) -> bytes | None:
        """Remove a field. Returns its value; None if there is no such field."""
        value = self._members.pop(field)
        self._settle_times()
        return value

    def pop_all(self, fields: list[bytes]) -> list[bytes | None]:
        """Remove fields. Returns the value of each, None for each that is not there."""
        values = self._members.pop_all(fields)
        self._settle_times()
        return values

    # -- keeping ---------------------------------------------------------------------------------

    def become_table(self, count: int = 0) -> None:
        """Be a hash table from now on, to which so many fields will be added."""
        self._members.expect(count)
        self._has_template = False
        self._encoding = HASHTABLE

    def become_listpack_ex(self) -> None:
        """Be a listpack with expiry times from now on, unless it is a hash table or too large."""
        self._leave_template()
        self._had_times = True
        if self._encoding == LISTPACK:
            self._encoding = LISTPACK_EX

    def take_template(self) -> None:
        """Take an encoding of HIMPORT if the directives want it, after a command has set fields."""
        limits = self.limits
        if limits.template_entries_min:
            self._take_template(limits.template_entries_min, limits.template_entries_max)

    def take_template_when_loaded(self) -> None:
        """Take an encoding of HIMPORT if the directives want it for hashes of a file without such hashes. See
        `undo_template`."""
        limits = self.limits
        if limits.loaded_template_entries_min:
            self._take_template(limits.loaded_template_entries_min, limits.loaded_template_entries_max)

    def _take_template(self, count_min: int, count_max: int) -> None:
        count = len(self._members)
        if self._has_template or self._had_times or count < count_min or (count_max and count > count_max):
            return
        self._has_template = True
        self._encoding = TEMPLATE_LISTPACK if self._encoding == LISTPACK else TEMPLATE_ARRAY
        if self._members.are_few:
            self._sort_members()

    def _sort_members(self) -> None:
        """Store the fields in the order of templates."""
        pairs = sorted(self._members.items(), key=_pair_order)
        self._members = Members()
        for field, text in pairs:
            self._members.put(field, text)

    def undo_template(self) -> None:
        """Have the encoding again from before `take_template_when_loaded`; the fields stay in their new order."""
        self._has_template = False
        self._encoding = LISTPACK if self._encoding == TEMPLATE_LISTPACK else HASHTABLE
        if self._encoding == LISTPACK and not self._members.are_few:
            self._sort_members()

    def _leave_template(self) -> None:
        """Have no encoding of HIMPORT from now on: fields with expiry times have none."""
        if self._has_template:
            self._has_template = False
            size_max = self.limits.hash_value_max
            is_small = len(self._members) <= self.limits.hash_entries_max
            if is_small and all(
                len(each[0]) <= size_max and len(each[1]) <= size_max for each in self._members.items()
            ):
                self._encoding = LISTPACK_EX
            else:
                self._encoding = HASHTABLE

    def copy(self) -> HashValue:
        twin = HashValue(self.limits, self._members.copy())
        twin._encoding = self._encoding
        twin._has_template = self._has_template
        twin._had_times = self._had_times
        twin.first_due_ms = self.first_due_ms
        return twin

    def heaps(self) -> list[object]:
        return self._members.heaps()

    def check(self) -> None:
        self._members.check()
        assert self._has_template == (self._encoding in (TEMPLATE_LISTPACK, TEMPLATE_ARRAY))
        if self._has_template:
            assert not self._members.has_times
            names = [field for field, _ in self._items()]
            assert names == sorted(names, key=template_order)
        assert self._members.has_times == (self.first_due_ms != NEVER_DUE_MS)
        first = self._members.first_timed()
        if first is not None:
            assert self._had_times
            assert self.first_due_ms <= first[0]
