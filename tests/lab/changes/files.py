"""Changes of files: an editor, a script, chmod, and what packages and tools leave."""

from __future__ import annotations

import shlex

from tests.lab.changes import Change

SAVED = "/run/saved-by-change"
FLAGS = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
fcntl.ioctl(file, 0x40086602, int(sys.argv[2]).to_bytes(8, "little"))
"""
"""What chattr(1) does (FS_IOC_SETFLAGS, ioctl_iflags(2)); the lab's machines lack it."""
ACL = """
import os, pwd, struct, sys
tags = ((1, 6, -1), (2, 6, pwd.getpwnam("ops").pw_uid), (4, 4, -1), (16, 6, -1), (32, 4, -1))
value = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *tag) for tag in tags)
os.setxattr(sys.argv[1], sys.argv[2], value)
"""
"""What ``setfacl -m u:ops:rw`` does (acl(5)); the lab's machines lack it."""


def edited(name: str, path: str, edit: str) -> Change:
    """Return a change of a file by sed(1)."""
    where = shlex.quote(path)
    return Change(
        name,
        f"cp -a {where} {SAVED} && sed -i {shlex.quote(edit)} {where} && ! cmp -s {where} {SAVED}",
        f"cp -a {SAVED} {where} && rm {SAVED}",
        "file",
        path,
    )


def added(name: str, path: str, text: str, mode: str = "644") -> Change:
    """Return a change that adds a file, and its folder if need be."""
    where, folder = shlex.quote(path), shlex.quote(path.rpartition("/")[0])
    return Change(
        name,
        f"test ! -e {where} || exit 1; d={folder}; "
        f"while test ! -d $d; do echo $d; d=$(dirname $d); done > {SAVED}; "
        f"mkdir -p {folder} && printf '%s\\n' {shlex.quote(text)} > {where} && "
        f"chmod {mode} {where}",
        f"test -e {SAVED} && rm {where} && xargs -r rmdir < {SAVED}; rm {SAVED}",
        "file",
        path,
    )


def ran(name: str, script: str, undo: str, path: str) -> Change:
    """Return a change of one file by a command."""
    return Change(name, script, undo, "file", path)


def in_python(program: str, *words: str) -> str:
    """Return the command that runs a Python program."""
    return shlex.join(["python3", "-c", program, *words])


