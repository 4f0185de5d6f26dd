from collections.abc import Mapping

from ...store.value import Value

def encode_strings(
    pairs: list[tuple[bytes, bytes]], start: int, expires: Mapping[bytes, int], compress: bool
) -> tuple[bytes, int]: ...
def read_strings(block: bytes, position: int) -> tuple[list[tuple[bytes, Value, int | None]], int]: ...
