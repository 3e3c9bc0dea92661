"""One rule per file, found by existing. The docstring: why it matters, what it is blind to."""
