"""pyinfra's ssh connector with a record of each host, so that a deploy needs fewer round trips.

Nothing in this package decides what to change on a node. With ``LOCKSTEP_FAST=0``, each question
runs a command on the node, as in pyinfra. Even then, the connector is used, because it
keeps a failing node from affecting the others.
"""
