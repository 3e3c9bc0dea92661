#!/bin/sh
# Runs the tests. Whatever lab a test brings up is gone afterwards, also after an interrupt.
set -eu
cd "$(dirname "$0")/.."

if [ "$(id -u)" -ne 0 ]; then
    echo "ERROR make test boots machines (systemd-nspawn) and needs root" >&2
    echo "  next  run it as root; without: .venv/bin/pytest -m 'not lab and not slow'" >&2
    exit 1
fi
.venv/bin/python -m lab setup

clean() { .venv/bin/python tests/lab/remove_labs.py; }
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ "${1:-}" = --slow ]; then
    .venv/bin/pytest -m slow tests/lab
else
    .venv/bin/pytest -m "not slow"
fi
