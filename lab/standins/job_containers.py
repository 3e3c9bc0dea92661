"""Simulated packages of enroot, pyxis and apptainer, which run jobs in containers.

The Slurm plugin has to be compiled. It declares the few names that it uses from spank.h itself, so
that the host needs only a compiler, without Slurm or a C library.
"""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.commands import run
from lab.standins.package import LIBRARIES, Package, source

ENROOT, PYXIS, APPTAINER = "4.1.2", "0.24.0", "1.5.3"
SLURM, OTHER_SLURM = (24, 11, 5), (24, 5, 4)
"""Debian 13's version, and one with plugins that Debian's Slurm does not load."""


@cache
def _plugin(slurm: tuple[int, int, int]) -> bytes:
    """Return the SPANK plugin, built for a version of Slurm."""
    major, minor, micro = slurm
    number = major << 16 | minor << 8 | micro
    with TemporaryDirectory() as folder:
        built = Path(folder, "plugin.so")
        run(
            [
                *("gcc", "-x", "c", "-", "-o", str(built), "-shared", "-fPIC", "-nostdlib", "-s"),
                *("-O1", "-Wall", "-Werror", f"-DSLURM_VERSION_NUMBER={number}"),
            ],
            what="compiling the simulated pyxis",
            stdin=source("spank_pyxis.c"),
        )
        return built.read_bytes()


def _pyxis(revision: int, slurm: tuple[int, int, int]) -> Package:
    plugin = f"{LIBRARIES}/slurm/spank_pyxis.so"
    return Package(
        "nvslurm-plugin-pyxis",
        f"{PYXIS}-{revision}",
        files={
            plugin: _plugin(slurm),
            "usr/share/pyxis/pyxis.conf": f"required /{plugin}\n",
        },
        depends="enroot (>= 3.1.0)",
    )


def packages() -> list[Package]:
    """Return all packages; the older build of pyxis is for another Slurm version."""
    return [
        Package(
            "enroot",
            f"{ENROOT}-1",
            files={
                "usr/bin/enroot": source("enroot.sh").replace("@VERSION@", ENROOT),
                "etc/enroot/enroot.conf": "# every setting has its default\n",
                "etc/enroot/hooks.d/98-nvidia.sh": source("enroot_nvidia_hook.sh"),
            },
            depends="bash, squashfs-tools, util-linux",
        ),
        Package(
            "enroot+caps",
            f"{ENROOT}-1",
            files={"usr/share/doc/enroot+caps/README": "simulated: it imports no images\n"},
            depends=f"enroot (= {ENROOT}-1)",
        ),
        _pyxis(1, OTHER_SLURM),
        _pyxis(2, SLURM),
        Package(
            "apptainer",
            APPTAINER,
            files={
                "usr/bin/apptainer": source("apptainer.sh").replace("@VERSION@", APPTAINER),
                "etc/apptainer/apptainer.conf": "# every setting has its default\n",
            },
            depends="bash, util-linux",
        ),
    ]
