"""What pending entries are made of: consumers, deliveries and the table of both, in C where that was built."""

from __future__ import annotations

from typing import Final

try:
    from .pending_table import (
        BLOCK_COUNT_MAX,
        CONSUMER_SIZE,
        DELIVERY_SIZE,
        NEVER,
        Consumer,
        Delivery,
        PendingSlots,
        PendingTable,
        idle_states,
    )
except ImportError:  # there was no C compiler at installation
    from .pending_table_plain import (  # type: ignore[assignment]
        BLOCK_COUNT_MAX,
        CONSUMER_SIZE,
        DELIVERY_SIZE,
        NEVER,
        Consumer,
        Delivery,
        PendingSlots,
        PendingTable,
        idle_states,
    )

# What XNACK FATAL sets; counts saturate here.
DELIVERY_COUNT_MAX: Final = 2**63 - 1

__all__ = [
    "BLOCK_COUNT_MAX",
    "CONSUMER_SIZE",
    "DELIVERY_COUNT_MAX",
    "DELIVERY_SIZE",
    "NEVER",
    "Consumer",
    "Delivery",
    "PendingSlots",
    "PendingTable",
    "idle_states",
]
