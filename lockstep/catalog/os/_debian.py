"""Data that Debian and Ubuntu releases share. Package names come from Debian's archive.

Ubuntu's archive (jammy and noble with updates, read on 2026-11-24) has the packages of ``LOCALES``
and ``ENGINES``, too. Its docker.io contains the command-line client: it has no docker-cli.
"""

LOCALES = ("locales",)

ENGINES = {
    "containerd": ("busybox-static", "containerd", "runc"),
    # The check starts its test containers with the node's busybox.
    "docker": ("busybox-static", "docker.io"),
    # Rootless containers need newuidmap(1).
    "podman": ("busybox-static", "crun", "podman", "uidmap"),
}

NETWORK_MANAGERS = {
    # Debian's installer writes /etc/network/interfaces (package netcfg), and ifupdown reads it.
    # networkd belongs to the package systemd.
    "ifupdown": ("ifupdown",),
    "networkd": (),
    "netplan": ("netplan.io",),
}
"""Without NetworkManager: installed beside another program, it gives each wired interface that has
no profile an automatic one with DHCP (NetworkManager.conf(5), no-auto-default). The names are those
of the archives of Debian 12 and 13; Ubuntu 24.04 has ifupdown in universe (not verified)."""
