#!/bin/bash
# Stands in for enroot's hook: NVIDIA_VISIBLE_DEVICES says which boards the container gets.
set -euo pipefail

case "${NVIDIA_VISIBLE_DEVICES:-void}" in void) exit 0 ;; esac
capabilities="${NVIDIA_DRIVER_CAPABILITIES:-utility}"
exec nvidia-container-cli --user configure --no-cgroups "--device=$NVIDIA_VISIBLE_DEVICES" \
    $(printf -- "--%s " ${capabilities//,/ }) "$ENROOT_ROOTFS"
