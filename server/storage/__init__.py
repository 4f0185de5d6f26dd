"""Keeping the dataset: the append-only log, snapshots, loading."""
