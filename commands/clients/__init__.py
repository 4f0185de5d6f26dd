"""A client as commands see it: its state, its waits, and its subscriptions."""
