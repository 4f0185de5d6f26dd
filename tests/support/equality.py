"""Whether two real servers have the same data: their digests, and every value that `headrace-compare` looks at."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

from headrace.comparison.main import main
from support.servers import Server
from support.wire import Wire

# Redis' digest goes through all places of an array, also the empty ones: seconds for some millions.
ARRAY_LENGTH_MAX = 100_000
DATABASES_COUNT = 16


def differences(a: Server, b: Server) -> str:
    """What is not the same, with `a` as A and `b` as B; empty if the data are equal."""
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = main([f"127.0.0.1:{a.port}", f"127.0.0.1:{b.port}", "--rounds", "2"])
    found = "" if code == 0 else f"{a.folder.name} is A, {b.folder.name} is B:\n{output.getvalue()}"
    with a.connect() as one, b.connect() as other:
        if not found and not has_long_array(one):
            digests = [wire.ask("DEBUG", "DIGEST") for wire in (one, other)]
            if digests[0] != digests[1]:
                found = f"the digests of {a.folder.name} and {b.folder.name} differ: {digests}"
    return found


def has_long_array(wire: Wire) -> bool:
    """Whether there is an array in any database whose digest takes Redis long."""
    is_found = False
    for index in range(DATABASES_COUNT):
        wire.call("SELECT", index)
        for key in wire.ask("KEYS", "*"):
            is_array = wire.ask("TYPE", key) == b"array"
            is_found = is_found or (is_array and int(wire.ask("ARLEN", key)) > ARRAY_LENGTH_MAX)
    wire.call("SELECT", 0)
    return is_found
