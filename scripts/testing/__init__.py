"""Runs the project's tests: which suites there are, how they run, and which of them CI chooses."""
