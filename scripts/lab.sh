#!/bin/sh
# Boots machines, deploys a Slurm cluster on them, checks it and runs a job. Leaves the lab up.
# With DESCRIPTION, an inventory file such as inventories/prod.py, the lab has that file's cluster.
set -eu
cd "$(dirname "$0")/.."

started="$(date +%s)"
step() { printf '\n==> [%3d s] %s\n' "$(($(date +%s) - started))" "$*"; }
node() { .venv/bin/python -m lab run "$@"; }

if [ -n "${DESCRIPTION:-}" ]; then
    step "machines: those of $DESCRIPTION, with $WORKERS workers"
    .venv/bin/python -m lab up --workers "$WORKERS" --description "$DESCRIPTION"
else
    step "machines: one head, $WORKERS workers, $OS"
    .venv/bin/python -m lab up --workers "$WORKERS" --os "$OS"
fi
# Names of the first head and of the first worker.
first() {
    .venv/bin/python -m lab status --json | .venv/bin/python -c "import json, sys
nodes = json.load(sys.stdin)['nodes']
print(next(node['name'] for node in nodes if node['role'] == '$1'))"
}
HEAD="$(first head)"
WORKER="$(first worker)"
GPUS="$(node "$WORKER" -- sh -c 'ls /dev | grep -c "^nvidia[0-9]"')"

step "deploy: pyinfra -y inventories/lab.py deploys/cluster.py"
.venv/bin/pyinfra -y inventories/lab.py deploys/cluster.py

step "metrics: every Prometheus target"
.venv/bin/python scripts/prometheus_targets.py inventories/lab.py

step "check: lockstep check inventories/lab.py --containers"
.venv/bin/lockstep check inventories/lab.py --containers

step "job: srun -N$WORKERS --gres=gpu:$GPUS"
node "$HEAD" -- srun --immediate=60 -N"$WORKERS" --gres=gpu:"$GPUS" \
    sh -c 'echo "$(uname -n): GPUs $CUDA_VISIBLE_DEVICES"'

# Whether jobs in containers are expected; $1 is a file of the program that runs them. The lab's own
# cluster has container engines on Debian 13 only (docs/nvidia.md).
expected() {
    if [ -n "${DESCRIPTION:-}" ]; then node "$WORKER" -- test -e "$1"; else [ "$OS" = debian_13 ]; fi
}
if expected /usr/bin/podman; then
    step "job in a container: srun --gres=gpu:2 bash scripts/job_container.sh"
    # The lab has no shared file system, so copy the script to the node.
    node "$WORKER" -- sh -c 'cat > /tmp/job_container.sh' < scripts/job_container.sh
    .venv/bin/python -m lab ssh "$HEAD" -- srun --immediate=60 -w "$WORKER" --gres=gpu:2 \
        bash /tmp/job_container.sh
fi
if expected /etc/slurm/plugstack.conf.d/50-lockstep-pyxis.conf; then
    step "job with pyxis: srun --gres=gpu:3 --container-image=/tmp/image.sqsh"
    node "$WORKER" -- sh -c 'cat > /tmp/job_image.sh' < scripts/job_image.sh
    .venv/bin/python -m lab ssh "$WORKER" -- sh /tmp/job_image.sh /tmp/image
    .venv/bin/python -m lab ssh "$HEAD" -- srun --immediate=60 -w "$WORKER" --gres=gpu:3 \
        --container-image=/tmp/image.sqsh /bin/busybox ls /dev | grep '^nvidia[0-9]' | paste -sd' '
fi

step "done: the lab is up"
cat <<END
    machines    .venv/bin/python -m lab status
    shell       .venv/bin/python -m lab ssh $WORKER
    Slurm       .venv/bin/python -m lab run $HEAD -- sinfo
    repair      .venv/bin/pyinfra -y inventories/lab.py deploys/cluster.py
    compare     .venv/bin/lockstep check inventories/lab.py --containers
    break one   .venv/bin/python -m lab run $WORKER -- nvidia-smi -i 3 -pl 350
    remove all  make clean-lab
END
