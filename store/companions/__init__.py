"""The values besides streams and strings: hashes and sets."""
