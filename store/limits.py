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
    # From which number of fields on, and up to which, a hash takes an encoding of HIMPORT when a command sets fields,
    # and when it is loaded from a file without such hashes. 0 is none, or no end.
    template_entries_min: int = 0
    template_entries_max: int = 0
    loaded_template_entries_min: int = 0
    loaded_template_entries_max: int = 0
    # From how many loaded hashes with the same fields on they keep that encoding. 0 is any number.
    loaded_template_hashes_min: int = 0
    set_integers_max: int = 512
    set_entries_max: int = 128
    set_value_max: int = 64
    sorted_set_entries_max: int = 128
    sorted_set_value_max: int = 64
    # Elements of a node of a list if positive; otherwise a class of bytes, as `list-max-listpack-size` has it.
    list_node_max: int = -2
    # Places of a slice of a new array, a power of two. Elements up to which a dense slice becomes sparse, and a sparse
    # one stays so.
    array_slice_size: int = 4096
    array_sparse_min: int = 5
    array_sparse_max: int = 10
    # Bytes of a HyperLogLog with sparse registers.
    hyperloglog_size_max: int = 3000
