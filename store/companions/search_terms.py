"""What ARGREP searches for: predicates, and the programs of regular expressions."""

from __future__ import annotations

from typing import Final

# Kinds of predicates.
EXACT: Final = 0
MATCH: Final = 1
GLOB: Final = 2
RE: Final = 3

# Instructions of a program: a set of bytes, a fork, a jump, a condition on the place, the end.
SET: Final = 0
FORK: Final = 1
JUMP: Final = 2
CONDITION: Final = 3
END: Final = 4

# The kind; the bytes of a set, byte `b` as bit `1 << b`; where a fork or a jump continues, and where else a fork does,
# counted in instructions from this one; the letter of a condition: `^`, `$`, `<`, `>`, `b` or `B`.
Instruction = tuple[int, int, int, int, bytes]
# A kind, what is searched for, and its program if it is a regular expression.
Predicate = tuple[int, bytes, list[Instruction]]
