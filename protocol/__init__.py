"""RESP2 and RESP3 without I/O: the request reader with its ceilings and the two reply encoders."""
