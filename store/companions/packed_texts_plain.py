"""Few byte strings in their order: what hashes, sets and sorted sets consist of while they are small.

The specification of `packed_texts`, and its replacement where there is no C compiler.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import islice
from sys import getsizeof

from ..key_slots import scan_keys
from ..object_sizes import NUMBER_SIZE, text_size

try:
    from .places import score_bytes, scored_of
except ImportError:  # there was no C compiler at installation
    from .places_plain import score_bytes, scored_of


class PackedTexts:
    """Texts by index. To find one takes a time that grows with their number."""

    __slots__ = ("_size", "_texts")

    def __init__(self) -> None:
        self._texts: list[bytes] = []
        # Bytes of the texts.
        self._size = 0

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def memory_size(self) -> int:
        """Bytes of the texts and of what holds them, without this object."""
        return self._size + getsizeof(self._texts)

    def _demand(self, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= len(self._texts):
            raise IndexError(start)

    def at(self, index: int) -> bytes:
        """The text at an index. Raises IndexError."""
        self._demand(index, index + 1)
        return self._texts[index]

    def all(self) -> list[bytes]:
        """All texts."""
        return self._texts.copy()

    def joined(self) -> bytes | None:
        """All texts in one piece, each between two bytes that are its length. None if the caller must join them itself:
        one has 255 bytes or more; or without C."""
        return None

    def between(self, start: int, stop: int, skip: int = 0) -> list[bytes]:
        """The texts from one index on, before another one, without the first `skip` bytes of each. Raises
        IndexError."""
        self._demand(start, stop)
        return [text[skip:] for text in self._texts[start:stop]]

    def find(self, text: bytes, skip: int = 0) -> int:
        """The index of the first text that is `text` after its first `skip` bytes; -1 if there is none."""
        for index, each in enumerate(self._texts):
            if len(each) == len(text) + skip and each.endswith(text):
                return index
        return -1

    def rank(self, text: bytes) -> int:
        """The number of texts before this one; all are ascending."""
        return bisect_left(self._texts, text)

    def ending(self, text: bytes, skip: int) -> bytes | None:
        """The text that `find` finds; None if there is none."""
        index = self.find(text, skip)
        return None if index < 0 else self._texts[index]

    def score_ranks(self, ranges: list[tuple[float, float]]) -> list[tuple[int, int]]:
        """See `ScoreOrder.score_ranks`."""
        ranks = [(self.rank(score_bytes(first)), self.rank(score_bytes(after))) for first, after in ranges]
        return [(start, stop) for start, stop in ranks if start < stop]

    def scores(self, members: list[bytes]) -> list[float | None]:
        """The scores of members, which the texts are the places of; None for each that has none."""
        found = dict(scored_of(self._texts))
        return [found.get(member) for member in members]

    def put_sorted(self, text: bytes, skip: int) -> int:
        """Add a text to others, which are ascending, in the place of the one that is alike after its first `skip`
        bytes. Returns 2 if there was none, 0 if it was the same text. Raises ValueError."""
        if not 0 <= skip <= len(text):
            raise ValueError(skip)
        index = self.find(text[skip:], skip)
        if index >= 0:
            if self._texts[index] == text:
                return 0
            self.remove(index, index + 1)
        insort(self._texts, text)
        self._size += text_size(text)
        return 2 if index < 0 else 1

    def load_scored(self, data: bytes) -> bool:
        """Take the places of the members of a listpack, each with its score after it, if there are no texts yet.

        Returns False, and changes nothing, for what the caller must read itself: a damaged listpack, places that are
        not ascending, members that are alike, or an unusual score; without C, any listpack.
        """
        return False

    def having(self, texts: list[bytes], skip: int, wanted: bool) -> list[bytes]:
        """Those of the texts that `find` finds, or with `wanted` False the others. The texts that are there differ
        after their first `skip` bytes, and are no more than a listpack of Redis has."""
        ends = {each[skip:] for each in self._texts}
        return [text for text in texts if (text in ends) is wanted]

    def remove(self, start: int, stop: int) -> None:
        """Remove the texts from one index on, before another one. Raises IndexError."""
        self._size -= sum(map(text_size, self.between(start, stop)))
        del self._texts[start:stop]

    def copy(self) -> PackedTexts:
        """Other texts that are alike."""
        twin = PackedTexts()
        twin._texts, twin._size = self._texts.copy(), self._size
        return twin


class PackedPairs:
    """Names with texts, in the order of their arrival, and with expiry times in Unix ms. No two names are alike."""

    __slots__ = ("_pairs", "_size", "_times")

    def __init__(self) -> None:
        self._pairs: dict[bytes, bytes] = {}
        # Those that are not 0.
        self._times: dict[bytes, int] = {}
        # Bytes of the names and texts.
        self._size = 0

    def __len__(self) -> int:
        return len(self._pairs)

    def __contains__(self, name: bytes) -> bool:
        return name in self._pairs

    @property
    def memory_size(self) -> int:
        """Bytes of the names and texts and of what holds them, without this object."""
        return self._size + getsizeof(self._pairs) + getsizeof(self._times) + NUMBER_SIZE * len(self._times)

    @property
    def timed_count(self) -> int:
        """Number of the names that have a time."""
        return len(self._times)

    def get(self, name: bytes) -> bytes | None:
        """The text of a name; None if there is no such name."""
        return self._pairs.get(name)

    def get_all(self, names: list[bytes]) -> list[bytes | None]:
        """Like `get`, for many names."""
        return list(map(self._pairs.get, names))

    def has_each(self, names: list[bytes]) -> list[int]:
        """Return for each name 1 if it is there, else 0."""
        return [int(name in self._pairs) for name in names]

    def having(self, names: list[bytes], wanted: bool) -> list[bytes]:
        """Those of the names that are there, or with `wanted` False those that are not."""
        return [name for name in names if (name in self._pairs) is wanted]

    def put(self, name: bytes, text: bytes) -> bool:
        """Add a pair at the end, or change the text of a name, which keeps its time. Returns whether it is new."""
        old = self._pairs.get(name)
        self._pairs[name] = text
        self._size += text_size(text)
        if old is None:
            self._size += text_size(name)
            return True
        self._size -= text_size(old)
        return False

    def load(self, data: bytes, step: int) -> int:
        """Take the elements of a listpack, if there are no pairs yet: names (`step` 1), names with texts (2), or names
        with texts and times (3). Returns the first of the times that are not 0, else 0.

        Returns -1, and changes nothing, for what the caller must read itself: a damaged listpack, names that are alike,
        or a time out of range; without C, any listpack.
        """
        return -1

    def fill(self, words: list[bytes], step: int) -> bool:
        """Take names (`step` 1), or names with their texts after them (2), if there are no pairs yet and all names
        differ. Returns False, and changes nothing, if the caller must put them one by one, as without C."""
        return False

    def listpack(self, step: int) -> bytes | None:
        """The inverse of `load`. None if the caller must make the listpack itself, as without C."""
        return None

    def pop(self, name: bytes) -> bytes | None:
        """Remove a pair. Returns its text; None if there is no such name."""
        text = self._pairs.pop(name, None)
        if text is not None:
            self._size -= text_size(name) + text_size(text)
            self._times.pop(name, None)
        return text

    def pop_all(self, names: list[bytes]) -> list[bytes | None]:
        """Like `pop`, for one name after the other, in less time. Returns the text of each."""
        return [self.pop(name) for name in names]

    def move(self, name: bytes, index: int) -> None:
        """Move an existing pair, so that so many of the others are before it. Raises IndexError."""
        text = self._pairs.pop(name, None)
        if text is None or not 0 <= index <= len(self._pairs):
            raise IndexError(index)
        later = list(islice(self._pairs.items(), index, None))
        for each, _ in later:
            del self._pairs[each]
        self._pairs[name] = text
        self._pairs.update(later)

    def time(self, name: bytes) -> int:
        """The time of a name; 0 if it has none, or if there is no such name."""
        return self._times.get(name, 0)

    def times(self) -> dict[bytes, int]:
        """The times by name, in the order of the pairs."""
        return {name: self._times[name] for name in self._pairs if name in self._times}

    def first_timed(self) -> tuple[int, bytes] | None:
        """The first time, and the name that has it, of several ones the first; None if none has a time."""
        times = self.times()
        if not times:
            return None
        name = min(times, key=times.__getitem__)
        return times[name], name

    def set_time(self, name: bytes, due_ms: int, in_order: bool) -> bool:
        """Set the time of a name, or remove it if it is 0. Returns whether there is such a name.

        `in_order`: the pairs are in the order of their times, those without any at the end. The pair is moved before
        the others of this time, or to the end if it has none now.
        """
        if name not in self._pairs:
            return False
        self._times.pop(name, None)
        if due_ms:
            self._times[name] = due_ms
        if in_order:
            index = 0
            for other in self._pairs:
                if other != name:
                    if due_ms and self._times.get(other, due_ms) >= due_ms:
                        break
                    index += 1
            self.move(name, index)
        return True

    def set_times(self, names: list[bytes], due_ms: int, in_order: bool) -> list[bytes]:
        """Like `set_time`, for one name after the other. Returns those that are there."""
        return [name for name in names if self.set_time(name, due_ms, in_order)]

    def take_times(self, times: dict[bytes, int]) -> None:
        """Set the times of names, none of which is 0. The pairs stay where they are."""
        self._times.update({name: due_ms for name, due_ms in times.items() if name in self._pairs})

    def times_of(self, names: list[bytes]) -> list[int]:
        """The times of names: 0 if one has none, -1 if there is no such name."""
        return [self._times.get(name, 0) if name in self._pairs else -1 for name in names]

    def drop_times(self, names: list[bytes], now_ms: int, in_order: bool) -> list[int]:
        """Remove the times of names, one after the other; `in_order` as for `set_time`. Returns for each 1, 0 if it had
        no time, or -1 if there is no such name or its time is over."""
        states: list[int] = []
        for name in names:
            due_ms = self._times.get(name, 0)
            if name not in self._pairs or 0 < due_ms < now_ms:
                states.append(-1)
            else:
                states.append(1 if due_ms else 0)
                if due_ms:
                    self.set_time(name, 0, in_order)
        return states

    def names(self) -> list[bytes]:
        """The names."""
        return list(self._pairs)

    def texts(self) -> list[bytes]:
        """The texts, in the order of `names`."""
        return list(self._pairs.values())

    def words(self) -> list[bytes]:
        """The names, each with its text after it."""
        return [word for pair in self._pairs.items() for word in pair]

    def items(self) -> list[tuple[bytes, bytes]]:
        """The pairs."""
        return list(self._pairs.items())

    def at(self, index: int) -> bytes:
        """The name at an index. Raises IndexError."""
        if not 0 <= index < len(self._pairs):
            raise IndexError(index)
        return next(islice(self._pairs, index, None))

    def part(self, start: int, count: int) -> list[bytes]:
        """So many names from an index on. Raises IndexError."""
        if not 0 <= start <= len(self._pairs) or count < 0:
            raise IndexError(start)
        return list(islice(self._pairs, start, start + count))

    def scan(self, cursor: int, count: int, has_texts: bool) -> tuple[list[bytes], int]:
        """About `count` names from a cursor on, in any order, and the next cursor: see `scan_keys`. With `has_texts`,
        each has its text after it. Raises ValueError for no count, or if more names are there than a block takes."""
        if count < 1:
            raise ValueError(count)
        names, after = scan_keys(self._pairs, cursor, count)
        if has_texts:
            return [word for name in names for word in (name, self._pairs[name])], after
        return names, after

    def copy(self) -> PackedPairs:
        """Other pairs that are alike."""
        twin = PackedPairs()
        twin._pairs, twin._size, twin._times = self._pairs.copy(), self._size, self._times.copy()
        return twin
