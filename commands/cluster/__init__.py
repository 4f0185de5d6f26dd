"""The commands of a cluster, which are refused."""
