"""Commands on sorted sets of places."""
