"""Directives from the environment, for containers: `HEADRACE_APPENDONLY=yes` is `appendonly yes`.

The variable of a directive is `HEADRACE_` and its name in capitals, with underscores in place of dashes. A value is
taken whole (`HEADRACE_REQUIREPASS='two words'`), except by directives that take several words: these values are split
as in a file, and each line of the value is a line of the directive.

A variable that names no directive stops the start, since a misspelled HEADRACE_APPENDONLY must not cost the data.
Variables with other purposes are ignored: see OTHERS.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

from .directive_kinds import quote
from .directives import BY_NAME

PREFIX: Final = b"HEADRACE_"

# Variables with another purpose than naming a directive, without PREFIX.
OTHERS: Final = re.compile(
    # The tools and tests of Headrace itself.
    rb"(TEST|ORACLE)(_.*)?|COMPILE|REQUIRE_(ORACLE|CLIENTS|SPARK|COMPILED|REDIS7)|CRASH_CYCLES|SUBJECT"
    # Variables that Docker links and Kubernetes set in containers next to a service with the name headrace.
    rb"|NAME|ENV_.*|SERVICE_(HOST|PORT.*)|PORT_[0-9]+_(TCP|UDP).*"
)

# The HEADRACE_PORT of such a service, which is not a port to listen on.
SERVICE_ADDRESS: Final = re.compile(rb"(tcp|udp)://\S+")


def variable_name(directive: bytes) -> str:
    """The variable that sets a directive: `stream-node-max-bytes` is HEADRACE_STREAM_NODE_MAX_BYTES."""
    return os.fsdecode(PREFIX + directive.upper().replace(b"-", b"_"))


def environment_lines(environment: Mapping[bytes, bytes]) -> Iterator[tuple[str, bytes]]:
    """(variable, configuration line) of each variable with our prefix, by name.

    Unknown directives are included: the reader of the line refuses them.
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
