"""Where files of configuration lie, and which of them equal nodes do not share."""

from __future__ import annotations

import re
from typing import NamedTuple

from lockstep.node.fingerprint.exempt import WHOLE, Exempt
from lockstep.node.readers.tree import rows_of, text_of


class Place(NamedTuple):
    """A folder whose files are compared."""

    path: str
    largest: int = 4 << 20
    """Bytes of the largest file that is read whole; of larger ones only the ends are."""
    most: int = 0
    """Entries of a folder that are compared one by one; of a larger one the domain ``program``
    compares a sum. 0: all. It holds for folders two levels below the place."""
    unowned: bool = False
    """Whether files of packages are left to the domain ``program``."""


RUN = "/run/systemd"
PLACES: tuple[Place, ...] = (
    Place("/etc"),
    Place("/usr/local", 64 << 10, 500, unowned=True),
    Place("/opt", 64 << 10, 500, unowned=True),
    Place("/srv", 64 << 10, 500),
    # A kernel belongs to a package, and what runs is a reading of its own.
    Place("/boot", 1 << 20),
    Place("/var/spool/cron"),
    Place("/var/lib/systemd/linger"),
    # What update-alternatives(1) chose, and whether by hand.
    Place("/var/lib/alternatives"),
    Place("/var/lib/dpkg/alternatives"),
    # What is gone after the next boot: units of generators and of --runtime (systemd.unit(5)),
    # and the folders of sysctl.d(5), modprobe.d(5), modules-load.d(5), tmpfiles.d(5), udev(7),
    # environment.d(5), and devices that container engines know until then (CDI).
    *(
        Place(f"{RUN}/{name}")
        for name in (
            *("generator", "generator.early", "generator.late", "system", "system.control"),
            *("user", "user.control", "user-generators", "system-generators", "network"),
            *("coredump.conf.d", "journald.conf.d", "logind.conf.d", "networkd.conf.d"),
            *("oomd.conf.d", "resolved.conf.d", "sleep.conf.d", "system.conf.d"),
            *("timesyncd.conf.d", "user.conf.d"),
        )
    ),
    *(
        Place(f"/run/{name}")
        for name in (
            *("environment.d", "modprobe.d", "modules-load.d", "sysctl.d", "tmpfiles.d"),
            *("sudoers.d", "udev/rules.d", "cdi"),
        )
    ),
)
TOP = ("/", "/var", "/var/opt")
"""Folders whose entries are compared by type, owner, mode and target only (hier(7)): below them
are the data of programs and people."""
DEVICES = re.compile(
    r"nvidia(\d+|ctl)|fuse|kvm|kfd|null|zero|full|u?random|ptmx|tty|shm|infiniband|gdrdrv|knem|xpmem"
)
"""Entries of /dev that programs of everybody open, by names that equal nodes share. Nodes that
udev makes at the first use, such as nvidia-uvm, are not among them."""
PRUNED = frozenset(
    ("/etc/.git", "/etc/.hg", "/etc/.bzr")  # etckeeper(8): the history, not the state
)
"""Folders that are not entered."""

