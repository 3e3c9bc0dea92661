"""What Debian releases share. Names from Debian's archive."""

LOCALES = ("locales",)

ENGINES = {
    "containerd": ("busybox-static", "containerd", "runc"),
    # The check starts containers from the node's own busybox.
    "docker": ("busybox-static", "docker.io"),
    # Users start containers without root: that takes newuidmap(1).
    "podman": ("busybox-static", "crun", "podman", "uidmap"),
}
