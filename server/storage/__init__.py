"""The stored dataset: the append-only log, snapshots, loading."""
