"""Commands of arrays."""
