"""Measures what huge pages and CPU sets change for a job; docs/kernel-settings.md explains."""
