"""Changes below /usr, which only the rare domain ``program`` sees."""

from __future__ import annotations

from tests.lab.changes import Change

SAVED = "/run/saved-program"


def changed(name: str, path: str, script: str) -> Change:
    """Return a change of a file of a package, which is put back from a copy.

    The copy has a younger ctime, but the package's content, mode and owner again.
    """
    return Change(
        name,
        f"cp -a {path} {SAVED} && {script}",
        f"test -e {SAVED} && rm -f {path} && cp -a {SAVED} {path} && rm {SAVED}",
        "program",
        path,
    )


def added(name: str, path: str, script: str) -> Change:
    """Return a change that adds a file."""
    return Change(name, script, f"rm -r {path}", "program", path)


CHANGES: tuple[Change, ...] = (
    changed("a program is edited", "/usr/sbin/service", "sed -i '2i # edited' /usr/sbin/service"),
    changed("one byte of a library, size and time restored",
            "/usr/lib/x86_64-linux-gnu/gconv/BIG5.so",
            "printf X | dd of=/usr/lib/x86_64-linux-gnu/gconv/BIG5.so bs=1 seek=9000"
            " conv=notrunc 2>/dev/null &&"
            f" touch -r {SAVED} /usr/lib/x86_64-linux-gnu/gconv/BIG5.so"),
    changed("a program is gone", "/usr/bin/tac", "rm /usr/bin/tac"),
    changed("a program may not be executed", "/usr/bin/factor", "chmod 644 /usr/bin/factor"),
    changed("chmod u+s", "/usr/bin/less", "chmod u+s /usr/bin/less"),
    changed("chmod u-s", "/usr/bin/chfn", "chmod u-s /usr/bin/chfn"),
    changed("setcap of a package's program", "/usr/bin/ping",
            "setcap cap_net_raw+ep /usr/bin/ping"),
    changed("chown of a program", "/usr/bin/comm", "chown daemon /usr/bin/comm"),
    changed("a packaged unit is edited", "/usr/lib/systemd/system/chrony.service",
            "sed -i 's/^ExecStart=/# &/;$a # edited' /usr/lib/systemd/system/chrony.service"),
    changed("a packaged rule of sysctl is edited", "/usr/lib/sysctl.d/50-pid-max.conf",
            "echo 'vm.swappiness = 7' >> /usr/lib/sysctl.d/50-pid-max.conf"),
    added("a drop-in in /usr/lib/systemd", "/usr/lib/systemd/system/munge.service.d",
          "mkdir /usr/lib/systemd/system/munge.service.d"),
    added("a program of no package", "/usr/bin/gpu-burn", "cp /bin/true /usr/bin/gpu-burn"),
    added("a library of no package", "/usr/lib/x86_64-linux-gnu/libnccl-net.so",
          "echo x > /usr/lib/x86_64-linux-gnu/libnccl-net.so"),
    added("a link to another program", "/usr/bin/python", "ln -s python3 /usr/bin/python"),
    added("modules of a kernel", "/usr/lib/modules", "mkdir -p /usr/lib/modules/6.1.0-test"),
    added("firmware", "/usr/lib/firmware", "mkdir /usr/lib/firmware && touch /usr/lib/firmware/x"),
    Change("everybody may write to a folder of no package",
           "mkdir -m 777 /var/lib/site", "rmdir /var/lib/site", "program", "/var/lib/site"),
    Change("a file in a large folder of /opt",
           "mkdir -p /opt/site/tree && cd /opt/site/tree && seq 600 | xargs touch",
           "rm -r /opt/site", "program", "/opt/site/tree"),
    Change("a package's script is edited with equal size",
           f"cp -a /var/lib/dpkg/info/less.prerm {SAVED} && "
           "sed -i 's/set -e/set +e/' /var/lib/dpkg/info/less.prerm",
           f"cp -a {SAVED} /var/lib/dpkg/info/less.prerm && rm {SAVED}",
           "program", "scripts of less"),
)  # fmt: skip
