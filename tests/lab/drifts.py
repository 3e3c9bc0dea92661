"""Ways in which a node deviates from its plan, each with the one finding that must name it.

Adding a drift is one entry here.
"""

from __future__ import annotations

from dataclasses import dataclass

REBUILD_EXPORTER = """
cd "$(mktemp -d)" && apt-get -q download prometheus-node-exporter >/dev/null 2>&1
dpkg-deb -R prometheus-node-exporter_*.deb x
sed -i 's/^Version: .*/&+drift1/' x/DEBIAN/control
dpkg-deb -b x other.deb >/dev/null && dpkg -i other.deb >/dev/null
systemctl is-active prometheus-node-exporter
"""

NEWER_EXPORTER = """
apt-get -q -y --allow-change-held-packages install datacenter-gpu-manager-exporter=4.4.2-1
apt-mark hold datacenter-gpu-manager-exporter
"""

OTHER_MUNGE_KEY = "head -c 128 /dev/urandom > /etc/munge/munge.key && systemctl restart munge"


@dataclass(frozen=True)
class Drift:
    """One change made behind Lockstep's back."""

    id: str
    node: str
    seed: str
    """Shell script on the node's console; or, with ``gpu``, arguments of ``python -m lab gpu``."""
    rule: str
    device: str = ""
    gpu: bool = False
    repaired: bool = True
    """False: no software repairs it; the finding stays until a person acted."""

    @property
    def finding(self) -> tuple[str, str, str]:
        """(rule, node, device) of the one finding."""
        return (self.rule, self.node, self.device)


DRIFTS = (
    Drift(
        "sysctl file edited",
        "worker1",
        "echo 'net.core.somaxconn = 1' >> /etc/sysctl.d/99-zz-lockstep.conf",
        "file.content",
        "/etc/sysctl.d/99-zz-lockstep.conf",
    ),
    Drift(
        "slurm.conf edited",
        "head",
        "sed -i s/KillWait=60/KillWait=61/ /etc/slurm/slurm.conf",
        "file.content",
        "/etc/slurm/slurm.conf",
    ),
    Drift(
        "running sysctl changed",
        "worker2",
        "sysctl -q -w net.core.somaxconn=128",
        "sysctl.running",
        "net.core.somaxconn",
    ),
    Drift(
        "address of the rail lost",
        "worker1",
        "ip addr flush dev fabric0 scope global",
        "net.address",
        "rail0",
    ),
    Drift(
        "exporter stopped",
        "worker1",
        "systemctl stop prometheus-node-exporter",
        "unit.active",
        "prometheus-node-exporter.service",
    ),
    Drift(
        "other time zone",
        "worker2",
        "ln -sfn /usr/share/zoneinfo/Europe/Paris /etc/localtime",
        "os.time_zone",
    ),
    Drift(
        "hosts entry removed",
        "head",
        "sed -i '/ worker2$/d' /etc/hosts",
        "hosts.entries",
        "worker2",
    ),
    Drift("munge key replaced", "worker1", OTHER_MUNGE_KEY, "munge.key"),
    Drift(
        "package of another version",
        "worker2",
        REBUILD_EXPORTER,
        "package.version",
        "prometheus-node-exporter",
    ),
    Drift(
        "GPU limited to 350 W",
        "worker1",
        "--gpu 3 --set power.limit=350 --set enforced.power.limit=350",
        "gpu.power_limit",
        "gpu3",
        gpu=True,
    ),
    Drift(
        "an NVLink is down",
        "worker1",
        "--gpu 3 --set nvlink.7.speed=<inactive>",
        "gpu.nvlink",
        "gpu3",
        gpu=True,
        repaired=False,
    ),
    Drift(
        "a GPU too hot",
        "worker2",
        "--gpu 2 --set clocks_event_reasons.active=0x0000000000000060 "
        "--set temperature.gpu.tlimit=-2",
        "gpu.slowdown",
        "gpu2",
        gpu=True,
        repaired=False,
    ),
    Drift(
        "a GPU with less memory",
        "worker1",
        "--gpu 5 --set memory.total=143000",
        "gpu.memory",
        "gpu5",
        gpu=True,
        repaired=False,
    ),
    Drift(
        "a GPU that counted an uncorrected error",
        "worker1",
        "--gpu 0 --set ecc.errors.uncorrected.volatile.total=3",
        "gpu.ecc_uncorrected",
        "gpu0",
        gpu=True,
        repaired=False,
    ),
    Drift(
        "a GPU with a row to be replaced",
        "worker1",
        "--gpu 4 --set remapped_rows.pending=Yes",
        "gpu.row_remap",
        "gpu4",
        gpu=True,
        repaired=False,
    ),
    Drift(
        "a GPU that waits for a reset",
        "worker2",
        "--gpu 1 --set lost=requires_reset",
        "gpu.recovery_action",
        "gpu1",
        gpu=True,
        repaired=False,
    ),
    Drift(
        "a GPU on eight lanes",
        "worker2",
        "--gpu 3 --set pcie.link.width.current=8",
        "gpu.pcie_width",
        "gpu3",
        gpu=True,
        repaired=False,
    ),
    Drift(
        "seven GPUs",
        "worker2",
        "--gpu 5 --remove",
        "gpu.count",
        gpu=True,
        repaired=False,
    ),
    Drift(
        "unit disabled",
        "worker2",
        "systemctl disable slurmd",
        "unit.enabled",
        "slurmd.service",
    ),
    Drift(
        "host name changed at run time",
        "worker1",
        "hostname other",
        "os.hostname",
    ),
    Drift(
        "file readable by others",
        "head",
        "chmod 644 /etc/slurm/slurmdbd.conf",
        "file.mode",
        "/etc/slurm/slurmdbd.conf",
    ),
    Drift(
        "hold removed",
        "worker1",
        "apt-mark unhold nvidia-smi",
        "package.held",
        "nvidia-smi",
    ),
    Drift(
        "GPU exporter a patch level ahead",
        "worker2",
        NEWER_EXPORTER,
        "package.version",
        "datacenter-gpu-manager-exporter",
    ),
    Drift("persistence off", "worker1", "nvidia-smi -i 2 -pm 0", "gpu.persistence", "gpu2"),
    Drift(
        "power limit lowered by the firmware's default",
        "worker1",
        "--gpu 6 --set power.default_limit=350",
        "gpu.power_default",
        "gpu6",
        gpu=True,
        repaired=False,
    ),
    Drift(
        "clocks locked",
        "worker1",
        "nvidia-smi -i 1 -lgc 1500,1500",
        "gpu.clock_idle",
        "gpu1",
        repaired=False,
    ),
    Drift("ECC off after the next reset", "worker2", "nvidia-smi -i 4 -e 0", "gpu.ecc", "gpu4"),
    # Not where the CDI drift is: GPUs in MIG mode would explain it.
    Drift("MIG on for one GPU", "worker2", "nvidia-smi -i 0 -mig 1", "gpu.mig", "gpu0"),
    Drift(
        "containers get seven GPUs",
        "worker1",
        r"sed -i '/name: all/,$ {/nvidia5$/,+4d}' /var/run/cdi/nvidia.yaml",
        "cdi.devices",
    ),
)
