"""Contents of the disks of QEMU machines: package lists, files, scripts.

Plain data: ``lab.disk_image`` builds the disks from it. All of it is part of their cache key.
"""

from lab.state import NodeRole

# Packages that make a bare root file system bootable. The "cloud" kernel lacks rdma_rxe.
BOOT_PACKAGES = (
    "e2fsprogs",
    "grub-pc-bin",
    "grub2-common",
    "initramfs-tools",
    "linux-image-amd64",
    "qemu-guest-agent",
    "udev",
    "zstd",
)
# Packages that a deploy installs. They are preinstalled without emulation, which is ten times as
# fast, and are not configured, as after apt-get install.
PREINSTALLED: dict[NodeRole, tuple[str, ...]] = {
    "head": (
        "chrony",
        "libc6-dev",
        "locales",
        "mariadb-server",
        "munge",
        "prometheus",
        "prometheus-node-exporter",
        "slurm-client",
        "slurmctld",
        "slurmdbd",
        "tcc",
    ),
    "worker": (
        "chrony",
        "ibverbs-providers",
        "ibverbs-utils",
        "libc6-dev",
        "munge",
        "numactl",
        "perftest",
        "prometheus-node-exporter",
        "rdma-core",
        "rt-tests",
        "slurm-client",
        "slurmd",
        "tcc",
    ),
}
DISK_MIB = 8192
FIRST_SECTOR = 2048
"""First sector of the only partition; the boot loader is in the gap before it."""

RXE_UNIT = "lockstep-standin-rxe.service"
# A deploy expects existing RDMA devices; it never creates them.
RXE_TEXT = r"""# Lab only: software RoCE simulates the RDMA NIC of a real worker.
[Unit]
Description=Simulated RDMA NIC: software RoCE over fabric0 (lab only)
BindsTo=sys-subsystem-net-devices-fabric0.device
After=sys-subsystem-net-devices-fabric0.device network.target
Before=slurmd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=modprobe rdma_rxe
ExecStart=sh -c 'rdma link show | grep -q "netdev fabric0" || \
    rdma link add rxe0 type rxe netdev fabric0'

[Install]
WantedBy=multi-user.target
"""
# Without it, slurmd searches for its controller in DNS for 90 seconds at every boot before the
# first deploy.
SLURMD_TEXT = """# Lab only: the package is installed before the deploy that configures it.
[Unit]
ConditionPathExists=/etc/slurm/slurm.conf
"""
# Path on the disk -> content. @UUID@ is the file system's.
FILES = {
    "etc/fstab": "UUID=@UUID@ / ext4 errors=remount-ro 0 1\n",
    "etc/default/grub": (
        "GRUB_DEFAULT=0\n"
        "GRUB_TIMEOUT=0\n"
        "GRUB_DISTRIBUTOR=Debian\n"
        'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'
        # nokaslr: in 4 GiB, a randomly placed kernel can split the NUMA node's only block that is
        # large enough for a 1 GiB page (observed: 0 of 1 pages after one boot in six).
        # panic: emulated processors sometimes crash while the kernel patches its own code (observed
        # in enqueue_timer, 1 s after boot); rebooting usually helps.
        'GRUB_CMDLINE_LINUX="console=ttyS0 nokaslr panic=1"\n'
        "GRUB_TERMINAL=console\n"
    ),
    # Only the modules to mount the disk: an emulated processor unpacks the initramfs.
    "etc/initramfs-tools/conf.d/lab": "MODULES=list\n",
    "etc/initramfs-tools/modules": "virtio_pci\nvirtio_blk\next4\n",
}
FILES_OF: dict[NodeRole, dict[str, str]] = {
    "head": {},
    "worker": {
        f"etc/systemd/system/{RXE_UNIT}": RXE_TEXT,
        "usr/lib/systemd/system/slurmd.service.d/10-lab.conf": SLURMD_TEXT,
    },
}
UNITS_OF: dict[NodeRole, tuple[str, ...]] = {
    "head": ("systemd-networkd.service",),
    "worker": ("systemd-networkd.service", RXE_UNIT),
}

# All mounts below disappear with their mount namespace, however the script ends.
# $1: disk, $2: empty folder for the mount.
_MOUNT = f"""
disk=$1 root=$2
mount -t tmpfs run /run
mkdir /run/loop
mount -o loop,offset={FIRST_SECTOR * 512},noatime,nobarrier "$disk" /run/loop
# Use another device name: update-grub writes no entry for a root file system on a loop device.
device=$(findmnt -no SOURCE /run/loop)
cp -a "$device" /run/disk0
mount -o noatime,nobarrier /run/disk0 "$root"
"""
_ENTER = """
mount -t tmpfs -o mode=755 devices "$root/dev"
for name in null zero full random urandom tty; do cp -a "/dev/$name" "$root/dev/"; done
mkdir -p "$root/dev/pts" "$root/dev/shm" "$root/dev/disk/by-uuid"
ln -s /proc/self/fd "$root/dev/fd"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs tmp "$root/tmp"
mount -t tmpfs run "$root/run"
cp -a "$device" "$root/run/disk0"
ln -s /run/disk0 "$root/dev/disk/by-uuid/$(blkid -o value -s UUID "$device")"
printf '#!/bin/sh\\nexit 101\\n' > "$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
cp -a "$3/." "$root/"
"""
_LEAVE = """
rm "$root/usr/sbin/policy-rc.d"
umount "$root/run" "$root/tmp" "$root/sys" "$root/proc" "$root/dev"
umount "$root"
umount /run/loop
"""
_INSTALL = """
# DPkg::Use-Pty: apt's own terminal needs /dev/pts.
apt() {
    chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Use-Pty=0 \\
        -o DPkg::Options::=--force-unsafe-io -o DPkg::Options::=--force-confold \\
        --no-install-recommends "$@"
}
"""
# $3: folder with FILES, $4: folder of the bare root, $5: folder for kernel and initramfs, then
# the packages.
BOOT_SCRIPT = f"""{_MOUNT}
cp -a "$4/." "$root/"
{_ENTER}{_INSTALL}
out=$5
shift 5
apt install "$@"
cp -L "$root/vmlinuz" "$root/initrd.img" "$out/"
mkdir -p "$root/boot/grub"
cp -a "$root/usr/lib/grub/i386-pc" "$root/boot/grub/"
chroot "$root" grub-mkimage -O i386-pc -p '(hd0,msdos1)/boot/grub' -o /tmp/core.img \\
    biosdisk part_msdos ext2 normal linux search search_fs_uuid gzio configfile test echo
# Without the partition table in the same sector.
dd if="$root/usr/lib/grub/i386-pc/boot.img" of="$disk" bs=440 count=1 conv=notrunc status=none
dd if="$root/tmp/core.img" of="$disk" bs=512 seek=1 conv=notrunc status=none
chroot "$root" update-grub
chroot "$root" apt-get clean
{_LEAVE}
"""
# $3: folder with FILES_OF, $4: units to enable (words), then the packages.
ROLE_SCRIPT = f"""{_MOUNT}{_ENTER}{_INSTALL}
units=$4
shift 4
apt install "$@"
chroot "$root" systemctl enable $units
# Prevents the first boot from updating everything again: half a minute under emulation.
touch "$root/etc/.updated" "$root/var/.updated"
chroot "$root" apt-get clean
{_LEAVE}
"""
