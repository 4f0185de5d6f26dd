"""From DataFrames to streams: rows become entries, or settle the entries of a consumer group."""
