#!/bin/bash
# A job in an unprivileged user's container: rootless Podman with the GPUs allocated by Slurm.
# Prints the allocated GPUs and those in the container. Run: srun --gres=gpu:N bash job_container.sh
set -eu

# A job has no login session, so podman(1) needs a folder for its runtime files.
XDG_RUNTIME_DIR="$(mktemp -d)"
export XDG_RUNTIME_DIR
trap 'rm -r "$XDG_RUNTIME_DIR"' EXIT
engine="podman --log-level error --cgroup-manager cgroupfs"
image=localhost/job-container:1

devices=""
for gpu in $(echo "$SLURM_STEP_GPUS" | tr , " "); do
    devices="$devices --device nvidia.com/gpu=$gpu"
done
$engine image exists "$image" || tar -C /usr -c bin/busybox | $engine import -q - "$image" >/dev/null
# shellcheck disable=SC2086  # each variable is a list of words
seen="$($engine run --rm --network none $devices "$image" /bin/busybox sh -c \
    'cd /dev; for gpu in nvidia[0-9]*; do echo "${gpu#nvidia}"; done' | sort -n | paste -sd,)"
echo "$(uname -n): GPUs $SLURM_STEP_GPUS allocated, $seen in its container"
