#!/bin/sh
# What CI runs. It contacts no node, and ends at the first step that fails.
set -eu
cd "$(dirname "$0")/.."
: "${INVENTORY:=inventories/prod.py}" "${RECORDS:=records.json}"

step() { printf '\n==> %s\n' "$*"; }

step "environment: setup.sh"
sh setup.sh
PATH="$PWD/.venv/bin:$PATH"

step "description: lockstep plan $INVENTORY"
lockstep plan "$INVENTORY"

step "groups of hosts: pyinfra $INVENTORY debug-inventory"
# pyinfra prints the whole plan of every node; only a failure is worth reading.
said="$(pyinfra "$INVENTORY" debug-inventory 2>&1)" || {
    printf '%s\n' "$said"
    exit 1
}

step "tests: pytest tests"
pytest -q tests

if [ -e "$RECORDS" ]; then
    step "nodes, as they were recorded: lockstep check $INVENTORY --records $RECORDS"
    status=0
    lockstep check "$INVENTORY" --records "$RECORDS" --html report.html || status=$?

    step "the same as tests, one for each rule: pytest --pyargs lockstep.consistency"
    pytest -q --tb=no --pyargs lockstep.consistency --inventory "$INVENTORY" --records "$RECORDS" \
        --junit-xml nodes.xml || [ "$status" -ne 0 ] || status=1
    echo "For people: report.html. For the pages of CI: nodes.xml"
    exit "$status"
else
    step "nodes: not judged, because there is no $RECORDS"
    echo "To make it, where the nodes can be reached:"
    echo "lockstep check $INVENTORY --save-records $RECORDS"
fi
