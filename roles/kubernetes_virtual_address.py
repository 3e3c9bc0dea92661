"""The virtual address of Kubernetes' API server: keepalived moves it to a head that answers.

Owns     keepalived's configuration and unit.
Restart  keepalived reads a changed configuration again, and keeps the address.
"""

from __future__ import annotations

from lockstep.facts.files import file_states
from lockstep.plan.declaration import Declaration, File, Unit
from lockstep.plan.kubernetes import DONE, PKI
from lockstep.plan.virtual_address import CONFIG, ROUTER_ID, has_virtual_address

CURL = "/usr/bin/curl"

ROLE = Declaration(
    name="kubernetes_virtual_address",
    title="Kubernetes virtual address",
    when=has_virtual_address,
    # It refuses an address other than the one that the cluster has.
    after=("network", "os_settings", "firewall", "kubernetes_node"),
    packages={"": ("keepalived", "curl")},
    files=(
        File(
            path=CONFIG,
            template="kubernetes_virtual_address/keepalived.conf.j2",
            own=True,
            # keepalived(8): it ends with another status than 0 on any error.
            validate="keepalived --config-test --use-file={new}",
            values={"ca": f"{PKI}/ca.crt", "curl": CURL, "router_id": ROUTER_ID},
        ),
    ),
    units=(Unit(name="keepalived.service", program="/usr/sbin/keepalived", reloads=".conf"),),
    operations="lockstep.roles.operations.kubernetes_virtual_address",
    unchecked={"answers": "it only waits; the units and the file are checked"},
    asks=lambda plan: [file_states((DONE,))],
)
