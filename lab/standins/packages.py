"""Simulated packages of the lab's repository: NVIDIA's names, versions, units and commands.

Also crictl, a Kubernetes package. The container toolkit is in ``toolkit``: its programs are real.

The packages contain the programs in ``repository/``, each in a version that matches Debian's driver
and in a newer version. Driver packages with Debian's names exist in the newer version and in
version BROKEN, whose library cannot be configured. dcgm-exporter also exists in a version that
cannot be configured, and in one that brings a fault.
"""

from collections.abc import Mapping
from pathlib import Path

from lab.nvml import build as nvml
from lab.nvml import smi
from lab.standins import job_containers
from lab.standins.library import shared_object
from lab.standins.package import LIBRARIES, Package
from lab.standins.package import python as _program

DRIVER, NEWER, BROKEN = "550.163.01", "550.163.02", "550.163.03"
DCGM = ("4.4.1", "4.4.2")
BROKEN_EXPORTER, FAULTY_EXPORTER = "4.4.3", "4.4.4"
CRICTL = "1.32.0"
UNITS = "usr/lib/systemd/system"
STATE = "/var/lib/lockstep-standin/gpus.ini"
STATE_LINK = f"{LIBRARIES}/nvidia/current/nvidia-lockstep-state.so.{{version}}"


