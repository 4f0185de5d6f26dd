"""One module per command family; one declarative row per command."""
