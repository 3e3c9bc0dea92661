"""The files that each release gets: the lines that matter."""

import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockstep.catalog import os as operating_systems
from lockstep.catalog.os import rocky_9
from lockstep.facts.boot import in_grub
from lockstep.files import managed
from lockstep.inventory import planned as plan
from lockstep.plan import NodePlan
from lockstep.roles.gpu_settings import PROGRAM as GPU_SETTINGS
from lockstep.spec import Cluster
from tests.spec.example import description

RHEL_FAMILY = ("almalinux_9", "rhel_9", "rocky_9")
OS_LEVEL = {"os_settings", "kernel", "cpu_sets", "hugepages", "boot_loader"}
ARGS = (
    *("hugepagesz=1G", "hugepages=0:2,1:0", "hugepagesz=2M", "hugepages=0:512,1:1024"),
    *("irqaffinity=0,8,16,24", "rcu_nocbs=1-7,9-15,17-23,25-31"),
    *("nohz_full=1-7,9-15,17-23,25-31", "isolcpus=managed_irq,domain,1-7,9-15,17-23,25-31"),
    *("iommu=pt", "pci=disable_acs_redir=0000:15:01.0;0000:3d:01.0"),
    *("processor.max_cstate=1", "intel_idle.max_cstate=1", "init_on_alloc=0"),
)
"""The arguments of ``worker``; tests/captures/*/after hold them."""


def worker(release: str) -> NodePlan:
    """A worker that uses everything of the kernel; Slurm only where the release can run it."""
    wanted: dict[str, Any] = description()
    wanted["os"].update(release=release, hugetlb_gid=900)
    wanted["hardware"]["hgx"].update(
        hugepages=[
            {"size": "2M", "numa_node": 0, "count": 512},
            {"size": "2M", "numa_node": 1, "count": 1024},
            {"size": "1G", "numa_node": 0, "count": 2},
        ],
        kernel={
            "transparent_hugepages": "madvise",
            "iommu": "pt",
            "isolation": ["managed_irq", "nohz_full", "domain"],
            "disable_acs_redir": ["0000:15:01.0", "0000:3d:01.0"],
            "max_cstate": 1,
        },
        kernel_args=["init_on_alloc=0"],
    )
    if not operating_systems.load(release).supports("slurm_worker"):
        wanted.update(scheduler=None, software={})
        for group in wanted["nodes"]:
            group["runs"] = []
    if release == "ubuntu_24_04":
        wanted["software"]["versions"] = {"slurmd": "23.11.4-1.2ubuntu5"}
    if release in RHEL_FAMILY:
        wanted["software"]["versions"] = {"slurm-slurmd": "0:24.11.5-4.el9"}
    # Not through load(): it refuses a worker without a scheduler.
    return plan(Cluster.model_validate(wanted)).nodes["worker1"]


def files(release: str) -> dict[str, str]:
    """Path -> text of every file that is no secret."""
    return {file.path: file.content.decode() for file in managed(worker(release), None)}


OF_THE_KERNEL = {
    "/etc/sysctl.d/99-zz-lockstep.conf": "\nvm.swappiness = 1\n",
    "/etc/security/limits.d/90-lockstep.conf": "\n*    -    memlock    unlimited\n",
    "/etc/systemd/system.conf.d/90-lockstep.conf": "\nDefaultLimitMEMLOCK=infinity\n",
    "/etc/systemd/system.conf.d/50-lockstep-cpus.conf": "\nCPUAffinity=0 8 16 24\n",
    "/etc/systemd/system/user.slice.d/50-lockstep.conf": "\nAllowedCPUs=0 8 16 24\n",
    "/etc/systemd/system/service.d/50-lockstep-cpus.conf": "\nAllowedCPUs=0 8 16 24\n",
    "/etc/systemd/system/dev-hugepages.mount.d/50-lockstep.conf": "gid=900",
    "/etc/systemd/system/dev-hugepages1G.mount": "pagesize=1G",
    "/etc/sysusers.d/50-lockstep-hugetlb.conf": " 900",
    "/etc/tmpfiles.d/50-lockstep-kernel.conf": "transparent_hugepage/enabled - - - - madvise\n",
    "/etc/tmpfiles.d/50-lockstep-cpus.conf": "\nw ",
    "/etc/hosts": "\nfd00:1::100 worker1\n",
    "/etc/hostname": "\nworker1\n",
    "/etc/gai.conf": "\nprecedence ::ffff:0:0/96 10\n",
    "/etc/locale.conf": "\nLANG=C.UTF-8\n",
}
"""Equal on every system: what systemd, the kernel and glibc read."""

