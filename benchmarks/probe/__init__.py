"""Measures the cost of reading a node: seconds, CPU seconds and commands."""
