#!/bin/sh
# Creates a container image for a job from this node's busybox: a folder, and a squashfs file with its content.
# Run: sh job_image.sh /tmp/image; then srun --container-image=/tmp/image.sqsh ...
set -eu

root="$1"
rm -rf "$root" "$root.sqsh"
mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/tmp"
cp /usr/bin/busybox "$root/bin/"
mksquashfs "$root" "$root.sqsh" -quiet -no-progress
