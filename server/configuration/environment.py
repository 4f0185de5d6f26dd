"""Directives from the environment, for containers: `HEADRACE_APPENDONLY=yes` is `appendonly yes`.

The variable of a directive is its name in capitals, dashes as underscores, behind `HEADRACE_`. A value is taken whole
(`HEADRACE_REQUIREPASS='two words'`), except by directives that take several words: these are split as in a file, and
each line of the value is a line of the directive.

A variable that names no directive stops the start, as a misspelt HEADRACE_APPENDONLY must not cost the data. Those
that others set are passed over: see OTHERS.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

from .directive_kinds import quote
from .directives import BY_NAME

PREFIX: Final = b"HEADRACE_"

# What may follow PREFIX without naming a directive.
OTHERS: Final = re.compile(
    # The tools and tests of Headrace itself.
    rb"(TEST|ORACLE)(_.*)?|COMPILE|REQUIRE_(ORACLE|CLIENTS|SPARK|COMPILED)|CRASH_CYCLES|SUBJECT"
    # What Docker links and Kubernetes tell the containers beside a service that is called headrace.
    rb"|NAME|ENV_.*|SERVICE_(HOST|PORT.*)|PORT_[0-9]+_(TCP|UDP).*"
)

# The HEADRACE_PORT of such a service, which is not meant for its server.
SERVICE_ADDRESS: Final = re.compile(rb"(tcp|udp)://\S+")


def variable_name(directive: bytes) -> str:
    """The variable that sets a directive: `stream-node-max-bytes` is HEADRACE_STREAM_NODE_MAX_BYTES."""
    return os.fsdecode(PREFIX + directive.upper().replace(b"-", b"_"))


def environment_lines(environment: Mapping[bytes, bytes]) -> Iterator[tuple[str, bytes]]:
    """(variable, configuration line) of each variable that is ours, by name.

    A directive that nobody knows is given too: refusing it is up to whoever reads the line.
    """
    for variable in sorted(environment):
        name = variable.removeprefix(PREFIX)
        value = environment[variable]
        if name == variable or OTHERS.fullmatch(name) or (name == b"PORT" and SERVICE_ADDRESS.fullmatch(value)):
            continue
        directive = name.lower().replace(b"_", b"-")
        row = BY_NAME.get(directive)
        for text in [quote(value)] if row is not None and not row.kind.several_words else value.split(b"\n"):
            yield os.fsdecode(variable), directive + b" " + text
