"""Reads all nodes of a cluster at once: with its own processes, Slurm or ClusterShell."""
