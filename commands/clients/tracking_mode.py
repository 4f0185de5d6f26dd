"""How one client is tracked: the options of its CLIENT TRACKING."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class TrackingMode:
    """How one client is tracked."""

    # The client that gets the invalidations; 0 is the client itself.
    redirect_id: int = 0
    is_broadcast: bool = False
    # Whether only keys read right after CLIENT CACHING YES are remembered.
    opt_in: bool = False
    # Whether all keys are remembered except those read right after CLIENT CACHING NO.
    opt_out: bool = False
    # Whether the client's own changes are not sent to it.
    no_loop: bool = False
    # The prefixes of a broadcast, in the order in which they were given.
    prefixes: dict[bytes, None] = field(default_factory=dict)
    # Bytes of the prefixes, in the tables of prefixes and of clients.
    prefixes_size: int = 0
    # Whether CLIENT CACHING was given for the next command, or for the open transaction.
    has_caching_choice: bool = False

    @property
    def remembers(self) -> bool:
        """Whether the keys that the client reads now are remembered."""
        if self.is_broadcast:
            return False
        return self.has_caching_choice if self.opt_in else not (self.opt_out and self.has_caching_choice)
