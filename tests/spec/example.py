"""A small valid inventory as text, in which the tests change one place."""

import ast
from typing import Any, cast

SOURCE = '''\
"""A cluster for tests."""

from lockstep.inventory import plan_or_exit

_cluster = plan_or_exit(
    {
        "name": "unit",
        "networks": {
            "management": {"prefix": "fd00:1::/64"},
            "fabric": {"prefix": "fd00:2::/60", "rails": 8},
        },
        "hardware": {
            "head": {"sockets": 1, "cores_per_socket": 8, "memory_mib": 32000},
            "hgx": {
                "sockets": 2,
                "cores_per_socket": 8,
                "threads_per_core": 2,
                "numa_nodes": 2,
                "memory_mib": 64000,
                "gpu": {
                    "model": "h200",
                    "count": 8,
                    "devices": "/dev/nvidia[0-7]",
                    "numa": {0: "0-3", 1: "4-7"},
                },
                "hugepages": [{"size": "2M", "numa_node": 1, "count": 1024}],
                "housekeeping_cpus": "0,8,16,24",
                "boot_loader": "grub",
                "kernel_args": ["iommu=pt"],
            },
        },
        "nodes": [
            {
                "name": "head1",
                "role": "head",
                "hardware": "head",
                "management": "fd00:1::1",
                "runs": ["slurm_controller", "slurm_accounting"],
            },
            {
                "name": "head2",
                "role": "head",
                "hardware": "head",
                "management": "fd00:1::2",
                "runs": ["prometheus"],
            },
            {
                "name": "worker[1-4]",
                "role": "worker",
                "hardware": "hgx",
                "management": "fd00:1::100",
                "fabric": "fd00:2::100",
                "runs": [],
            },
        ],
        "os": {"release": "debian_13", "sysctl": {"vm.swappiness": "1"}},
        "scheduler": {
            "system_memory_mib": 2048,
            "partitions": [
                {"name": "train", "nodes": "worker[1-4]", "default": True},
                {"name": "debug", "nodes": "worker1"},
            ],
        },
        "software": {"versions": {"slurmd": "24.11.5-4"}},
    },
    __file__,
)

head = _cluster.group("head")
worker = _cluster.group("worker")
'''


def description() -> dict[str, Any]:
    """The description of SOURCE, as a new dictionary."""
    calls = (node for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.Call))
    (call,) = (c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "plan_or_exit")
    return cast(dict[str, Any], ast.literal_eval(call.args[0]))


def edited(*changes: tuple[str, str]) -> str:
    """SOURCE with each first text replaced by the second one; each must stand there once."""
    text = SOURCE
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the example"
        text = text.replace(old, new)
    return text


def line_of(text: str, fragment: str) -> int:
    """Number of the line where the fragment begins."""
    assert text.count(fragment) == 1, f"{fragment!r} stands {text.count(fragment)} times"
    return text[: text.index(fragment)].count("\n") + 1
