"""Write every generated file that is out of date, and name it.

The names of readings and rules are written first, and the program starts anew when they changed:
the library reads them while it is imported, and the other documents depend on them.
"""

from __future__ import annotations

import os
import sys

from scripts.generate import check_names
from scripts.generate.documents import ROOT, obsolete, wanted, write_changed


def main() -> None:
    """Write what is out of date and remove what is obsolete."""
    for name in write_changed(check_names.files()):
        print(f"written  {name}", flush=True)
        os.execv(sys.executable, [sys.executable, "-m", "scripts.generate"])
    files = wanted()
    changed = write_changed(files)
    left = obsolete(files)
    for name in left:
        (ROOT / name).unlink()
    for name in changed:
        print(f"written  {name}")
    for name in left:
        print(f"removed  {name}")
    current = len(files) - len(changed)
    print(f"{len(files)} generated files: {current} were current. Read the difference: git diff")


if __name__ == "__main__":
    main()
