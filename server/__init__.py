"""The event-loop side: listener, connections, dispatch, waiters, configuration and lifecycle."""
