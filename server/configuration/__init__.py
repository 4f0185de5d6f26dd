"""The directives, their values, and their sources."""
