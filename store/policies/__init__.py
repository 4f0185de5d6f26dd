"""What a stream or a group does with its entries by itself: settings, due times, and their lines in files."""
