"""Replication without I/O: the history of a dataset, its last bytes, and the stream that replicas follow."""
