#!/bin/sh
# Boots QEMU machines with their own kernels, deploys, reboots and checks them, compares a job's
# environment with the plan, and tests RDMA between two workers. Leaves the lab "kernel" up.
set -eu
cd "$(dirname "$0")/.."

LOCKSTEP_LAB="${LOCKSTEP_LAB:-kernel}"
export LOCKSTEP_LAB
started="$(date +%s)"
step() { printf '\n==> [%4d s] %s\n' "$(($(date +%s) - started))" "$*"; }
node() { .venv/bin/python -m lab run "$@"; }

step "machines: one head, $WORKERS workers, own kernels"
.venv/bin/python -m lab up --kernel own --workers "$WORKERS"

step "deploy: pyinfra -y inventories/lab.py deploys/cluster.py"
.venv/bin/pyinfra -y inventories/lab.py deploys/cluster.py

step "reboot: pyinfra -y inventories/lab.py deploys/reboot.py"
.venv/bin/pyinfra -y inventories/lab.py deploys/reboot.py

step "metrics: every Prometheus target"
.venv/bin/python scripts/prometheus_targets.py inventories/lab.py

step "check: lockstep check inventories/lab.py"
.venv/bin/lockstep check inventories/lab.py

step "job: its environment, compared with lockstep plan"
.venv/bin/python scripts/job_environment.py inventories/lab.py

step "RDMA: ib_write_bw between two workers, through the scheduler"
node head -- sh -c 'f=$(mktemp) && cat >"$f" && sh "$f" --immediate=120 && rm "$f"' \
    <scripts/rdma_pair.sh

step "done: the lab is up"
cat <<END
    machines    LOCKSTEP_LAB=$LOCKSTEP_LAB .venv/bin/python -m lab status
    plan        LOCKSTEP_LAB=$LOCKSTEP_LAB .venv/bin/lockstep plan inventories/lab.py worker1
    repair      LOCKSTEP_LAB=$LOCKSTEP_LAB .venv/bin/pyinfra -y inventories/lab.py deploys/cluster.py
    reboot      LOCKSTEP_LAB=$LOCKSTEP_LAB .venv/bin/pyinfra -y inventories/lab.py deploys/reboot.py
    compare     LOCKSTEP_LAB=$LOCKSTEP_LAB .venv/bin/lockstep check inventories/lab.py
    remove it   .venv/bin/python -m lab --name $LOCKSTEP_LAB down
    remove all  make clean-lab
END
