"""Sockets: listeners, TLS, connections, the metrics endpoint."""
