"""Loads the plugin where pytest is given the path of this folder: ``pytest tests/consistency``."""

pytest_plugins = ("lockstep.consistency.plugin",)
