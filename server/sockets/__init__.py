"""Where bytes arrive and leave: listeners, TLS, connections, the metrics endpoint."""
