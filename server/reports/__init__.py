"""What the server reports about itself: INFO, metrics, memory, the server log."""
