"""XACKIF: what only the owner of a pending entry may do. It is not in Redis."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.errors import GenericError, syntax_error
from ...store.ids import StreamID, format_id, parse_ids
from ..core.table import Argument, Flag, command
from ..execution.context import Context
from ..policies.handing import note_dropped
from .entries import IDS_ARGUMENT, KEY_ARGUMENT, NUMIDS_MISMATCH, parse_ids_count
from .pending import GROUP_ARGUMENT, WRITE_KEY, find_group

# The place of the first ID.
FIRST_ID: Final = 6

# The results for an ID.
NOT_PENDING: Final = -1
DONE: Final = 1
OWNED_BY_ANOTHER: Final = 2
RELEASED: Final = 3


@command(
    "XACKIF",
    arity=-7,
    flags=Flag.WRITE | Flag.FAST,
    keys=WRITE_KEY,
    categories=("stream",),
    group="stream",
    since="headrace 0.1",
    summary="Acknowledges the entries that this consumer still owns.",
    complexity="O(1) for each ID.",
    arguments=(KEY_ARGUMENT, GROUP_ARGUMENT, Argument("consumer"), IDS_ARGUMENT),
    differs="Not in Redis. The log gets XACK.",
)
def xackif(context: Context, argv: list[bytes]) -> Reply:
    """XACKIF key group consumer IDS numids id [id ...]

    So a worker that was too slow does not acknowledge what another works on by now. Returns for each ID 1
    (acknowledged), -1 (not pending here), 2 (another consumer owns it) or 3 (released: it has no owner).
    Raises WrongType, GenericError.
    """
    found = find_group(context, argv[1], argv[2])
    if argv[4].upper() != b"IDS":
        raise syntax_error()
    missing_count = parse_ids_count(argv[5]) - len(argv) + FIRST_ID
    if missing_count > 0:
        raise GenericError(NUMIDS_MISMATCH)
    if missing_count < 0:
        raise syntax_error()
    ids = parse_ids(argv, FIRST_ID)
    if found is None:
        return [NOT_PENDING] * len(ids)
    group = found[1]
    pending, consumer = group.pending, group.consumers.get(argv[3])
    results: list[int] = []
    done: list[StreamID] = []
    for entry_id in ids:
        delivery = pending.get(entry_id)
        if delivery is None:
            results.append(NOT_PENDING)
        elif delivery.consumer is None:
            results.append(RELEASED)
        elif delivery.consumer is not consumer:
            results.append(OWNED_BY_ANOTHER)
        else:
            pending.drop(entry_id)
            done.append(entry_id)
            results.append(DONE)
    if done:
        pending.acked_total += len(done)
        context.log_words([b"XACK", argv[1], group.name, *map(format_id, done)], len(done))
        if pending.rules is not None:
            note_dropped(context, argv[1], group)
    return results
