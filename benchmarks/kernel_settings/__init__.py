"""Measures the effect of huge pages and CPU sets on a job; see docs/kernel-settings.md."""
