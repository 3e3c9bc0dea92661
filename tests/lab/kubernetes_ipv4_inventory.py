"""The lab's inventory with Kubernetes over IPv4 alone; SSH and downloads stay on IPv6.

The lab gives nodes no IPv4 addresses: tests/lab/test_kubernetes_ipv4.py adds these.
"""

import ipaddress
import runpy
from dataclasses import fields
from typing import Any

from typing_extensions import override

from lockstep.inventory import plan_or_exit
from lockstep.plan import ClusterPlan

_values = runpy.run_path("inventories/lab.py").values()
# The inventory's plan is the only one among its values: a second one would be used in its place.
_described = next(one.spec for one in _values if isinstance(one, ClusterPlan))
_wanted: dict[str, Any] = _described.model_dump(mode="json", exclude_none=True)
_for_ssh = {one["name"]: one["management"] for one in _wanted["nodes"]}
_nodes = ipaddress.IPv4Network("10.77.0.0/24")
_pods = ipaddress.IPv4Network("10.78.0.0/16")
_wanted["networks"]["management"] = {"prefix": str(_nodes)}
_wanted["os"]["address_family"] = "ipv4"
for _number, (_one, _pods_of_one) in enumerate(
    zip(_wanted["nodes"], _pods.subnets(new_prefix=24), strict=False), 11
):
    _one["management"] = str(_nodes[_number])
    _one["pods"] = str(_pods_of_one)
_wanted["scheduler"] |= {
    "pod_prefix": str(_pods),
    "service_prefix": "10.79.0.0/16",
    "virtual_address": str(_nodes[10]),
}


class _OverIpv6(ClusterPlan):
    """The plan, with the addresses that the lab's machines have from their first boot for SSH."""

    @override
    def login(self, name: str) -> dict[str, Any]:
        return {**super().login(name), "ssh_hostname": _for_ssh[name]}


_planned = plan_or_exit(_wanted, __file__)
_cluster = _OverIpv6(
    **{one.name: getattr(_planned, one.name) for one in fields(_planned) if one.init}
)
del _planned

head = _cluster.group("head")
worker = _cluster.group("worker")
