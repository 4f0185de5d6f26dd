"""Users, their rules, and the log of refusals. Imports the command table, not the server."""
