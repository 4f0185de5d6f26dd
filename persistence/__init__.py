"""The append-only file: records, files and replay."""
