"""Builds each node's request: the files, units and sysctls to read, without expected values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from ipaddress import ip_address
from itertools import groupby

from lockstep.plan import ClusterPlan, NodePlan
from lockstep.plan.job_containers import PYXIS_OPTION
from lockstep.plan.kubernetes import KUBEADM_CONFIG
from lockstep.plan.kubernetes_objects import object_sources
from lockstep.plan.kubernetes_releases import release_sources
from lockstep.plan.network import gateway_families
from lockstep.plan.nvidia import CHECK_IMAGE, check_engines
from lockstep.plan.signing import signing
from lockstep.probe.ship import Request, fingerprint_program
from lockstep.report import fold
from lockstep.spec import Service

NAME, PODS = "name", "network of the pods"
Asked = tuple[tuple[str, str], ...]
"""Parts of a fingerprint, as in ``Request.asked``."""


def request(
    plan: NodePlan,
    *,
    containers: bool = False,
    fingerprint: bool = False,
    slow: bool = False,
    asked: Asked = (),
    texts: bool = False,
) -> Request:
    """Return the request for one node.

    Args:
        plan: the plan of the node.
        containers: whether to start one container per engine.
        fingerprint: whether to take the fingerprint as well.
        slow: whether to take also the domains that nodes read once a day at most.
        asked: what of the fingerprint to read, and nothing else; empty: a whole record.
        texts: whether to read the planned files with their content, and nothing else.
    """
    if texts:
        secret = {file.path for _, file in plan.system.files if file.secret}
        paths = plan.system.paths()
        return Request(files=paths, texts=tuple(path for path in paths if path not in secret))
    if asked:
        return Request(
            fingerprint=plan.spec.name,
            asked=asked,
            alike=alike(plan),
            exempt=_exempt(plan),
            housekeeping_cpus=plan.hardware.cpu.housekeeping,
        )
    hardware = plan.hardware
    engines = check_engines(plan) if containers else ()
    return Request(
        files=plan.system.paths(),
        units=(*plan.system.units, *plan.system.masked_units, *plan.system.forbidden_units),
        sysctls=tuple(plan.system.sysctl),
        kernel_files=tuple(file.path for file in (*hardware.cpu_files, *hardware.kernel_files)),
        interfaces=tuple(f"{one.manager} {one.name}" for one in plan.interfaces),
        gateways=gateway_families(plan.interfaces),
        firewall=(plan.firewall.kind,) if plan.firewall.kind else (),
        selinux_modules=tuple(plan.selinux.modules),
        selinux_booleans=tuple(plan.selinux.booleans),
        selinux_labels=tuple(plan.selinux.labels),
        listeners=tuple(f"{one.protocol}/{one.port}" for one in plan.system.listeners),
        manifests=object_sources(plan),
        releases=release_sources(plan),
        kubeadm=(KUBEADM_CONFIG,) if "kubernetes_control_plane" in plan.roles else (),
        api_server=(plan.endpoint(plan.kubernetes.settings.api_port),)
        if plan.runs(Service.KUBERNETES_CONTROL_PLANE)
        else (),
        containers=engines,
        check_image=CHECK_IMAGE if engines else "",
        container_devices=("/dev/infiniband",) if engines and "rdma" in plan.managed_or_not else (),
        spank_plugins=(plan.job_containers.plugin,) if "pyxis" in plan.roles else (),
        srun_options=(PYXIS_OPTION,) if "pyxis" in plan.roles else (),
        signatures=signing(plan) is not None,
        fingerprint=plan.spec.name if fingerprint else "",
        alike=alike(plan) if fingerprint else (),
        exempt=_exempt(plan) if fingerprint else (),
        slow=slow and fingerprint,
        housekeeping_cpus=hardware.cpu.housekeeping,
    )


def method(plan: ClusterPlan) -> str:
    """Return an identifier of the way in which fingerprints of a cluster are taken.

    Another program, or other exceptions, can give another fingerprint of the same node.
    """
    rows = [one.model_dump(mode="json") for one in plan.spec.checks.exceptions]
    text = json.dumps([fingerprint_program(), rows])
    return blake2b(text.encode("utf-8"), digest_size=8).hexdigest()


def _exempt(plan: NodePlan) -> tuple[tuple[str, str, str, str], ...]:
    rows = plan.spec.checks.exceptions
    return tuple((row.domain, row.object, row.field, row.reason) for row in rows)


def own(plan: NodePlan) -> tuple[tuple[str, str], ...]:
    """Return the identities of a node: what a value is, and the value."""
    node, kinds = plan.node, ("fabric address", "second fabric address")
    second = node.management_second
    return (
        (NAME, plan.name),
        ("management address", plan.address),
        *((("second management address", str(second)),) if second is not None else ()),
        *(((PODS, str(node.pods)),) if node.pods is not None else ()),
        *(
            (f"{kind} {rail}", str(address))
            for kind, addresses in zip(kinds, (node.fabric, node.fabric_second), strict=True)
            for rail, address in enumerate(addresses, 1)
        ),
    )


MOST_RANGES = 64
"""Ranges of addresses, and of names, that travel to each node. Values that are spread more are left
out: lists of them then differ between nodes."""


def alike(plan: NodePlan) -> tuple[tuple[str, str], ...]:
    """Return the identities of all nodes of a kind (``Request.alike``); empty if there is one."""
    return plan.once(alike, lambda: tuple(_alike(plan)))


def _alike(plan: NodePlan) -> Iterator[tuple[str, str]]:
    nodes = [one for one in plan.cluster.nodes.values() if one.kind == plan.kind]
    if len(nodes) < 2:
        return
    values: dict[str, list[str]] = {}
    for node in nodes:
        for kind, value in own(node):
            if kind != PODS:  # a network, which is in no range of addresses
                values.setdefault(kind, []).append(value)
    for kind, every in values.items():
        if len(set(every)) != len(nodes):
            continue
        text = fold(every) if kind == NAME else ",".join(_ranges(every))
        if text.count(",") < MOST_RANGES:
            yield kind, text


def _ranges(addresses: Iterable[str]) -> Iterator[str]:
    """Yield addresses that follow each other as ``first-last``, others alone."""
    ordered = sorted(map(ip_address, addresses), key=lambda one: (one.version, int(one)))
    for _, run in groupby(enumerate(ordered), lambda pair: int(pair[1]) - pair[0]):
        these = [address for _, address in run]
        yield str(these[0]) if len(these) == 1 else f"{these[0]}-{these[-1]}"
