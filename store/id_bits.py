"""The place of the two halves of an entry ID in one integer: `ms << SEQ_BITS | seq`.

Why 72: Python's hash of an integer is its remainder modulo 2**61 - 1. With a shift of 64 the factor of `ms` would be 8
in the hash, so `ms-seq` and `(ms+1)-(seq-8)` would have equal hashes. With a hundred entries per millisecond twelve IDs
each would share a hash, and a dictionary lookup would take a microsecond. With a shift of 72 the factor is 2048.
"""

from __future__ import annotations

from typing import Final

SEQ_BITS: Final = 72
SEQ_MASK: Final = (1 << SEQ_BITS) - 1
