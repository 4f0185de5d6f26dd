"""Commands on hashes."""
