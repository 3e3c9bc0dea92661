"""What lets a machine that shares the host's kernel be a node of Kubernetes.

A container engine and a kubelet expect a kernel of their own: control group controllers, a file
system below the images that an overlay can lie on, /dev/kmsg, and sysctls that they may write.
"""

from __future__ import annotations

from pathlib import Path

from lab.gpus import ON_NODE

FOLDER = "usr/lib/lockstep-standin"
RUNC = "usr/local/sbin/runc"
"""Before /usr/sbin in the path of services (systemd.exec(5)), so containerd finds it first."""
LIGHT_CONTAINER = f"{FOLDER}/light-container"
RUNC_TEXT = f"""#!/bin/sh
# Lab only: takes limits out of containers where the machine has no control group controllers.
case " $* " in
*" create "* | *" run "*) /{LIGHT_CONTAINER} "$@" || exit ;;
esac
exec /usr/sbin/runc "$@"
"""
PREPARE = f"{FOLDER}/prepare-kubernetes"
# What kubelet reads at its start, and writes if it differs (setupKernelTunables in
# pkg/kubelet/cm/container_manager_linux.go, k8s.io/component-helpers/node/util/sysctl).
SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
}
PREPARE_TEXT = f"""#!/bin/sh
# Lab only: kubelet reads /dev/kmsg, and writes these sysctls, which belong to the host's kernel.
set -eu
# Not a link: ProtectKernelLogs= of a unit would take /dev/null away with it (systemd.exec(5)).
: > /dev/kmsg
mount --bind /dev/null /dev/kmsg
mkdir -p /run/lockstep-standin
while read -r name value; do
    file=/run/lockstep-standin/$(echo "$name" | tr / .)
    echo "$value" > "$file"
    mount --bind "$file" "/proc/sys/$name"
done << END
{chr(10).join(f"{name} {value}" for name, value in SYSCTLS.items())}
END
"""
UNIT = "lockstep-standin-kubernetes.service"
UNIT_TEXT = f"""[Unit]
Description=Files of the kernel that Kubernetes expects, in a machine of the lab
DefaultDependencies=no
After=local-fs.target systemd-journald.service
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/{PREPARE}

[Install]
WantedBy=sysinit.target
"""
BOUND = "/var/lib/containerd"
"""On the host's own file system: an overlay cannot lie on the machine's, which is one itself."""


def install(root: Path) -> None:
    """Install it on the disk of a machine; idempotent."""
    for name, text, mode in (
        (RUNC, RUNC_TEXT, 0o755),
        (LIGHT_CONTAINER, (ON_NODE / "light_container.py").read_text(), 0o755),
        (PREPARE, PREPARE_TEXT, 0o755),
        (f"etc/systemd/system/{UNIT}", UNIT_TEXT, 0o644),
    ):
        path = root / name
        if path.exists() and path.read_text() == text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
    link = root / "etc/systemd/system/sysinit.target.wants" / UNIT
    if not link.is_symlink():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"/etc/systemd/system/{UNIT}")
