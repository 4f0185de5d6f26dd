"""Commands on HyperLogLogs."""
