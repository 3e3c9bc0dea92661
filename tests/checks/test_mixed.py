"""H100 on Ubuntu 24.04 and L40S on Rocky 9 in one cluster: plan, files, and who is compared."""

from __future__ import annotations

import copy
import csv
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lab.nvml.recorded import from_xml
from lockstep.checks.context import Context
from lockstep.files import managed
from lockstep.node.readers import system, tree
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request
from lockstep.probe.record import Record
from lockstep.report import Finding
from lockstep.roles import declared
from lockstep.spec import load
from tests.checks import healthy, recorded
from tests.checks.test_two_kinds import DESCRIPTION as TWO_KINDS
from tests.golden.write import FAKE

CAPTURES = Path(__file__).parents[1] / "captures"
H100, L40S = ("h1", "h2", "h3"), ("l1", "l2", "l3")
SLURM = {"ubuntu_24_04": "24.11.5-1", "rocky_9": "24.05.8-1"}
"""Locked: the archives have 23.11 and 22.05, and slurmctld 23.11 accepts no 24.05."""


def described() -> dict[str, Any]:
    wanted = copy.deepcopy(TWO_KINDS)
    wanted["name"] = "mixed"
    # The older nodes of the other description are left out.
    head, h100, l40s, _ = wanted["nodes"]
    wanted["nodes"] = [head, h100, {**l40s, "release": "rocky_9"}]
    wanted["os"] = {"release": "ubuntu_24_04"}
    first = wanted["software"]["repositories"][0]
    wanted["software"]["repositories"] = [
        {
            **first,
            "name": name,
            "uri": f"https://mirror.example/cuda/{name}/x86_64",
            "releases": [release],
        }
        for name, release in (("ubuntu2404", "ubuntu_24_04"), ("rhel9", "rocky_9"))
    ]
    ubuntu, rocky = SLURM.values()
    wanted["software"]["versions_on"] = {
        "ubuntu_24_04": dict.fromkeys(("slurmctld", "slurmdbd", "slurmd"), ubuntu),
        "rocky_9": {"slurm-slurmd": rocky},
    }
    return wanted


@cache
def start() -> Context:
    """The healthy cluster, with what was recorded on machines of the releases and on the GPUs."""
    cluster = healthy.of(described(), Random(1))
    records = dict(cluster.reading)
    for name in (*H100, *L40S):
        record = records[name]
        assert isinstance(record, Record)
        raw = record.model_dump(mode="json")
        gpus = [f"gpu{i}" for i in range(8 if name in H100 else 4)]
        for reading, value in OF_MACHINE[name[0]]().items():
            whole = dict.fromkeys(gpus, value) if reading.startswith("gpu.") else value
            raw["readings"][reading] = {"value": whole}
        kernel = raw["readings"]["kernel.release"]["value"]
        raw["readings"]["kernel.newest"] = raw["readings"]["kernel.next"] = {"value": kernel}
        raw["readings"]["driver.module_next"]["value"]["kernel"] = kernel
        records[name] = recorded.parsed(raw)
    return recorded.with_reading(cluster, records)


