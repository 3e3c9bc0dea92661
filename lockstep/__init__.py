"""Lockstep: one typed description of a GPU cluster; apply it, then prove the nodes are equal."""
