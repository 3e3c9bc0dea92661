"""What a node judges by itself: one program beside the probe, standard library only.

Slurm runs it as its health check, prolog and epilog, a timer for metrics (docs/node-check.md).
"""