def machine(release: str) -> dict[str, Any]:
    """The recorded release, and the kernel of its boot."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree, "ROOT", str(CAPTURES / release / "before"))
        read: dict[str, Any] = system.read_release(Request({}), Commands())
    line = (CAPTURES / release / "before/proc/cmdline").read_text(encoding="utf-8")
    return {**read, "kernel.release": line.split()[0].partition("vmlinuz-")[2]}


def h100() -> dict[str, Any]:
    """An H100 80GB HBM3 and a machine with Ubuntu 24.04."""
    text = (CAPTURES / "h100/qx.xml").read_text(encoding="utf-8")
    gpu = from_xml(text, "h100/qx.xml").gpus[0]
    return {**machine("ubuntu_24_04"), **_gpu(gpu["name"], gpu["vbios_version"], gpu[MEMORY])}


def l40s() -> dict[str, Any]:
    """An L40S and a machine with Rocky 9.4."""
    with (CAPTURES / "nvidia_smi/l40s.csv").open(encoding="utf-8", newline="") as file:
        gpu = next(csv.DictReader(file, skipinitialspace=True))
    memory = gpu["memory.total [MiB]"]
    return {**machine("rocky_9"), **_gpu(gpu["name"], gpu["vbios_version"], memory)}


MEMORY = "memory.total"
OF_MACHINE = {"h": h100, "l": l40s}


def _gpu(name: str, vbios: str, mib: str) -> dict[str, Any]:
    return {"gpu.name": name, "gpu.vbios": vbios, "gpu.memory.total_mib": int(mib)}


def found(cluster: Context) -> list[Finding]:
    return list(recorded.report(cluster))


def files(name: str) -> dict[str, str]:
    plan = start().plan.nodes[name]
    rendered = managed(plan, FAKE)
    assert {one.path for one in rendered} >= set(plan.system.paths())
    return {one.path: one.content.decode() for one in rendered}


def value(node: str, reading: str) -> Any:
    return start().views[node].read(reading)


# -- plan and files


def test_each_release_has_its_packages_and_its_repository() -> None:
    nodes = start().plan.nodes
    ubuntu, rocky = (nodes[name].software for name in ("h1", "l1"))
    assert {"nvidia-dkms-580-open", "nvidia-fabricmanager"} <= set(ubuntu.packages)
    assert {"kmod-nvidia-open-dkms", "nvidia-driver-cuda"} <= set(rocky.packages)
    assert [one.name for one in ubuntu.repositories] == ["ubuntu2404"]
    assert [one.name for one in rocky.repositories] == ["rhel9"]
    assert ubuntu.versions["slurmd"] == SLURM["ubuntu_24_04"]
    assert rocky.versions["slurm-slurmd"] == SLURM["rocky_9"]


def test_each_release_has_the_files_of_its_own_programs() -> None:
    ubuntu, rocky = files("h1"), files("l1")
    apt, dnf = "/etc/apt/sources.list.d/lockstep.sources", "/etc/yum.repos.d/lockstep.repo"
    assert "cuda/ubuntu2404/x86_64" in ubuntu[apt]
    assert "cuda/rhel9/x86_64" in rocky[dnf]
    assert dnf not in ubuntu
    assert apt not in rocky
    assert "/etc/default/grub.d/50-lockstep.cfg" in ubuntu
    assert not [path for path in rocky if path.startswith("/etc") and "grub" in path], (
        "grubby keeps the arguments"
    )
    assert {"/etc/chrony/chrony.conf", "/etc/chrony.conf"} & ubuntu.keys() != (
        {"/etc/chrony/chrony.conf", "/etc/chrony.conf"} & rocky.keys()
    )


def test_one_slurm_knows_both_kinds() -> None:
    conf = files("head1")["/etc/slurm/slurm.conf"]
    lines = [line for line in conf.splitlines() if line.startswith("NodeName=")]
    assert [line.partition(" ")[0] for line in lines] == ["NodeName=h[1-3]", "NodeName=l[1-3]"]
    assert "Features=h100,ubuntu_24_04" in lines[0]
    assert "Features=l40s,rocky_9" in lines[1]


def test_a_slurm_that_the_controller_does_not_accept_is_refused() -> None:
    wanted = described()
    del wanted["software"]["versions_on"]["rocky_9"]
    (problem,) = load(wanted, declared())[1]
    assert problem.value == "slurmd 22.05 on rocky_9"
    assert problem.allowed.startswith("Slurm 24.11, 24.05, 23.11, 23.02: what slurmctld 24.11")


# -- the check


def test_healthy_nodes_of_both_kinds_have_no_finding() -> None:
    assert value("h1", "kernel.release") == "6.8.0-149-generic"
    assert value("l1", "kernel.release") == "5.14.0-427.42.1.el9_4.x86_64"
    assert (value("l1", "os.id"), value("l1", "os.version_id")) == ("rocky", "9.4")
    assert value("h1", "gpu.name")["gpu0"] == "NVIDIA H100 80GB HBM3"
    assert value("l1", "gpu.name")["gpu0"] == "NVIDIA L40S"
    assert found(start()) == []


@pytest.mark.parametrize(
    ("node", "reading", "path", "changed", "rule", "device"),
    [
        ("h2", "kernel.release", (), "6.8.0-31-generic", "kernel.release", ""),
        ("l2", "kernel.release", (), "5.14.0-427.13.1.el9_4.x86_64", "kernel.release", ""),
        ("h3", "kernel.page_size", (), "64k", "kernel.page_size", ""),
        ("h2", "gpu.vbios", ("gpu3",), "96.00.74.00.01", "gpu.vbios", "gpu3"),
        ("l3", "gpu.vbios", ("gpu1",), "95.02.18.00.01", "gpu.vbios", "gpu1"),
        ("h1", "packages", ("nvidia-fabricmanager",), recorded.REMOVED, "package.present", ""),
        ("l1", "packages", ("slurm-slurmd",), "22.05.9-1", "package.version", "slurm-slurmd"),
        ("l2", "units", ("chronyd.service", "active"), "inactive", "unit.active", ""),
    ],
)
def test_a_fault_is_one_finding_within_its_kind(
    node: str, reading: str, path: tuple[str, ...], changed: Any, rule: str, device: str
) -> None:
    wrong = recorded.mutated(start(), node, reading, path, changed)
    one = recorded.only(found(wrong))
    assert (one.rule, one.node) == (rule, node)
    assert one.device == device or not device
    kind = "h100 on ubuntu_24_04" if node in H100 else "l40s on rocky_9"
    if one.reference.startswith("peers"):
        # The GPUs of a node are peers of each other, too.
        assert one.reference in {f"peers: {n} nodes of class {kind}" for n in (2, 3)}


@pytest.mark.parametrize(
    ("reading", "rule"),
    [("kernel.release", "kernel.release"), ("gpu.vbios", "gpu.vbios")],
)
@pytest.mark.parametrize(("node", "like"), [("h2", "l1"), ("l2", "h1")])
def test_a_value_of_the_other_kind_is_odd_among_its_own(
    node: str, like: str, reading: str, rule: str
) -> None:
    own, other = value(node, reading), value(like, reading)
    if isinstance(own, dict):
        other = dict.fromkeys(own, next(iter(other.values())))
    one = recorded.only(found(recorded.mutated(start(), node, reading, (), other)))
    assert (one.rule, one.node) == (rule, node)
    assert {"h": "h100", "l": "l40s"}[node[0]] in one.reference
