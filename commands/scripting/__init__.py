"""Lua scripts: the sandbox, conversion of values, and the commands that run and manage scripts."""
