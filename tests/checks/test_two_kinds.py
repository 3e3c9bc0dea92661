"""Two hardware classes and two operating systems in one cluster: which nodes are compared."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any

import pytest

from lockstep.checks.context import Context
from lockstep.checks.rules.fingerprint import FAMILY
from lockstep.report import Finding
from tests.checks import healthy, recorded
from tests.checks.recorded_fingerprint import objects, with_objects

DRIVER = "580.95.05"
H100, L40S, OLDER = "h[1-3]", "l[1-3]", "h[4-6]"
DESCRIPTION: dict[str, Any] = {
    "name": "two-kinds",
    "networks": {"management": {"prefix": "fd00:1::/64"}},
    "hardware": {
        "head": recorded.DESCRIPTION["hardware"]["head"],
        "h100": {
            **recorded.DESCRIPTION["hardware"]["hgx-h200"],
            "gpu": {"model": "h100", "count": 8, "nvswitch": True},
        },
        "l40s": {
            "sockets": 2,
            "cores_per_socket": 4,
            "memory_mib": 32768,
            "gpu": {"model": "l40s", "count": 4},
        },
    },
    "nodes": [
        {
            "name": "head1",
            "role": "head",
            "hardware": "head",
            "management": "fd00:1::1",
            "runs": ["slurm_controller", "slurm_accounting", "prometheus"],
        },
        {"name": H100, "role": "worker", "hardware": "h100", "management": "fd00:1::101"},
        {
            "name": L40S,
            "role": "worker",
            "hardware": "l40s",
            "management": "fd00:1::201",
            "release": "debian_12",
        },
        {
            "name": OLDER,
            "role": "worker",
            "hardware": "h100",
            "management": "fd00:1::301",
            "release": "debian_12",
        },
    ],
    "os": {"release": "debian_13"},
    "scheduler": {"kind": "slurm"},
    "software": {
        "repositories": [
            {
                **recorded.DESCRIPTION["software"]["repositories"][0],
                "releases": ["debian_12", "debian_13"],
            }
        ],
        "versions_on": {"debian_12": {"slurmd": "24.05.2-1"}},
        "nvidia": {"driver": DRIVER, "fabric_manager": DRIVER, "cuda": ["12.9"]},
    },
}


@cache
def start() -> Context:
    return healthy.of(copy.deepcopy(DESCRIPTION), Random(1))


def found(cluster: Context) -> list[Finding]:
    return list(recorded.report(cluster))


def values(reading: str) -> dict[str, Any]:
    """Node -> a reading."""
    return {name: view.read(reading) for name, view in start().views.items()}


def test_equal_nodes_of_each_kind_have_no_finding() -> None:
    assert found(start()) == []


def test_the_kinds_differ_in_what_is_compared() -> None:
    kernels = values("kernel.release")
    assert kernels["h1"] == kernels["h2"] != kernels["l1"] == kernels["h4"]
    assert values("gpu.name")["h1"] != values("gpu.name")["l1"]
    packages = values("packages")
    assert packages["h1"]["libc6"] != packages["h4"]["libc6"]


@pytest.mark.parametrize(
    ("node", "like", "peers"),
    [
        ("h2", "l1", "of class h100 on debian_13"),
        ("h2", "h4", "of class h100 on debian_13"),
        ("l3", "h1", "of class l40s on debian_12"),
        ("h6", "h1", "of class h100 on debian_12"),
    ],
)
def test_a_node_with_the_kernel_of_another_kind_is_odd_among_its_own(
    node: str, like: str, peers: str
) -> None:
    kernels = values("kernel.release")
    wrong = recorded.mutated(start(), node, "kernel.release", (), kernels[like])
    finding = recorded.only(found(wrong))
    assert (finding.rule, finding.node) == ("kernel.release", node)
    assert (finding.found, finding.expected) == (kernels[like], kernels[node])
    assert finding.reference == f"peers: 2 nodes {peers}"


def test_a_package_is_compared_with_the_nodes_of_the_release() -> None:
    """The head counts, too; the six nodes of the other release do not."""
    other = values("packages")["l1"]["libc6"]
    wrong = recorded.mutated(start(), "h2", "packages", ("libc6",), other)
    finding = recorded.only(found(wrong))
    assert (finding.rule, finding.node, finding.found) == ("package.version", "h2", other)
    assert finding.reference == "peers: 3 nodes of cluster two-kinds on debian_13"


def test_a_key_of_munge_is_compared_with_the_whole_cluster() -> None:
    wrong = recorded.mutated(start(), "l1", "munge.key_sha256", (), "0" * 64)
    assert recorded.only(found(wrong)).rule == "munge.key"


# -- fingerprints


def fingerprints(content: Mapping[str, str]) -> list[Finding]:
    """The findings when a file has this content on these nodes."""
    changed = {}
    for name, text in content.items():
        of_node = objects(name, start().plan.nodes[name].address)
        of_node["file"]["/etc/site.conf"] = {"content": text}
        changed[name] = of_node
    return found(with_objects(start(), changed))


OF_KINDS = {
    **dict.fromkeys(("h1", "h2", "h3"), "one\n"),
    **dict.fromkeys(("l1", "l2", "l3"), "two\n"),
    **dict.fromkeys(("h4", "h5", "h6"), "three\n"),
}


def test_each_kind_may_have_its_own_files() -> None:
    assert fingerprints(OF_KINDS) == []


@pytest.mark.parametrize(("node", "like"), [("h2", "two"), ("l3", "one"), ("h4", "one")])
def test_a_file_of_another_kind_is_odd_among_its_own(node: str, like: str) -> None:
    finding = recorded.only(fingerprints({**OF_KINDS, node: f"{like}\n"}))
    assert (finding.rule, finding.node) == (f"{FAMILY}file", node)
    assert finding.found == f"content: {like}"
    assert finding.reference == "peers (2 of 3)"


# -- Slurm's files


def test_slurm_knows_the_kinds_apart() -> None:
    files = {
        file.path: file.content.decode() for file in start().files(start().plan.nodes["head1"])
    }
    lines = [line for line in files["/etc/slurm/slurm.conf"].splitlines() if "NodeName=" in line]
    assert [line.split()[0].partition("=")[2] for line in lines] == [H100, L40S, OLDER]
    kinds = [line.partition(" Gres=")[2] for line in lines]
    assert kinds == [
        "gpu:h100:8 Features=h100,debian_13 State=UNKNOWN",
        "gpu:l40s:4 Features=l40s,debian_12 State=UNKNOWN",
        "gpu:h100:8 Features=h100,debian_12 State=UNKNOWN",
    ]
    assert (
        "AccountingStorageTRES=gres/gpu,gres/gpu:h100,gres/gpu:l40s\n"
        in (files["/etc/slurm/slurm.conf"])
    )
    gres = files["/etc/slurm/gres.conf"]
    assert f"NodeName={H100} AutoDetect=nvml\n" in gres
    # Debian 12 has no plugin for NVML: its GPUs are listed.
    assert f"NodeName={L40S} Name=gpu Type=l40s File=/dev/nvidia[0-3] " in gres