UBUNTU = {
    **OF_THE_KERNEL,
    "/etc/default/grub.d/50-lockstep.cfg": '\nGRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX hugepagesz=',
    "/etc/apt/apt.conf.d/90lockstep": '\nAPT::Periodic::Unattended-Upgrade "0";\n',
    "/etc/apt/preferences.d/90-lockstep": "\nPackage: slurmd\nPin: version 23.11.4-1.2ubuntu5\n",
    "/usr/sbin/policy-rc.d": "exit 101",
    "/etc/default/chrony": '\nDAEMON_OPTS="-F 1"\n',
    "/etc/chrony/chrony.conf": "\nleapsectz right/UTC\n",
    "/etc/default/prometheus-node-exporter": '\nARGS="--web.listen-address=[fd00:1::100]:',
    "/etc/systemd/system/prometheus-node-exporter.service.d/50-lockstep.conf": "\nRestart=on-",
    "/etc/default/slurmd": "SLURMD_OPTIONS=",
    "/etc/systemd/system/slurmd.service.d/50-lockstep.conf": "\nAllowedCPUs=0-31\n",
    "/usr/local/libexec/lockstep/node-check": "#!/bin/sh\n",
    # Slurm 23.11 cannot fetch its configuration over IPv6: the worker has the files.
    "/etc/slurm/slurm.conf": "\nClusterName=unit\n",
    "/etc/slurm/cgroup.conf": "\nConstrainDevices=yes\n",
    "/etc/slurm/gres.conf": "File=/dev/nvidia[0-3] Cores=0-7\n",
    "/etc/slurm/plugstack.conf": "",
}


RHEL = {
    **OF_THE_KERNEL,
    "/etc/chrony.conf": "\nleapsectz right/UTC\n",
    "/etc/sysconfig/chronyd": '\nOPTIONS="-F 2"\n',
    "/etc/default/node_exporter": '\nNODE_EXPORTER_OPTS="--web.listen-address=[fd00:1::100]:',
    "/etc/systemd/system/node_exporter.service.d/50-lockstep.conf": "\nRestart=on-",
    "/etc/sysconfig/slurmd": "SLURMD_OPTIONS=",
    "/etc/systemd/system/slurmd.service.d/50-lockstep.conf": "munge.service chronyd.service\n",
    "/usr/local/libexec/lockstep/node-check": "#!/bin/sh\n",
    "/etc/dnf/plugins/versionlock.list": "\nslurm-slurmd-24.11.5-4.el9\n",
    "/etc/sysusers.d/50-lockstep-slurm.conf": "\nu slurm 64030 ",
    "/etc/tmpfiles.d/50-lockstep-folders.conf": "\nd /var/lib/slurm 0755 slurm slurm\n",
}


@pytest.mark.parametrize(
    ("release", "path", "line"),
    [
        *(("ubuntu_24_04", *item) for item in UBUNTU.items()),
        *(("rocky_9", *item) for item in RHEL.items()),
    ],
)
def test_the_lines_that_matter(release: str, path: str, line: str) -> None:
    assert line in files(release)[path]


def test_nothing_of_debian_is_left_on_the_rhel_family() -> None:
    debian = ("/etc/apt/", "/etc/default/", "/usr/sbin/policy-rc.d", "/etc/chrony/", "/etc/mysql/")
    # The exporter's RPM reads a file there, too.
    left = [path for path in files("rocky_9") if path.startswith(debian)]
    assert left == ["/etc/default/node_exporter"]


