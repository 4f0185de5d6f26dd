"""What commands look like in the log: the words of their records."""
