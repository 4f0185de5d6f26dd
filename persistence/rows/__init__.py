"""The form of a dataset between two Headrace servers: streams as the store holds them, in blocks with checksums."""
