"""How one client is tracked: what CLIENT TRACKING asked for."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class TrackingMode:
    """How one client is tracked."""

    # The client to tell instead; 0 is the client itself.
    redirect_id: int = 0
    is_broadcast: bool = False
    # Only what is read right after CLIENT CACHING YES is remembered.
    opt_in: bool = False
    # All is, but what is read right after CLIENT CACHING NO.
    opt_out: bool = False
    # The client does not hear of its own changes.
    no_loop: bool = False
    # Of a broadcast, in the order in which they were given.
    prefixes: dict[bytes, None] = field(default_factory=dict)
    # Bytes of the prefixes, on both sides.
    prefixes_size: int = 0
    # CLIENT CACHING was given for the next command, or for the transaction that is open.
    has_caching_word: bool = False

    @property
    def remembers(self) -> bool:
        """Whether what the client reads now goes into the table."""
        if self.is_broadcast:
            return False
        return self.has_caching_word if self.opt_in else not (self.opt_out and self.has_caching_word)
