"""Errors of the benchmark."""


class BenchmarkError(Exception):
    """A requirement is missing or a command failed; the message has the next step."""
