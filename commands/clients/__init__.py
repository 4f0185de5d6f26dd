"""A client as commands see it: its state, what it waits for, and what it listens to."""
