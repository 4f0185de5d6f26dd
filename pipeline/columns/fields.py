"""Checks the option `fields` before Spark parses it, since Spark's error names another word than the wrong one.

The names of the types are repeated here because Spark's parser, `DataType.fromDDL`, is part of the JVM. Spark makes a
data source in a Python process that has no connection to the JVM.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Final

from ..errors import OptionError

# The first word of a type, as Spark writes it.
TYPES: Final = (
    "string", "binary", "boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float",
    "real", "double", "decimal", "dec", "numeric", "date", "timestamp", "timestamp_ntz", "timestamp_ltz", "char",
    "character", "varchar",
)  # fmt: skip
# Types that Spark knows and a field cannot have: a later check says what to use in their place.
OTHER_TYPES: Final = ("array", "map", "struct", "variant", "interval", "void", "time")
SHOWN: Final = "string, binary, boolean, int, bigint, double, decimal(10,2), date, timestamp"
COLUMN: Final = re.compile(r"\s*(?P<name>`(?:[^`]|``)+`|[^\s`:]+)(?:\s*:\s*|\s+)(?P<type>[A-Za-z_]\w*)\b.*", re.DOTALL)


def check_fields(text: str) -> None:
    """Checks that each column has a name and a type. Raises OptionError, which names the wrong word."""
    for column in _columns(text):
        match = COLUMN.fullmatch(column)
        if match is None:
            raise OptionError(
                f"option fields: {column.strip()!r} is not a name and a type, as in 'n bigint, user string'"
            )
        word = match["type"].lower()
        if word not in TYPES and word not in OTHER_TYPES:
            close = difflib.get_close_matches(word, TYPES, 1)
            advice = f"did you mean {close[0]}?" if close else f"types are {SHOWN} and others of Spark"
            raise OptionError(f"option fields: column {match['name']} has the unknown type {match['type']}: {advice}")


def _columns(text: str) -> Iterator[str]:
    """Yields the parts between commas that are not within parentheses, angle brackets, quotes or backticks."""
    part, depth, quote = "", 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "`'\"":
            quote = character
        elif character in "(<":
            depth += 1
        elif character in ")>":
            depth -= 1
        elif character == "," and depth <= 0:
            yield part
            part = ""
            continue
        part += character
    yield part
