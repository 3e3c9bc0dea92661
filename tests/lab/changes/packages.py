"""Changes of packages, users and groups."""

from __future__ import annotations

from tests.lab.changes import Change

QUIETLY = "DEBIAN_FRONTEND=noninteractive apt-get -q -y"
SAVED = "/run/saved-accounts"
ACCOUNTS = "passwd shadow group gshadow subuid subgid"
KEPT = f"mkdir {SAVED} && for f in {ACCOUNTS}; do cp -a /etc/$f {SAVED}/; done && "
RESTORED = f"for f in {ACCOUNTS}; do cp -a {SAVED}/$f /etc/ || exit 1; done; rm -r {SAVED}"
BUILD = """
cd "$(mktemp -d)" && mkdir -p x/DEBIAN x/etc && echo a=1 > x/etc/site-tool.conf &&
echo /etc/site-tool.conf > x/DEBIAN/conffiles &&
printf 'Package: site-tool\\nVersion: 1.0\\nArchitecture: all\\nMaintainer: x <x@example.org>\\n'\
'Description: a tool\\n' > x/DEBIAN/control && dpkg-deb -b x x.deb >/dev/null && dpkg -i x.deb
"""


def package(name: str, script: str, undo: str, what: str) -> Change:
    """Return a change of a package."""
    return Change(name, script, undo, "package", what)


def user(name: str, script: str, what: str, more: str = "") -> Change:
    """Return a change of a user; the files of all accounts are put back."""
    return Change(name, KEPT + script, RESTORED + more, "user", what)


def group(name: str, script: str, what: str) -> Change:
    """Return a change of a group; the files of all accounts are put back."""
    return Change(name, KEPT + script, RESTORED, "group", what)


PACKAGES = (
    package("apt-mark hold", "apt-mark hold less", "apt-mark unhold less", "less:amd64"),
    package("apt-mark unhold", "apt-mark unhold libcuda1", "apt-mark hold libcuda1",
            "libcuda1:amd64"),
    package("apt-mark auto", "apt-mark auto kmod", "apt-mark manual kmod", "kmod:amd64"),
    package("dpkg -i", BUILD, "dpkg --purge site-tool", "site-tool:all"),
    package("dpkg --remove leaves settings", BUILD + "dpkg --remove site-tool",
            "dpkg --purge site-tool", "site-tool:all"),
    package("dpkg --unpack only", BUILD.replace("dpkg -i", "dpkg --unpack"),
            "dpkg --purge site-tool", "site-tool:all"),
    package("a selection", "echo mount deinstall | dpkg --set-selections",
            "echo mount install | dpkg --set-selections", "mount:amd64"),
    package("dpkg-divert",
            "dpkg-divert --local --no-rename --add /usr/share/misc/nothing",
            "dpkg-divert --local --no-rename --remove /usr/share/misc/nothing",
            "diversion of /usr/share/misc/nothing"),
    package("dpkg-statoverride",
            "dpkg-statoverride --add root root 755 /usr/share/misc/nothing",
            "dpkg-statoverride --remove /usr/share/misc/nothing",
            "statoverride of /usr/share/misc/nothing"),
    package("a foreign architecture", "dpkg --add-architecture i386",
            "dpkg --remove-architecture i386", "architecture i386"),
)  # fmt: skip
USERS = (
    user("useradd", "useradd -M intern", "intern"),
    user("useradd --system", "useradd --system monitor", "monitor"),
    user("usermod: shell", "usermod -s /bin/sh ops", "ops"),
    user("usermod: home", "usermod -d /srv/daemon daemon", "daemon"),
    user("usermod: uid", "sed -i 's/^ops:x:1000:/ops:x:1042:/' /etc/passwd", "ops"),
    user("usermod: comment", "usermod -c Operators ops", "ops"),
    user("usermod: primary group", "usermod -g users daemon", "daemon"),
    user("passwd -l", "usermod -p '!$6$abc$def' ops && usermod -L ops", "ops"),
    user("chpasswd", "echo 'daemon:secret' | chpasswd -c SHA512", "daemon"),
    user("passwd -d", "passwd -d daemon", "daemon"),
    user("chage: maximum age", "chage -M 90 ops", "ops"),
    user("chage: expires", "chage -E 2030-01-01 ops", "ops"),
    user("a second root", "echo 'toor:x:0:0::/root:/bin/sh' >> /etc/passwd", "toor"),
    user("subuid", "usermod --add-subuids 300000-365535 ops", "ops"),
    user("a login shell for a daemon", "usermod -s /bin/bash munge", "munge"),
)
LEFT = Change(
    "apt-get remove leaves a user",
    f"{QUIETLY} install --no-install-recommends tcpdump && "
    f"{QUIETLY} remove --autoremove tcpdump && getent passwd tcpdump",
    f"{QUIETLY} purge tcpdump",
    "user",
    "tcpdump",
)
"""The package's postrm deletes the user and the group when it is purged."""
GROUPS = (
    group("groupadd", "groupadd interns", "interns"),
    group("gpasswd: a member", "gpasswd -a ops docker", "docker"),
    group("usermod -aG", "usermod -aG sudo ops", "sudo"),
    group("groupmod: number", "groupmod -g 4711 ops", "ops"),
    group("gpasswd: administrators", "gpasswd -A ops video", "video"),
    group("chgpasswd", "echo games:secret | chgpasswd", "games"),
    group("a member in gshadow only", "sed -i 's/^audio:.*/audio:*::ops/' /etc/gshadow", "audio"),
)
CHANGES: tuple[Change, ...] = (*PACKAGES, *USERS, LEFT, *GROUPS)
