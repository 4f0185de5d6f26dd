"""Replicas of this server: their connections, snapshots for them, and the stream."""
