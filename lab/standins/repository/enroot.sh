#!/bin/bash
# Simulates enroot: runs containers from squashfs files with unshare(1). It cannot import images,
# because the lab has no registry.
set -euo pipefail

fail() { echo "[ERROR] $*" >&2; exit 1; }

configure() {
    while IFS=$' \t=' read -r key value; do
        case "$key" in ENROOT_* | NVIDIA_* | MELLANOX_*) ;; *) continue ;; esac
        # The caller's environment takes precedence over the file, which has shell syntax.
        if [ -z "${!key+set}" ]; then export "$key=$(eval echo "$value")"; fi
    done < "$1"
}

# As root of the container's user namespace: mounts and hooks; then the command as the user.
inside() {
    rootfs="$1" uid="$2" gid="$3"
    shift 3
    mount --bind "$rootfs" "$rootfs"
    mkdir -p "$rootfs/proc" "$rootfs/sys" "$rootfs/dev" "$rootfs/tmp"
    mount --rbind /proc "$rootfs/proc"
    mount --rbind /sys "$rootfs/sys"
    mount -t tmpfs tmpfs "$rootfs/tmp"
    if [ "${ENROOT_RESTRICT_DEV:-no}" = yes ]; then
        mount -t tmpfs -o mode=755 tmpfs "$rootfs/dev"
        for device in zero null full random urandom; do
            touch "$rootfs/dev/$device"
            mount --bind "/dev/$device" "$rootfs/dev/$device"
        done
    else
        mount --rbind /dev "$rootfs/dev"
    fi
    export ENROOT_ROOTFS="$rootfs"
    for hook in /etc/enroot/hooks.d/*.sh; do
        if [ -x "$hook" ]; then "$hook" || fail "$hook exited with return code $?"; fi
    done
    exec unshare --user --map-user="$uid" --map-group="$gid" --root="$rootfs" --wd=/ -- "$@"
}

start() {
    while :; do
        case "${1-}" in -w | --rw) shift ;; --) shift; break ;; *) break ;; esac
    done
    [ $# -ge 1 ] || fail "Invalid argument"
    local rootfs="$ENROOT_DATA_PATH/$1" image="$1" unpacked=""
    shift
    if [ -f "$image" ]; then
        unpacked="$(mktemp -d "$ENROOT_RUNTIME_PATH/start.XXXXXX")"
        # shellcheck disable=SC2064  # expand the current value now
        trap "rm -rf '$unpacked'" EXIT
        rootfs="$unpacked/rootfs"
        unsquashfs -no-progress -quiet -dest "$rootfs" "$image" > /dev/null
    fi
    [ -d "$rootfs" ] || fail "No such file or directory: $rootfs"
    [ $# -ge 1 ] || set -- /bin/sh
    unshare --user --map-root-user --mount -- "$0" inside "$rootfs" "$(id -u)" "$(id -g)" "$@"
}

create() {
    local name=""
    while :; do
        case "${1-}" in -n | --name) name="$2"; shift 2 ;; -f | --force) shift ;; *) break ;; esac
    done
    [ -f "${1-}" ] || fail "No such file or directory: ${1-}"
    name="${name:-$(basename "$1" .sqsh)}"
    [ ! -e "$ENROOT_DATA_PATH/$name" ] || fail "File already exists: $ENROOT_DATA_PATH/$name"
    unsquashfs -no-progress -quiet -dest "$ENROOT_DATA_PATH/$name" "$1" > /dev/null
}

remove() {
    case "${1-}" in -f | --force) shift ;; esac
    [ -d "$ENROOT_DATA_PATH/${1:?}" ] || fail "No such file or directory: $ENROOT_DATA_PATH/$1"
    rm -rf "${ENROOT_DATA_PATH:?}/$1"
}

command="${1-}"
shift || fail "usage: enroot create, start, list, remove, version"
if [ "$command" = inside ]; then inside "$@"; fi
for file in /etc/enroot/enroot.conf /etc/enroot/enroot.conf.d/*.conf; do
    if [ -e "$file" ]; then configure "$file"; fi
done
: "${ENROOT_RUNTIME_PATH=/run/enroot}" "${ENROOT_DATA_PATH=${HOME-}/.local/share/enroot}"
(umask 077 && mkdir -p "$ENROOT_RUNTIME_PATH" "$ENROOT_DATA_PATH")
case "$command" in
create | start | remove) "$command" "$@" ;;
list) ls -1 "$ENROOT_DATA_PATH" ;;
version) echo "@VERSION@" ;;
*) fail "enroot (simulated): unsupported command: $command" ;;
esac
