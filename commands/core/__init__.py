"""What every command family stands on: the table of commands, keys, numbers and sizes of requests."""
