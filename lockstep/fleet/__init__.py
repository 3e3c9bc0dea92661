"""How all nodes are reached at once: connections, shards, Slurm, ClusterShell, progress."""
