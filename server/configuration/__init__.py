"""The directives, their values, and where they are read from."""
