"""Append-only files as events: their records, the splits that are scanned in parallel, and what each record did."""
