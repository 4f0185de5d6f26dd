"""Modules that all command families use: the table of commands, keys, numbers and sizes of requests."""
