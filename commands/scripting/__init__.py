"""Lua scripts beside streams: the sandbox, what crosses its border, and the commands that scripts call."""
