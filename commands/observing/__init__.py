"""What watches commands: monitors, notifications, the slow log, latency."""
