"""What every command family stands on: the table, the context, clients as commands see them, keys and numbers."""
