from array import array

from .node_sizes import Continued, Opened, OpenNode

IS_COMPILED: bool

def count_run(
    data: bytes, ms: array[int], seq: array[int], size_max: int, entries_max: int, node: OpenNode | None
) -> tuple[Continued, list[Opened]]: ...
