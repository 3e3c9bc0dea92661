"""What Debian releases share. Names from Debian's archive."""

PACKAGES = {
    "time_sync": ("chrony",),
    "rdma": ("ibverbs-providers", "ibverbs-utils", "perftest", "rdma-core"),
    "munge": ("munge",),
    "node_exporter": ("prometheus-node-exporter",),
    "prometheus": ("prometheus",),
    "slurm_accounting": ("mariadb-server", "slurmdbd"),
    "slurm_controller": ("slurm-client", "slurmctld"),
    "slurm_worker": ("slurm-client", "slurmd"),
}

LOCALES = ("locales",)

ENGINES = {
    "containerd": ("busybox-static", "containerd", "runc"),
    # The check starts containers from the node's own busybox.
    "docker": ("busybox-static", "docker.io"),
    # Users start containers without root: that takes newuidmap(1).
    "podman": ("busybox-static", "crun", "podman", "uidmap"),
}
