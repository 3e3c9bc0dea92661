#!/bin/sh
# Boots machines, deploys a Slurm cluster on them, checks it and runs a job. Leaves the lab up.
set -eu
cd "$(dirname "$0")/.."

started="$(date +%s)"
step() { printf '\n==> [%3d s] %s\n' "$(($(date +%s) - started))" "$*"; }
node() { .venv/bin/python -m lab run "$@"; }

step "machines: one head, $WORKERS workers, $OS"
.venv/bin/python -m lab up --workers "$WORKERS" --os "$OS"

step "deploy: pyinfra -y inventories/lab.py deploys/cluster.py"
.venv/bin/pyinfra -y inventories/lab.py deploys/cluster.py

step "metrics: every Prometheus target"
.venv/bin/python scripts/prometheus_targets.py inventories/lab.py

step "check: lockstep check inventories/lab.py --containers"
.venv/bin/lockstep check inventories/lab.py --containers

step "job: srun -N$WORKERS --gres=gpu:8"
node head -- srun --immediate=60 -N"$WORKERS" --gres=gpu:8 \
    sh -c 'echo "$(uname -n): GPUs $CUDA_VISIBLE_DEVICES"'

# The lab installs the driver and container engines on Debian 13 only (docs/nvidia.md).
if [ "$OS" = debian_13 ]; then
    step "job in a container: srun --gres=gpu:2 bash scripts/job_container.sh"
    # The lab has no shared file system, so copy the script to the node.
    node worker1 -- sh -c 'cat > /tmp/job_container.sh' < scripts/job_container.sh
    .venv/bin/python -m lab ssh head -- srun --immediate=60 -w worker1 --gres=gpu:2 \
        bash /tmp/job_container.sh

    step "job with pyxis: srun --gres=gpu:3 --container-image=/tmp/image.sqsh"
    node worker1 -- sh -c 'cat > /tmp/job_image.sh' < scripts/job_image.sh
    .venv/bin/python -m lab ssh worker1 -- sh /tmp/job_image.sh /tmp/image
    .venv/bin/python -m lab ssh head -- srun --immediate=60 -w worker1 --gres=gpu:3 \
        --container-image=/tmp/image.sqsh /bin/busybox ls /dev | grep '^nvidia[0-9]' | paste -sd' '
fi

step "done: the lab is up"
cat <<END
    machines    .venv/bin/python -m lab status
    shell       .venv/bin/python -m lab ssh worker1
    Slurm       .venv/bin/python -m lab run head -- sinfo
    repair      .venv/bin/pyinfra -y inventories/lab.py deploys/cluster.py
    compare     .venv/bin/lockstep check inventories/lab.py --containers
    break one   .venv/bin/python -m lab run worker1 -- nvidia-smi -i 3 -pl 350
    remove all  make clean-lab
END
