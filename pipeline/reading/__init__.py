"""From streams to DataFrames: ranges of entries (batch and log mode) and consumer groups (queue mode)."""