EDITED = (
    edited("sudoers: a user without password", "/etc/sudoers",
           "$a daemon ALL=(ALL) NOPASSWD: ALL"),
    edited("sudoers: a longer time stamp", "/etc/sudoers", "1a Defaults timestamp_timeout=600"),
    edited("sudoers.d: a rule of ops", "/etc/sudoers.d/ops", "$a ops ALL=(slurm) NOPASSWD: ALL"),
    edited("PAM: empty passwords for sshd", "/etc/pam.d/sshd",
           "1i auth sufficient pam_permit.so"),
    edited("PAM: no limits in sessions of sudo", "/etc/pam.d/sudo", "/pam_limits/d;$a # none"),
    edited("PAM: remembered passwords", "/etc/pam.d/common-password", "$a # remember=5"),
    edited("PAM: mkhomedir", "/etc/pam.d/common-session",
           "$a session optional pam_mkhomedir.so"),
    edited("limits.conf: memlock", "/etc/security/limits.conf", "$a * hard memlock 65536"),
    edited("limits.conf: nofile", "/etc/security/limits.conf", "$a * soft nofile 1024"),
    edited("access.conf: only root", "/etc/security/access.conf", "$a -:ALL EXCEPT root:ALL"),
    edited("faillock: three attempts", "/etc/security/faillock.conf", "$a deny = 3"),
    edited("time.conf: no ssh at night", "/etc/security/time.conf", "$a sshd;*;ops;!Al0000-0600"),
    edited("pam_env: a variable", "/etc/security/pam_env.conf", "$a NCCL_DEBUG DEFAULT=INFO"),
    edited("sshd_config: root may log in", "/etc/ssh/sshd_config",
           "$a PermitRootLogin yes"),
    edited("sshd_config: MaxStartups", "/etc/ssh/sshd_config", "1i MaxStartups 3:50:6"),
    edited("sshd_config.d: another option", "/etc/ssh/sshd_config.d/10-lab.conf",
           "$a X11Forwarding yes"),
    edited("ssh_config: no host keys are checked", "/etc/ssh/ssh_config",
           "$a StrictHostKeyChecking no"),
    edited("moduli: an own list", "/etc/ssh/moduli", "10d"),
    edited("profile: umask", "/etc/profile", "$a umask 077"),
    edited("bash.bashrc: an alias", "/etc/bash.bashrc", "$a alias ll=\"ls -l\""),
    edited("default/locale: dates", "/etc/default/locale", "$a LC_TIME=de_DE.UTF-8"),
    edited("login.defs: umask", "/etc/login.defs", "$a UMASK 077"),
    edited("adduser.conf: another folder of homes", "/etc/adduser.conf", "$a DHOME=/data/home"),
    edited("default/useradd: shell", "/etc/default/useradd", "$a SHELL=/bin/zsh"),
    edited("ld.so.conf: another folder first", "/etc/ld.so.conf", "1i /opt/lib"),
    edited("logrotate: dpkg's log kept a week", "/etc/logrotate.d/dpkg", "s/monthly/daily/"),
    edited("logrotate: slurmd's log is compressed", "/etc/logrotate.d/slurmd", "$a # compress"),
    edited("cron.daily: apt's job ends at once", "/etc/cron.daily/apt-compat", "2i exit 0"),
    edited("hosts: a line for the mirror", "/etc/hosts", "$a 192.0.2.7 mirror.example.org"),
    edited("hosts.allow: a rule", "/etc/hosts.allow", "$a sshd: 192.0.2."),
    edited("nsswitch.conf: DNS before files", "/etc/nsswitch.conf",
           "s/^hosts:.*/hosts: dns files/"),
    edited("gai.conf: IPv4 first", "/etc/gai.conf", "$a precedence ::ffff:0:0/96 100"),
    edited("services: a name", "/etc/services", "$a nccl 29500/tcp"),
    edited("resolv.conf: another server", "/etc/resolv.conf", "1i nameserver 192.0.2.53"),
    edited("inputrc: no bell", "/etc/inputrc", "$a set bell-style none"),
    edited("apt: another suite", "/etc/apt/sources.list.d/debian.sources",
           "s/^Suites:.*/& trixie-backports/"),
    edited("apt: automatic removal", "/etc/apt/apt.conf.d/01autoremove", "$a // edited"),
    edited("modules-load.d: a module", "/etc/modules-load.d/modules.conf", "$a br_netfilter"),
    edited("modules: a module", "/etc/modules", "$a 8021q"),
    edited("fstab: a mount for the next boot", "/etc/fstab",
           "$a tmpfs /scratch tmpfs size=1G,noauto 0 0"),
    edited("chrony: another server", "/etc/chrony/chrony.conf", "$a server 192.0.2.123"),
    edited("journald: no size limit", "/etc/systemd/journald.conf", "$a SystemMaxUse=10G"),
    edited("logind: processes end", "/etc/systemd/logind.conf", "$a KillUserProcesses=yes"),
    edited("slurmd: options", "/etc/default/slurmd", "$a # SLURMD_OPTIONS=-vvv"),
    edited("ca-certificates: one is left out", "/etc/ca-certificates.conf",
           "s,^mozilla/ACCVRAIZ1,!&,"),
    edited("motd: a notice", "/etc/motd", "$a maintenance on Monday"),
    edited("issue: a greeting", "/etc/issue", "$a Welcome"),
    edited("root's .bashrc: PATH", "/root/.bashrc", "$a export PATH=/opt/bin:$PATH"),
    edited("home: .profile of ops", "/home/ops/.profile", "$a export CUDA_VISIBLE_DEVICES=0"),
    edited("home: another key of ops", "/home/ops/.ssh/authorized_keys",
           "$a ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIForgotten friend"),
)  # fmt: skip
ADDED = (
    added("sudoers.d: another file", "/etc/sudoers.d/90-oncall", "%users ALL=(ALL) ALL", "440"),
    added("limits.d: a drop-in", "/etc/security/limits.d/mpi.conf", "* hard stack unlimited"),
    added("profile.d: NCCL on eth0", "/etc/profile.d/nccl.sh", "export NCCL_SOCKET_IFNAME=eth0"),
    added("sshd_config.d: a first drop-in", "/etc/ssh/sshd_config.d/00-test.conf", "UseDNS yes"),
    added("ld.so.conf.d: an own folder", "/etc/ld.so.conf.d/00-nccl.conf", "/opt/nccl/lib"),
    added("ld.so.preload", "/etc/ld.so.preload", ""),
    added("modprobe.d: a blacklist", "/etc/modprobe.d/no-nouveau.conf", "blacklist nouveau"),
    added("modprobe.d: options of nvidia", "/etc/modprobe.d/nvidia-test.conf",
          "options nvidia NVreg_RestrictProfilingToAdminUsers=0"),
    added("modules-load.d: for the next boot", "/etc/modules-load.d/peermem.conf",
          "nvidia_peermem"),
    added("udev: a rule", "/etc/udev/rules.d/99-gpu.rules",
          'KERNEL=="nvidia*", MODE="0666"'),
    added("cron.d: a job", "/etc/cron.d/cleanup", "*/5 * * * * root rm -rf /tmp/nccl-*"),
    added("cron.daily: a job", "/etc/cron.daily/scrub", "#!/bin/sh", "755"),
    added("a crontab of root", "/var/spool/cron/crontabs/root", "0 3 * * * /root/dump.sh", "600"),
    added("logrotate: a rule", "/etc/logrotate.d/nccl", "/var/log/nccl.log { daily }"),
    added("apt: a pin", "/etc/apt/preferences.d/slurm",
          "Package: slurm*\nPin: version 1.0\nPin-Priority: 1001"),
    added("apt: a proxy", "/etc/apt/apt.conf.d/99proxy",
          '// Acquire::http::Proxy "http://proxy:3128";'),
    added("apt: a repository", "/etc/apt/sources.list.d/cuda.list",
          "# deb https://developer.example.org/cuda /"),
    added("sysctl.d: for the next boot", "/etc/sysctl.d/99-tuning.conf", "vm.swappiness = 1"),
    added("tmpfiles.d: clean /tmp", "/etc/tmpfiles.d/tmp.conf", "d /tmp 1777 root root 1d"),
    added("systemd: the manager's limits", "/etc/systemd/system.conf.d/50-limit.conf",
          "[Manager]\nDefaultLimitNOFILE=1024"),
    added("systemd: a network", "/etc/systemd/network/10-ib0.network", "[Match]\nName=ib0"),
    added("polkit: a rule", "/etc/polkit-1/rules.d/10-users.rules", "// all"),
    added("a wrapper in /usr/local/bin", "/usr/local/bin/srun",
          "#!/bin/sh\nexec /usr/bin/srun --mem=0 \"$@\"", "755"),
    added("a library in /usr/local/lib", "/usr/local/lib/libnccl.so.2", "not a library"),
    added("a program in /opt", "/opt/monitor/agent", "#!/bin/sh", "755"),
    added("a site package of pip", "/usr/local/lib/python3.13/dist-packages/hook.pth",
          "import os"),
    added("files to serve", "/srv/www/index.html", "hello"),
    added("root's key", "/root/.ssh/authorized_keys", "ssh-ed25519 AAAA forgotten", "600"),
    added("root's ssh settings", "/root/.ssh/config", "Host *\n  Ciphers aes128-ctr", "600"),
    added("home: settings of enroot", "/home/ops/.config/enroot/.credentials",
          "machine example.org login x password y", "600"),
    added("home: a unit of a user", "/home/ops/.config/systemd/user/agent.service",
          "[Service]\nExecStart=/bin/true"),
    added("a kernel's image", "/boot/vmlinuz-6.1.0-test", "not a kernel"),
    added("a rule until the next boot", "/run/udev/rules.d/90-test.rules", 'KERNEL=="sdz"'),
    added("a file with a name of its own", "/etc/profile.d/ä b.sh", "true"),
)  # fmt: skip
RAN = (
    ran("conffile removed", f"mv /etc/logrotate.d/chrony {SAVED}",
        f"mv {SAVED} /etc/logrotate.d/chrony", "/etc/logrotate.d/chrony"),
    ran("file removed", f"mv /etc/default/locale {SAVED}", f"mv {SAVED} /etc/default/locale",
        "/etc/default/locale"),
    ran("chmod of shadow", "chmod 644 /etc/shadow", "chmod 640 /etc/shadow", "/etc/shadow"),
    ran("chmod of a folder", "chmod 777 /etc/profile.d", "chmod 755 /etc/profile.d",
        "/etc/profile.d"),
    ran("chown of slurm's folder", "chown slurm: /etc/ssl/certs", "chown root: /etc/ssl/certs",
        "/etc/ssl/certs"),
    ran("chgrp of a file", "chgrp docker /etc/subuid", "chgrp root /etc/subuid", "/etc/subuid"),
    ran("systemd: a drop-in for all services",
        "mkdir /etc/systemd/system/service.d && "
        "printf '[Service]\\nIOSchedulingPriority=6\\n' > /etc/systemd/system/service.d/10-io.conf",
        "rm -r /etc/systemd/system/service.d && systemctl daemon-reload",
        "/etc/systemd/system/service.d"),
    ran("a folder at the top", "mkdir /data", "rmdir /data", "/data"),
    ran("/tmp without the sticky bit", "chmod 777 /tmp", "chmod 1777 /tmp", "/tmp"),
    ran("a folder of additional software", "mkdir -p /var/opt/site", "rmdir /var/opt/site",
        "/var/opt/site"),
    ran("a GPU that only root may open", "chmod 600 /dev/nvidia3", "chmod 666 /dev/nvidia3",
        "/dev/nvidia3"),
    added("home: Open MPI over TCP", "/root/.openmpi/mca-params.conf", "btl = tcp,self"),
    added("CDI: devices until the next boot", "/run/cdi/site.yaml", "kind: site.org/device"),
    ran("a home is open", "chmod 755 /home/ops", "chmod 700 /home/ops", "/home/ops"),
    ran("chattr +i", in_python(FLAGS, "/etc/motd", "16"), in_python(FLAGS, "/etc/motd", "0"),
        "/etc/motd"),
    ran("chattr +a of a folder", in_python(FLAGS, "/etc/ssl", "32"),
        in_python(FLAGS, "/etc/ssl", "0"), "/etc/ssl"),
    ran("setfacl", in_python(ACL, "/etc/hosts", "system.posix_acl_access"),
        'python3 -c "import os; os.removexattr(\'/etc/hosts\', \'system.posix_acl_access\')";'
        " chmod 644 /etc/hosts", "/etc/hosts"),
    ran("setfacl -d", in_python(ACL, "/srv", "system.posix_acl_default"),
        'python3 -c "import os; os.removexattr(\'/srv\', \'system.posix_acl_default\')"', "/srv"),
    ran("setcap", "cp /bin/true /usr/local/bin/raw && setcap cap_net_raw+ep /usr/local/bin/raw",
        "rm /usr/local/bin/raw", "/usr/local/bin/raw"),
    ran("another time zone", "ln -sfn /usr/share/zoneinfo/Europe/Berlin /etc/localtime",
        "ln -sfn /usr/share/zoneinfo/Etc/UTC /etc/localtime", "/etc/localtime"),
    ran("an alternative chosen by hand", "update-alternatives --set pager /bin/more",
        "update-alternatives --auto pager", "/etc/alternatives/pager"),
    ran("the only alternative kept by hand", "update-alternatives --set pager /usr/bin/less",
        "update-alternatives --auto pager", "/var/lib/dpkg/alternatives/pager"),
    ran("one byte, time restored",
        f"cp -a /etc/mime.types {SAVED} && "
        "printf X | dd of=/etc/mime.types bs=1 seek=40000 conv=notrunc 2>/dev/null && "
        f"touch -r {SAVED} /etc/mime.types", f"cp -a {SAVED} /etc/mime.types && rm {SAVED}",
        "/etc/mime.types"),
    ran("a link instead of a file",
        f"cp -a /etc/networks {SAVED} && ln -sf /dev/null /etc/networks",
        f"test -e {SAVED} && rm /etc/networks && cp -a {SAVED} /etc/networks && rm {SAVED}",
        "/etc/networks"),
    ran("systemctl mask by hand", "ln -s /dev/null /etc/systemd/system/fstrim.timer",
        "rm /etc/systemd/system/fstrim.timer", "/etc/systemd/system/fstrim.timer"),
    ran("loginctl enable-linger", "test -d /var/lib/systemd/linger || "
        f"{{ mkdir /var/lib/systemd/linger; touch {SAVED}; }}; "
        "touch /var/lib/systemd/linger/daemon",
        "rm /var/lib/systemd/linger/daemon; "
        f"test ! -e {SAVED} || {{ rmdir /var/lib/systemd/linger; rm {SAVED}; }}",
        "/var/lib/systemd/linger/daemon"),
    ran("a pipe", "mkfifo /etc/chrony/pipe", "rm /etc/chrony/pipe", "/etc/chrony/pipe"),
    ran("a device", "mknod /srv/null c 1 3", "rm /srv/null", "/srv/null"),
)  # fmt: skip
CHANGES: tuple[Change, ...] = (*EDITED, *ADDED, *RAN)