HOME_FOLDERS = (
    *(".ssh", ".config/systemd", ".config/containers", ".config/enroot", ".config/environment.d"),
    *(
        ".config/pip",
        ".config/autostart",
        ".config/git",
        ".openmpi",
        ".docker",
        ".pip",
        ".local/bin",
        ".local/share/systemd/user",
    ),
)
"""Folders of a home that programs take settings from. All other folders are data."""
GROWN = (
    *(".bash_history", ".ash_history", ".zsh_history", ".sh_history", ".python_history"),
    *(".mysql_history", ".psql_history", ".sqlite_history", ".node_repl_history", ".lesshst"),
    *(".viminfo", ".wget-hsts", ".Xauthority", ".ICEauthority", ".sudo_as_admin_successful"),
    *(".selected_editor", ".zcompdump", ".rediscli_history", ".rnd", ".pulse-cookie", ".esd_auth"),
    *(".motd_shown", ".cloud-locale-test", ".xsession-errors"),
)
"""Files of a home that programs write when somebody uses them."""
VARYING: tuple[tuple[re.Pattern[str], re.Pattern[bytes]], ...] = (
    # crontab(1) puts lines with the time of installation before a file.
    (
        re.compile(r"/var/spool/cron/.*"),
        re.compile(rb"\A# DO NOT EDIT.*\n(# \(.*\n)*"),
    ),
    # NetworkManager makes the UUID of a connection, and writes when it was used last.
    (
        re.compile(r"/etc/NetworkManager/system-connections/.*"),
        re.compile(rb"^(uuid|timestamp)=.*\n", re.MULTILINE),
    ),
    # Debian's and Ubuntu's installers note how the kernel called a disk, which is by chance.
    (
        re.compile(r"/etc/fstab"),
        re.compile(rb"^# \S+ was on /dev/\S+ during (curtin )?installation\n", re.MULTILINE),
    ),
    (
        re.compile(r"/etc/sysconfig/network-scripts/ifcfg-.*"),
        re.compile(rb"^UUID=.*\n", re.MULTILINE),
    ),
)
"""Files, and lines in them that equal nodes do not share."""
VARYING_IN = ("/var/spool/cron/", "/etc/NetworkManager/", "/etc/sysconfig/", "/etc/fstab")
NO_LOGIN = ("/nologin", "/false", "/sync", "/shutdown", "/halt")

