"""The stream commands: entries, consumer groups, pending entries."""