def test_a_release_with_few_roles_gets_only_these(monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(operating_systems.load("rocky_9"), supported_roles=tuple(OS_LEVEL))
    monkeypatch.setattr(rocky_9, "RELEASE", few)
    roles = {file.role for file in managed(worker("rocky_9"), None)}
    # Its boot loader has no file of ours: grubby changes what is there.
    assert roles == OS_LEVEL - {"boot_loader"}


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("/etc/chrony/chrony.conf", "/etc/chrony.conf"),
        ("cp {new} $d/chrony.service.d/x; verify chrony.service", None),
        ("/etc/systemd/system/prometheus-node-exporter.service.d/50-lockstep.conf", None),
        ("/usr/sbin/mariadbd --help", "/usr/libexec/mariadbd --help"),
        # Parts of longer words are other things.
        ("my-ssh.service", "my-ssh.service"),
        ("/etc/default/slurmd-old", "/etc/default/slurmd-old"),
        ("prometheus.service", "prometheus.service"),
    ],
)
def test_the_rhel_family_has_its_own_names(text: str, local: str | None) -> None:
    release = operating_systems.load("rocky_9")
    expected = local or text.replace("chrony.s", "chronyd.s").replace(
        "prometheus-node-exporter", "node_exporter"
    )
    assert release.local(text) == expected
    assert release.local(expected) == expected
    assert operating_systems.load("debian_13").local(text) == text


def test_the_releases_of_the_rhel_family_share_their_data() -> None:
    rhel = operating_systems.load("rhel_9")
    for name in ("rocky_9", "almalinux_9"):
        other = operating_systems.load(name)
        assert (other.name, replace(other, id="rhel")) == (name, rhel)


@pytest.mark.parametrize("release", ["debian_12", "debian_13", "ubuntu_24_04"])
def test_the_debian_family_can_do_everything(release: str) -> None:
    loaded = operating_systems.load(release)
    assert (loaded.family, loaded.boot_loader) == ("debian", "grub_drop_in")
    assert loaded.supports("slurm_worker")
    assert loaded.supports("packages")


@pytest.mark.parametrize(
    ("release", "seen", "version"),
    [("debian_13", "13", "13"), ("ubuntu_24_04", "24.04", "24.04"), ("rocky_9", "9.6", "9")],
)
def test_a_point_release_of_the_rhel_family_is_the_same_release(
    release: str, seen: str, version: str
) -> None:
    loaded = operating_systems.load(release)
    assert loaded.version_of(seen) == loaded.version_id == version


# -- kernel arguments


@pytest.mark.parametrize("release", ["ubuntu_24_04", "rocky_9"])
def test_the_recorded_machines_hold_the_arguments_of_this_plan(release: str) -> None:
    assert worker(release).system.kernel_args == ARGS


def test_the_drop_in_quotes_what_grub_would_take_for_the_end_of_a_command(tmp_path: Path) -> None:
    text = files("ubuntu_24_04")["/etc/default/grub.d/50-lockstep.cfg"]
    script = tmp_path / "drop-in.cfg"
    script.write_text(f'GRUB_CMDLINE_LINUX="nosmt"\n{text}printf "%s" "$GRUB_CMDLINE_LINUX"\n')
    made = subprocess.run(["sh", str(script)], capture_output=True, text=True, check=True).stdout
    assert made == " ".join(["nosmt", *(in_grub(argument) for argument in ARGS)])
    assert tuple(shlex.split(made)) == ("nosmt", *ARGS)


def test_the_recorded_drop_in_is_the_one_of_today() -> None:
    path = "etc/default/grub.d/50-lockstep.cfg"
    recorded = Path(__file__).parent.parent / "captures/ubuntu_24_04/after" / path
    assert files("ubuntu_24_04")[f"/{path}"] == recorded.read_text()


# -- the programs that judge the files, where they are here


@pytest.mark.parametrize("release", ["ubuntu_24_04", "rocky_9"])
def test_systemd_and_the_shell_accept_the_files(release: str, tmp_path: Path) -> None:
    judged = 0
    for file in managed(worker(release), None):
        programs = [p for p in ("systemd-analyze", "systemd-tmpfiles", "sh") if p in file.validate]
        if not programs or not all(shutil.which(program) for program in programs):
            continue
        new = tmp_path / "candidate"
        # Programs of ours are on the nodes only; what starts them is judged all the same.
        new.write_bytes(file.content.replace(GPU_SETTINGS.encode(), b"/bin/true"))
        done = subprocess.run(
            ["sh", "-c", file.validate.format(new=new)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{file.path}: {done.stderr}"
        judged += 1
    assert judged > 0
