"""What pytest loads in every run where Lockstep is installed: it turns the plugin on, or nothing.

An option such as ``--inventory`` would collide with options of other plugins and of a user's own
conftest.py, so the plugin is loaded only if the command line names it. pytest reads no conftest.py
of ``--pyargs PACKAGE`` before it parses the options, so a conftest.py cannot add them.
"""

from __future__ import annotations

import pytest

PACKAGE = __name__.rpartition(".")[0]


def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Load the plugin if the command line names a part of this package."""
    if any(argument.startswith(PACKAGE) for argument in args):
        early_config.pluginmanager.import_plugin(f"{PACKAGE}.plugin")
