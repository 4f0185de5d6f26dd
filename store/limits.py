"""The directives that decide how values are kept, shared by all values of a server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Limits:
    """The directives in force. Defaults are those of Redis 8.10.2."""

    # Of streams.
    node_size_max: int = 4096
    node_entries_max: int = 100
    idmp_duration_s: int = 100
    idmp_entries_max: int = 100
    # Whether the lag of a group is counted where Redis does not know it.
    counts_lag: bool = False
    # Up to which number of members, and which bytes of each, a value has its small encoding.
    hash_entries_max: int = 512
    hash_value_max: int = 64
    set_integers_max: int = 512
    set_entries_max: int = 128
    set_value_max: int = 64
    sorted_set_entries_max: int = 128
    sorted_set_value_max: int = 64
    # Elements of a node of a list if positive; otherwise a class of bytes, as `list-max-listpack-size` has it.
    list_node_max: int = -2
    # Bytes of a HyperLogLog with sparse registers.
    hyperloglog_size_max: int = 3000
