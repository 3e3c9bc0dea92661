"""What ends a run of the benchmark."""


class BenchmarkError(Exception):
    """Something is missing or failed; the message says what helps."""
