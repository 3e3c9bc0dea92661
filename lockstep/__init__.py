"""Lockstep: deploys a GPU cluster from a typed description and checks that its nodes are equal."""
