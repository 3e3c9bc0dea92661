"""Measures the cost of the fingerprint on a node: CPU seconds of all processes that it occupies."""
