"""Data that Debian and Ubuntu releases share. Package names come from Debian's archive."""

LOCALES = ("locales",)

ENGINES = {
    "containerd": ("busybox-static", "containerd", "runc"),
    # The check starts its test containers with the node's busybox.
    "docker": ("busybox-static", "docker.io"),
    # Rootless containers need newuidmap(1).
    "podman": ("busybox-static", "crun", "podman", "uidmap"),
}
