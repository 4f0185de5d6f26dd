"""What watches the server: MONITOR, notifications, the slow log, latency."""
