"""Programs that run jobs in containers: vendor packages that no distribution provides.

Names and versions: NVIDIA/enroot ``pkg/deb``, NVIDIA/pyxis ``debian/control``, apptainer/apptainer
``dist/debian``.
"""

PACKAGES = {
    # Packages from Apptainer's releases have no revision; those from its Ubuntu archive do.
    "apptainer": {"apptainer": "{version}*"},
    # enroot+caps allows unprivileged users to import images.
    "enroot": {"enroot": "{version}-*", "enroot+caps": "{version}-*"},
    "pyxis": {"nvslurm-plugin-pyxis": "{version}-*"},
}
"""Field of ``software.containers`` -> its packages and their version patterns."""

ENROOT_FOR_PYXIS = "3.1.0"
"""Oldest enroot version that pyxis supports (NVIDIA/pyxis, debian/control)."""


def packages(part: str, version: str) -> dict[str, str]:
    """Return a program's packages and their version patterns (apt_preferences(5))."""
    return {name: form.format(version=version) for name, form in PACKAGES[part].items()}


def every_package() -> tuple[str, ...]:
    """Return the names of all packages in ``PACKAGES``, sorted."""
    return tuple(sorted(name for names in PACKAGES.values() for name in names))
