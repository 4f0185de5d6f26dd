"""What the server says of itself: INFO, metrics, memory, the server log."""
