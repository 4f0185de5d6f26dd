"""The classes of companions, in the order in which the docs name them."""

from __future__ import annotations

from typing import Final

from .array_value import ArrayValue
from .companion import Companion
from .hash_value import HashValue
from .list_value import ListValue
from .set_value import SetValue
from .sorted_set_value import SortedSetValue

COMPANIONS: Final[tuple[type[Companion], ...]] = (ArrayValue, HashValue, ListValue, SetValue, SortedSetValue)
