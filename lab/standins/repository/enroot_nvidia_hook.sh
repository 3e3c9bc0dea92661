#!/bin/bash
# Simulates enroot's hook: the container gets the GPUs in NVIDIA_VISIBLE_DEVICES.
set -euo pipefail

case "${NVIDIA_VISIBLE_DEVICES:-void}" in void) exit 0 ;; esac
capabilities="${NVIDIA_DRIVER_CAPABILITIES:-utility}"
exec nvidia-container-cli --user configure --no-cgroups "--device=$NVIDIA_VISIBLE_DEVICES" \
    $(printf -- "--%s " ${capabilities//,/ }) "$ENROOT_ROOTFS"