FAR = (
    *("nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "9p", "afs", "pvfs2"),
    *("wekafs", "glusterfs", "autofs", "panfs", "ocfs2", "gfs2", "virtiofs"),
)
"""File systems of other machines: they are the same on every node, and may hang."""


def far_away() -> frozenset[str]:
    """Return the mount points of file systems that other machines have too (proc_mounts(5))."""
    return frozenset(
        row[1].replace(r"\040", " ")
        for row in rows_of("/proc/self/mounts")
        if len(row) > 2 and (row[2] in FAR or row[2].startswith("fuse."))
    )


def shared(path: str, data: bytes) -> bytes:
    """Return the content of a file without the lines that equal nodes do not share."""
    if path.startswith(VARYING_IN):
        for paths, lines in VARYING:
            if paths.fullmatch(path):
                data = lines.sub(b"", data)
    return data


def homes() -> list[str]:
    """Return the homes of local users who can log in (passwd(5))."""
    found = set()
    for line in text_of("/etc/passwd", "").splitlines():
        words = line.split(":")
        person = len(words) == 7 and words[2].isdigit() and not words[6].endswith(NO_LOGIN)
        if person and (words[2] == "0" or int(words[2]) >= 1000) and words[5][:1] == "/":
            found.add(words[5].rstrip("/"))
    compared = tuple(f"{place.path}/" for place in PLACES)
    return sorted(home for home in found if home and not f"{home}/".startswith(compared))


def _rows(field: str, *rows: tuple[str, str]) -> tuple[Exempt, ...]:
    return tuple(Exempt("file", path, field, reason) for path, reason in rows)


ACCOUNTS = "the users and groups are compared instead"
EXCEPTIONS_OF_FILES: tuple[Exempt, ...] = (
    *_rows(
        "content",
        *((f"/etc/{name}", ACCOUNTS)
          for name in ("passwd", "shadow", "group", "gshadow", "subuid", "subgid")),
        (r"/etc/ssh/ssh_host_\w+_key(-cert\.pub)?",
         "each node has private keys of its own (sshd(8))"),
        ("/etc/adjtime", "hwclock(8) writes the drift of the clock"),
        (r"/etc/nvidia-imex/nodes_config\.cfg",
         "names the nodes of the NVLink domain; file.content compares it with the description"),
        ("/etc/lockstep/pod-routes",
         "has the pods' networks of all nodes but this; file.content compares it with the "
         "description"),
        (r"/etc/kubernetes/pki/(apiserver-\w+-client|front-proxy-client|etcd/healthcheck-client)"
         r"\.(crt|key)", "kubeadm makes it on each node of the control plane; "
         "kubernetes.certificates reads its end"),
        (r"/etc/kubernetes/(admin|super-admin|controller-manager|scheduler)\.conf",
         "as above: it has a certificate with its key"),
        ("/etc/kubernetes/manifests/etcd.yaml",
         "names the members that etcd had when kubeadm added this one; kubernetes.static_pods "
         "compares its image"),
        ("/etc/ld.so.cache", "ldconfig(8) makes it from the libraries of packages and ld.so.conf"),
        ("/run/cdi/nvidia.yaml", "nvidia-ctk(1) writes the GPUs in random order"),
        (r"/run/cdi/k8s\.device-plugin\.nvidia\.com-[\w.-]+\.json",
         "NVIDIA's device plugin writes the UUIDs of the node's GPUs"),
        (r"/etc/\.updated", "systemd-update-done.service(8) writes the time of the last update"),
        ("/etc/docker/key.json", "Docker makes a key for each installation"),
        ("/etc/hostid", "zgenhostid(8) makes a random one"),
        ("/etc/zfs/zpool.cache", "ZFS writes the GUIDs of disks and pools"),
        (r"/etc/multipath/(wwids|bindings)", "multipathd(8) writes the serials of disks"),
        (r"/etc/lvm/backup/[^/]+", "LVM writes times and UUIDs (vgcfgbackup(8))"),
        (r"/etc/lvm/devices/system\.devices", "LVM writes serials of disks (lvmdevices(8))"),
        (r"/etc/ssl/(private/ssl-cert-snakeoil\.key|certs/ssl-cert-snakeoil\.pem)",
         "make-ssl-cert(8) makes a key for each installation"),
        (r"/etc/(ssl/certs|pki/ca-trust/extracted)/java/cacerts",
         "the store holds times; the certificates in it are files as well"),
        (r"/etc/pki/tls/(private/localhost\.key|certs/localhost\.crt)",
         "mod_ssl makes a key for each installation"),
        (r"/etc/krb5\.keytab", "each host has keys of its own (Kerberos)"),
        (r"/etc/salt/pki/minion/minion\.(pem|pub)", "each node has keys of its own (Salt)"),
        ("/etc/iscsi/initiatorname.iscsi", "each node has a name of its own (iscsid(8))"),
        (r"/etc/dhcpcd\.(duid|secret)", "dhcpcd(8) makes an identity for each installation"),
        (r"/etc/pki/consumer/(cert|key)\.pem", "identity of a subscription"),
        ("/etc/insights-client/machine-id", "identity of a subscription"),
        (r"/etc/popularity-contest\.conf", "it holds a random identity of the installation"),
        (r"/boot/(initrd\.img-.*|initramfs-.*\.img)",
         "it holds times, so that equal ones differ; its settings are files of /etc"),
        (r"/boot/efi/[^/]+/[^/]+/initrd", "as above (kernel-install(8))"),
        (r"/boot/(efi/)?loader/random-seed", "systemd-boot(7) writes it at each boot"),
        (r"/boot/(efi/EFI/[^/]+|grub2?)/grubenv",
         "GRUB and grub-editenv(1) keep the state of the last boot"),
    ),
    *_rows(
        WHOLE,
        (r"/etc/\.pwd\.lock", "lckpwdf(3) makes it at the first change of a user"),
        (r"/etc/(passwd|shadow|group|gshadow|subuid|subgid)-", "it holds the users before the last "
         "change (passwd(5))"),
        (r"/etc/lvm/archive/[^/]+_\d+-\d+\.vg", "LVM keeps old states (vgcfgbackup(8))"),
        (r"/etc/pki/entitlement/\d+(-key)?\.pem", "identity of a subscription, in its name too"),
        (r"/(root|.*/[^/]+)/\.ssh/known_hosts(\.old)?", "ssh(1) writes it at the first login"),
        ("/etc/containers/networks",
         "podman(1) makes the folder at its first use; the networks in it are compared"),
        (r"/(root|.*/[^/]+)/\.docker/(buildx(/.*)?|\.token_seed(\.lock)?)",
         "docker buildx keeps the times of its use"),
        (r"/(vmlinuz|initrd\.img)\.old",
         "linux-update-symlinks(1) makes it for the kernel before this one"),
        (r"/.*/__pycache__(/[^/]+\.pyc)?", "Python makes it when a module is first used, with the "
         "time of the module's file in it (PEP 552); the module is compared"),
        (r"/var/spool/cron/(atjobs/)?\.SEQ", "at(1) counts its jobs"),
        (r"/slurm-[\d_]+\.out", "sbatch(1) writes it for a job submitted in the top folder"),
    ),
)  # fmt: skip
