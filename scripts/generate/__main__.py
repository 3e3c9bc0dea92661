"""Write every generated file that is out of date, and print its name.

The names of readings and rules are written first. If they changed, the program restarts: the
library reads them at import, and the other documents depend on them.
"""

from __future__ import annotations

import os
import sys

from scripts.generate import check_names
from scripts.generate.documents import ROOT, obsolete, wanted, write_changed


def main() -> None:
    """Write the files that are out of date, and remove obsolete ones."""
    if problems := check_names.problems():
        sys.exit("\n".join(problems))
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
    print(f"{len(files)} generated files: {current} were up to date. Next: git diff")


if __name__ == "__main__":
    main()
