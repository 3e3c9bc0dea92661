#!/bin/bash
# A job in a container, as an ordinary user: Podman without root, with the GPUs that Slurm gave.
# Prints what was allocated and what the container sees. For: srun --gres=gpu:N bash job_container.sh
set -eu

# A job has no login session: podman(1) needs a folder for its run-time files.
XDG_RUNTIME_DIR="$(mktemp -d)"
export XDG_RUNTIME_DIR
trap 'rm -r "$XDG_RUNTIME_DIR"' EXIT
engine="podman --log-level error --cgroup-manager cgroupfs"
image=localhost/job-container:1

devices=""
for board in $(echo "$SLURM_STEP_GPUS" | tr , " "); do
    devices="$devices --device nvidia.com/gpu=$board"
done
$engine image exists "$image" || tar -C /usr -c bin/busybox | $engine import -q - "$image" >/dev/null
# shellcheck disable=SC2086  # a list of words each
seen="$($engine run --rm --network none $devices "$image" /bin/busybox sh -c \
    'cd /dev; for board in nvidia[0-9]*; do echo "${board#nvidia}"; done' | sort -n | paste -sd,)"
echo "$(uname -n): GPUs $SLURM_STEP_GPUS allocated, $seen in its container"
