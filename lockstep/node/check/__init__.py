"""The node check, a program that a worker runs to check itself. Standard library only.

Slurm runs it as the health check, the prolog and the epilog; a timer runs it to write metrics
(docs/node-check.md).
"""
