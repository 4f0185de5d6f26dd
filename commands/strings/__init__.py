"""Commands on strings."""
