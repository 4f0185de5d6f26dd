"""`headrace-compare`: compares the datasets of two servers that run, each a Headrace or a Redis. It only reads."""
