"""``python -m scripts.testing TARGET``: what the Makefile's test targets run."""

import sys

from scripts.testing.run import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
