"""Reads all nodes of a cluster at once: directly over ssh, or through Slurm or ClusterShell."""
