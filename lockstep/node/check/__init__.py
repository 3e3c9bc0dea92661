"""The node check: a program with which a worker checks itself. Standard library only.

Slurm runs it as the health check, the prolog and the epilog; a timer runs it to write metrics
(docs/node-check.md).
"""
