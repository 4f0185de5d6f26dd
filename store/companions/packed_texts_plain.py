"""Few byte strings in their order: what hashes, sets and sorted sets consist of while they are small.

The specification of `packed_texts`, and its replacement where there is no C compiler.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import islice
from sys import getsizeof

from ..object_sizes import text_size


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
    """Names with texts, in the order of their arrival. No two names are alike."""

    __slots__ = ("_pairs", "_size")

    def __init__(self) -> None:
        self._pairs: dict[bytes, bytes] = {}
        # Bytes of the names and texts.
        self._size = 0

    def __len__(self) -> int:
        return len(self._pairs)

    def __contains__(self, name: bytes) -> bool:
        return name in self._pairs

    @property
    def memory_size(self) -> int:
        """Bytes of the names and texts and of what holds them, without this object."""
        return self._size + getsizeof(self._pairs)

    def get(self, name: bytes) -> bytes | None:
        """The text of a name; None if there is no such name."""
        return self._pairs.get(name)

    def put(self, name: bytes, text: bytes) -> bool:
        """Add a pair at the end, or change the text of a name. Returns whether it is new."""
        old = self._pairs.get(name)
        self._pairs[name] = text
        self._size += text_size(text)
        if old is None:
            self._size += text_size(name)
            return True
        self._size -= text_size(old)
        return False

    def load(self, data: bytes, step: int) -> dict[bytes, int] | None:
        """Take the elements of a listpack, if there are no pairs yet: names (`step` 1), names with texts (2), or names
        with texts and times (3). Returns the times that are not 0, by name.

        Returns None, and changes nothing, for what the caller must read itself: a damaged listpack, names that are
        alike, or a time out of range; without C, any listpack.
        """
        return None

    def fill(self, words: list[bytes], step: int) -> bool:
        """Take names (`step` 1), or names with their texts after them (2), if there are no pairs yet and all names
        differ. Returns False, and changes nothing, if the caller must put them one by one, as without C."""
        return False

    def listpack(self, step: int, times: dict[bytes, int] | None) -> bytes | None:
        """The inverse of `load`, from the times by name. None if the caller must make the listpack itself, as without
        C."""
        return None

    def pop(self, name: bytes) -> bytes | None:
        """Remove a pair. Returns its text; None if there is no such name."""
        text = self._pairs.pop(name, None)
        if text is not None:
            self._size -= text_size(name) + text_size(text)
        return text

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

    def names(self) -> list[bytes]:
        """The names."""
        return list(self._pairs)

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

    def copy(self) -> PackedPairs:
        """Other pairs that are alike."""
        twin = PackedPairs()
        twin._pairs, twin._size = self._pairs.copy(), self._size
        return twin
