#!/bin/sh
# Runs the tests. Whatever lab a test brings up is gone afterwards, also after an interrupt.
set -eu
cd "$(dirname "$0")/.."

if [ "$(id -u)" -ne 0 ]; then
    echo "ERROR make test boots machines (systemd-nspawn) and needs root" >&2
    echo "  next  run it as root; without: .venv/bin/pytest -m 'not lab and not slow'" >&2
    exit 1
fi
case "${1:-}" in
    --kernel) kernel=own; chosen="kernel" ;;
    --slow) kernel=shared; chosen="slow" ;;
    *) kernel=shared; chosen="not slow and not kernel" ;;
esac
.venv/bin/python -m lab setup --kernel "$kernel"

clean() { .venv/bin/python tests/lab/remove_labs.py; }
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ $# -eq 0 ]; then set -- tests; else set -- tests/lab; fi
.venv/bin/pytest -m "$chosen" "$@"
