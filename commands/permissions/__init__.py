"""Who may do what: users, their rules, and the record of what was refused. Knows the command table, not the server."""
