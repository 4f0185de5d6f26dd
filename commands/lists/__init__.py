"""Commands of lists."""
