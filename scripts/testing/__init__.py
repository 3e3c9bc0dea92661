"""Runs the project's tests: the suites, how they run, and the choice for CI."""
