#!/bin/bash
# Simulates apptainer exec: runs a sandbox folder as a container with unshare(1). It provides the
# same devices as the real program: all of /dev without --contain; otherwise a few, all GPUs with
# --nv, and CDI devices with --device.
set -euo pipefail

fail() { echo "FATAL:   $*" >&2; exit 255; }

# nvidia-ctk writes the name of a device before its nodes; the nodes of all devices are below
# "containerEdits:".
cdi_nodes() {
    awk -v name="${1#nvidia.com/gpu=}" '
        /^[a-z]/ { every = ($1 == "containerEdits:") }
        $1 == "-" && $2 == "name:" { gsub(/"/, ""); current = $3 }
        $1 == "-" && $2 == "path:" && $3 ~ /^\/dev\// && (every || current == name) { print $3 }' \
        /var/run/cdi/nvidia.yaml | sort -u
}

inside() {
    rootfs="$1" uid="$2" gid="$3" contain="$4" devices="$5"
    shift 5
    mount --bind "$rootfs" "$rootfs"
    mkdir -p "$rootfs/proc" "$rootfs/dev" "$rootfs/tmp"
    mount --rbind /proc "$rootfs/proc"
    if [ -n "$contain" ]; then
        mount -t tmpfs -o mode=755 tmpfs "$rootfs/dev"
        mount -t tmpfs tmpfs "$rootfs/tmp"
        for device in /dev/null /dev/zero /dev/random /dev/urandom $devices; do
            touch "$rootfs$device"
            mount --bind "$device" "$rootfs$device"
        done
    else
        mount --rbind /dev "$rootfs/dev"
        mount --rbind /tmp "$rootfs/tmp"
    fi
    exec unshare --user --map-user="$uid" --map-group="$gid" --root="$rootfs" --wd=/ -- "$@"
}

case "${1-}" in
--version) echo "apptainer version @VERSION@"; exit 0 ;;
inside) shift; inside "$@" ;;
exec) shift ;;
*) fail "apptainer (simulated): unsupported command: ${1-}" ;;
esac
contain="" devices=""
while :; do
    case "${1-}" in
    -c | --contain) contain=yes; shift ;;
    --nv) devices="$devices $(ls /dev/nvidia* | tr '\n' ' ')"; shift ;;
    --device) devices="$devices $(cdi_nodes "$2" | tr '\n' ' ')"; shift 2 ;;
    -*) fail "unknown flag: $1" ;;
    *) break ;;
    esac
done
[ -d "${1-}" ] || fail "could not open image ${1-}"
rootfs="$(realpath "$1")"
shift
devices="$(echo "$devices" | tr ' ' '\n' | sort -u | tr '\n' ' ')"
exec unshare --user --map-root-user --mount -- \
    "$0" inside "$rootfs" "$(id -u)" "$(id -g)" "$contain" "$devices" "$@"
