"""Commands on keys of any type: existence, expiry, renaming, listing, DUMP."""
