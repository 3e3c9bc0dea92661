"""Checks: rules as data, and the engine that compares records with the spec and the peers."""
