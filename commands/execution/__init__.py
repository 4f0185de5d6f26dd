"""Running a command: the context of its handler, the permissions of its user, and the statistics."""
