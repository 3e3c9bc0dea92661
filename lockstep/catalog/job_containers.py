"""What starts jobs in containers: packages of vendors' repositories, no archive has them.

Names and versions: NVIDIA/enroot ``pkg/deb``, NVIDIA/pyxis ``debian/control``, apptainer/apptainer
``dist/debian``.
"""

PACKAGES = {
    # Its releases have no revision, its Ubuntu archive has one.
    "apptainer": {"apptainer": "{version}*"},
    # enroot+caps lets ordinary users import images.
    "enroot": {"enroot": "{version}-*", "enroot+caps": "{version}-*"},
    "pyxis": {"nvslurm-plugin-pyxis": "{version}-*"},
}
"""Field of ``software.containers`` -> package -> its version as a pattern."""

ENROOT_FOR_PYXIS = "3.1.0"
"""The oldest that pyxis works with (NVIDIA/pyxis, debian/control)."""


def packages(part: str, version: str) -> dict[str, str]:
    """Return package -> version as a pattern (apt_preferences(5)) of a part."""
    return {name: form.format(version=version) for name, form in PACKAGES[part].items()}


def every_package() -> tuple[str, ...]:
    """Return every package of every part, sorted."""
    return tuple(sorted(name for names in PACKAGES.values() for name in names))
