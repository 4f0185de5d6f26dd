"""The records of streams: the words that are written for each effect, and where a reader finds them."""
