"""Observers of commands: monitors, notifications, the slow log, latency, hot keys."""
