"""SORT and SORT_RO."""
