"""NVLink domains that cannot exist, and two programs that would both start IMEX."""

from collections.abc import Callable
from typing import Any

import pytest

from lockstep.roles import declared
from lockstep.spec import load
from tests.spec.racks import description

Change = Callable[[dict[str, Any]], object]


def gpu(**fields: object) -> Change:
    return lambda wanted: wanted["hardware"]["gb200"]["gpu"].update(fields)


def tray(**fields: object) -> Change:
    return lambda wanted: wanted["hardware"]["gb200"].update(fields)


def _other_class(wanted: dict[str, Any]) -> None:
    wanted["hardware"]["gb300"] = {
        **wanted["hardware"]["gb200"],
        "gpu": {**wanted["hardware"]["gb200"]["gpu"], "model": "gb300"},
    }
    wanted["nodes"][1].update(name="a[01-09]")
    wanted["nodes"][2].update(name="b[01-09]", nvlink_domain="rack1", hardware="gb300")


def _inside(wanted: dict[str, Any]) -> None:
    gpu(multi_node_nvlink=False)(wanted)
    del wanted["software"]["nvidia"]["imex"]


@pytest.mark.parametrize(
    ("change", "path", "value", "allowed"),
    [
        pytest.param(
            lambda wanted: wanted["nodes"][2].update(nvlink_domain="rack1"),
            ("nodes", 2, "nvlink_domain"),
            "144 GPUs in NVLink domain rack1",
            "at most 72 GPUs (gb200): one group of nodes, or one nvlink_domain, for each rack",
            id="two racks in one domain",
        ),
        pytest.param(
            lambda wanted: wanted["nodes"][0].update(nvlink_domain="rack1"),
            ("nodes", 0, "nvlink_domain"),
            "rack1",
            "leave it out: only workers share GPU memory",
            id="a head in a domain",
        ),
        pytest.param(
            _inside,
            ("nodes", 1, "nvlink_domain"),
            "rack1",
            "leave it out: hardware class gb200 does not set gpu.multi_node_nvlink",
            id="a domain without NVLink between nodes",
        ),
        pytest.param(
            _other_class,
            ("nodes", 2, "nvlink_domain"),
            "rack1 with hardware class gb300",
            "hardware class gb200, as in the domain's other nodes",
            id="two classes in one domain",
        ),
        pytest.param(
            tray(architecture="x86_64"),
            ("hardware", "gb200", "architecture"),
            "x86_64",
            '"arm64": the processors of NVIDIA GB200 are Grace',
            id="GB200 with x86",
        ),
        pytest.param(
            tray(kernel={"iommu": "off"}),
            ("hardware", "gb200", "kernel", "iommu"),
            "off",
            '"pt" or "nopt": iommu=off is for x86',
            id="an argument of x86 by its field",
        ),
        pytest.param(
            tray(kernel={"max_cstate": 1}),
            ("hardware", "gb200", "kernel", "max_cstate"),
            "1",
            "leave it out: its arguments, processor.max_cstate and intel_idle.max_cstate, are for "
            "x86",
            id="idle states of x86",
        ),
        pytest.param(
            tray(kernel_args=["intel_iommu=on"]),
            ("hardware", "gb200", "kernel_args", 0),
            "intel_iommu=on",
            "leave it out: the argument is for x86",
            id="an argument of x86",
        ),
        pytest.param(
            tray(hugepages=[{"size": "1G", "numa_node": 0, "count": 2}]),
            ("hardware", "gb200", "hugepages", 0, "size"),
            "1G",
            "2M or 512M: an arm64 kernel with 64k pages has no others that Lockstep sets",
            id="a huge page that a kernel with 64k pages does not have",
        ),
        pytest.param(
            tray(
                hugepages=[{"size": "512M", "numa_node": 0, "count": 2}],
                kernel={"page_size": "4k"},
            ),
            ("hardware", "gb200", "hugepages", 0, "size"),
            "512M",
            '2M or 1G; or set kernel.page_size to "64k": only such a kernel has pages of 512M',
            id="a huge page that only a kernel with 64k pages has",
        ),
        pytest.param(
            lambda wanted: wanted["hardware"]["head"].update(
                hugepages=[{"size": "512M", "numa_node": 0, "count": 2}]
            ),
            ("hardware", "head", "hugepages", 0, "size"),
            "512M",
            "2M or 1G: x86 has no pages of 512M",
            id="a huge page that x86 does not have",
        ),
        pytest.param(
            lambda wanted: wanted["software"]["repositories"][0].update(
                uri="https://developer.download.nvidia.com/compute/cuda/repos/rhel8/x86_64"
            ),
            ("software", "repositories", 0, "architectures"),
            "all for NVIDIA's repository of x86_64",
            '["x86_64"]; nodes with arm64 use a repository whose address ends in /sbsa',
            id="NVIDIA's repository of another architecture",
        ),
        pytest.param(
            gpu(imex="compute_domains"),
            ("hardware", "gb200", "gpu", "imex"),
            "compute_domains with scheduler slurm",
            '"host": jobs of Slurm need the IMEX service of the node. ComputeDomains belong to '
            "Kubernetes; a site that manages slurmd itself lists slurm_worker in unmanaged",
            id="ComputeDomains with Slurm",
        ),
    ],
)
def test_the_first_problem(
    change: Change, path: tuple[str | int, ...], value: str, allowed: str
) -> None:
    wanted = description()
    change(wanted)
    cluster, problems = load(wanted, declared())
    assert cluster is None
    first = problems[0]
    assert (first.path, first.value, first.allowed) == (path, value, allowed)
