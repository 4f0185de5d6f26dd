"""Keys that are removed when memory is short: `maxmemory-policy`."""
