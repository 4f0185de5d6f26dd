"""The values besides streams and strings: hashes, lists, sets and sorted sets."""