def _unit(description: str, service: str, unit: str = "") -> str:
    return (
        f"[Unit]\nDescription={description}\n{unit}\n[Service]\n{service}\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


# Like NVIDIA's packages, these do not enable their units. As in debhelper's scripts, a unit that
# fails to start ("|| true") does not fail the installation; the unit's state shows it.
RESTART = """#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl try-restart @UNIT@ || true
fi
"""
STOP = """#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now @UNIT@ || true
fi
"""
FAILS = """#!/bin/sh
echo '@PACKAGE@: this version cannot be configured (simulated failure)' >&2
exit 1
"""

FABRIC_MANAGER_UNIT = _unit(
    "NVIDIA fabric manager service",
    "User=root\nPrivateTmp=false\nType=forking\nTimeoutStartSec=720\n"
    "ExecStart=/usr/bin/nv-fabricmanager -c /usr/share/nvidia/nvswitch/fabricmanager.cfg\n"
    "LimitCORE=infinity\n",
    "After=network-online.target\nRequires=network-online.target\n",
)
IMEX_UNIT = _unit(
    "NVIDIA IMEX service",
    "User=root\nType=forking\nExecStart=/usr/bin/nvidia-imex -c /etc/nvidia-imex/config.cfg\n"
    "LimitCORE=infinity\n",
    "After=network-online.target\nRequires=network-online.target\n",
)
DCGM_UNIT = _unit(
    "NVIDIA DCGM service",
    "User=root\nPrivateTmp=false\nExecStart=/usr/bin/nv-hostengine -n\nRestart=on-abort\n",
)
EXPORTER_UNIT = _unit(
    "NVIDIA DCGM exporter service",
    "User=root\nPrivateTmp=false\n"
    "ExecStart=/usr/bin/dcgm-exporter -f /etc/dcgm-exporter/default-counters.csv\n"
    "Restart=on-abort\n",
)
COUNTERS = """# Format: metric, Prometheus metric type, help message
DCGM_FI_DEV_SM_CLOCK,  gauge, SM clock frequency (in MHz).
DCGM_FI_DEV_MEM_CLOCK, gauge, Memory clock frequency (in MHz).
DCGM_FI_DEV_MEMORY_TEMP, gauge, Memory temperature (in C).
DCGM_FI_DEV_GPU_TEMP,    gauge, GPU temperature (in C).
DCGM_FI_DEV_POWER_USAGE, gauge, Power draw (in W).
DCGM_FI_DEV_ENFORCED_POWER_LIMIT, gauge, Power limit that the driver enforces (in W).
DCGM_FI_DEV_GPU_UTIL,      gauge, GPU utilization (in %).
DCGM_FI_DEV_MEM_COPY_UTIL, gauge, Memory utilization (in %).
DCGM_FI_DEV_FB_FREE, gauge, Framebuffer memory free (in MiB).
DCGM_FI_DEV_FB_USED, gauge, Framebuffer memory used (in MiB).
DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS, counter, Number of remapped rows for uncorrectable errors
DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS,   counter, Number of remapped rows for correctable errors
"""


def of_unit(unit: str) -> dict[str, str]:
    """Return the scripts of a package with a unit, which they do not enable."""
    return {"postinst": RESTART.replace("@UNIT@", unit), "prerm": STOP.replace("@UNIT@", unit)}


def _fails(package: str, fails: bool) -> dict[str, str]:
    return {"postinst": FAILS.replace("@PACKAGE@", package)} if fails else {}


def _with_driver(version: str) -> list[Package]:
    """Return the packages that have the driver's version."""
    return [
        fabric_manager("nvidia-fabricmanager-550", version),
        nscq("libnvidia-nscq-550", version),
        imex("nvidia-imex-550", version),
    ]


def _also(name: str) -> str:
    """Return the name without a branch that a package provides; "" if it is its own."""
    plain = name.removesuffix("-550")
    return plain if plain != name else ""


def fabric_manager(name: str, version: str) -> Package:
    """Return the fabric manager of a driver."""
    return Package(
        name,
        f"{version}-1",
        files={
            "usr/bin/nv-fabricmanager": _program("nv_fabricmanager", version),
            "usr/share/nvidia/nvswitch/fabricmanager.cfg": "FABRIC_MODE=0\n",
            f"{UNITS}/nvidia-fabricmanager.service": FABRIC_MANAGER_UNIT,
        },
        provides=_also(name),
        depends="python3",
        scripts=of_unit("nvidia-fabricmanager.service"),
    )


def nscq(name: str, version: str) -> Package:
    """Return NSCQ of a driver."""
    library = f"libnvidia-nscq.so.{version}"
    return Package(
        name,
        f"{version}-1",
        files={f"{LIBRARIES}/{library}": shared_object("libnvidia-nscq.so.2")},
        links={f"{LIBRARIES}/libnvidia-nscq.so.2": library},
        provides=_also(name),
    )


def imex(name: str, version: str) -> Package:
    """Return IMEX of a driver."""
    return Package(
        name,
        f"{version}-1",
        files={
            "usr/bin/nvidia-imex": _program("nvidia_imex", version),
            "etc/nvidia-imex/config.cfg": (
                "SERVER_PORT=50000\nIMEX_NODE_CONFIG_FILE=/etc/nvidia-imex/nodes_config.cfg\n"
            ),
            "etc/nvidia-imex/nodes_config.cfg": "# one address per line\n",
            f"{UNITS}/nvidia-imex.service": IMEX_UNIT,
        },
        provides=_also(name),
        depends="python3",
        scripts=of_unit("nvidia-imex.service"),
    )


def _library(name: str) -> bytes | Path:
    """Return a library of the driver; only NVML has functions."""
    return nvml.library() if name == "libnvidia-ml" else shared_object(f"{name}.so.1")


def _driver(version: str) -> list[Package]:
    """Return the packages that replace Debian's driver packages.

    Debian's nvidia-alternative stays installed for all versions: its triggers link the libraries.
    A simulated package with this name would become apt's candidate, and Debian's driver, which
    depends on Debian's nvidia-alternative, could no longer be installed.
    """
    folder = f"{LIBRARIES}/nvidia/current"

    def library(name: str, package: str, scripts: Mapping[str, str]) -> Package:
        file = f"{name}.so.{version}"
        return Package(
            package,
            f"{version}-1",
            files={f"{folder}/{file}": _library(name)},
            links={
                f"{folder}/{name}.so.1": file,
                f"{folder}/{name}.so": f"{name}.so.1",
                # As lab/gpus.py makes it for the archive's driver.
                **({STATE_LINK.format(version=version): STATE} if name == "libnvidia-ml" else {}),
            },
            depends="nvidia-alternative",
            provides=f"{name}.so.1 (= {version})",
            scripts=scripts,
            multi_arch="same",
        )

    return [
        library("libcuda", "libcuda1", {}),
        library("libnvidia-cfg", "libnvidia-cfg1", {}),
        library("libnvidia-ptxjitcompiler", "libnvidia-ptxjitcompiler1", {}),
        library("libnvidia-ml", "libnvidia-ml1", _fails("libnvidia-ml1", version == BROKEN)),
        Package(
            "nvidia-smi",
            f"{version}-1",
            files={"usr/lib/nvidia/current/nvidia-smi": smi.program(smi.branch_for(version))},
            depends=f"nvidia-alternative, libnvidia-ml1 (= {version}-1)",
        ),
    ]


def _dcgm(version: str) -> list[Package]:
    return [dcgm(version), dcgm_for_cuda("12", version), exporter(version)]


def dcgm(version: str) -> Package:
    """Return DCGM's host engine."""
    return Package(
        "datacenter-gpu-manager-4-core",
        f"1:{version}-1",
        files={
            "usr/bin/nv-hostengine": _program("nv_hostengine", version),
            f"{UNITS}/nvidia-dcgm.service": DCGM_UNIT,
        },
        depends="python3",
        scripts=of_unit("nvidia-dcgm.service"),
    )


def dcgm_for_cuda(major: str, version: str) -> Package:
    """Return the part of DCGM that needs a major version of CUDA."""
    name = f"datacenter-gpu-manager-4-cuda{major}"
    return Package(
        name,
        f"1:{version}-1",
        files={f"usr/share/doc/{name}/README": "simulated\n"},
        depends=f"datacenter-gpu-manager-4-core (= 1:{version}-1)",
    )


def exporter(version: str) -> Package:
    """Return the exporter; BROKEN_EXPORTER cannot be configured, FAULTY_EXPORTER has a sysctl."""
    name = "datacenter-gpu-manager-exporter"
    files: dict[str, str | bytes | Path] = {
        "usr/bin/dcgm-exporter": _program("dcgm_exporter", version),
        "etc/dcgm-exporter/default-counters.csv": COUNTERS,
        f"{UNITS}/nvidia-dcgm-exporter.service": EXPORTER_UNIT,
    }
    if version == FAULTY_EXPORTER:
        # systemd reads it after the site's own file, so it wins at the next boot.
        files["usr/lib/sysctl.d/99-zzz-dcgm.conf"] = "net.core.somaxconn = 128\n"
    scripts = of_unit("nvidia-dcgm-exporter.service") | _fails(name, version == BROKEN_EXPORTER)
    return Package(name, f"{version}-1", files=files, depends="python3", scripts=scripts)


def _crictl() -> Package:
    """Return crictl, from Kubernetes' repository; it calls the real containerd over CRI."""
    return Package(
        "cri-tools",
        f"{CRICTL}-1.1",
        files={"usr/bin/crictl": _program("crictl", CRICTL)},
        depends="python3, python3-grpcio",
    )


def packages() -> list[Package]:
    """Return all packages of this module and ``job_containers``, older versions first."""
    found = [p for version in (DRIVER, NEWER, BROKEN) for p in _with_driver(version)]
    found += [p for version in (NEWER, BROKEN) for p in _driver(version)]
    found += [p for version in DCGM for p in _dcgm(version)]
    found += map(exporter, (BROKEN_EXPORTER, FAULTY_EXPORTER))
    return [*found, _crictl(), *job_containers.packages()]
