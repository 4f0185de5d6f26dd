"""Commands on the bits of strings."""
