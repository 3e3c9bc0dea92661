"""Importing this module makes the package ``lab`` importable.

A checkout has it at its root. The wheel has it inside Lockstep, so that it installs no second name
that a site could use for a package of its own.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "test_machines"))
