"""The data: streams, groups, pending entries, strings and expiry, without I/O, clock or randomness."""
