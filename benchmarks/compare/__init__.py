"""Measures the cost of comparing many nodes: CPU seconds, memory, lines of output."""
