"""Running a command: what its handler may see and do, what its user permits, and what is counted."""
