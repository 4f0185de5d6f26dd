"""How one client is tracked: the options of its CLIENT TRACKING."""

from __future__ import annotations


class TrackingMode:
    """How one client is tracked. It is no dataclass, because a compiled dataclass is slower."""

    __slots__ = (
        "has_caching_choice", "is_broadcast", "no_loop", "opt_in", "opt_out", "prefixes", "prefixes_size",
        "redirect_id",
    )  # fmt: skip

    def __init__(self) -> None:
        # The client that gets the invalidations; 0 is the client itself.
        self.redirect_id = 0
        self.is_broadcast = False
        # Whether only keys read right after CLIENT CACHING YES are remembered.
        self.opt_in = False
        # Whether all keys are remembered except those read right after CLIENT CACHING NO.
        self.opt_out = False
        # Whether the client's own changes are not sent to it.
        self.no_loop = False
        # The prefixes of a broadcast, in the order in which they were given.
        self.prefixes: dict[bytes, None] = {}
        # Bytes of the prefixes, in the tables of prefixes and of clients.
        self.prefixes_size = 0
        # Whether CLIENT CACHING was given for the next command, or for the open transaction.
        self.has_caching_choice = False

    @property
    def remembers(self) -> bool:
        """Whether the keys that the client reads now are remembered."""
        if self.is_broadcast:
            return False
        return self.has_caching_choice if self.opt_in else not (self.opt_out and self.has_caching_choice)
