"""The cluster of an inventory file in a lab: its description, with the lab's replacements.

``lockstep lab up --description inventories/prod.py`` makes the machines; ``inventories/lab.py``
then deploys the description of that file. ``replacements`` lists what a lab replaces, and why.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain, count
from pathlib import Path
from typing import Any

from lab import archive, network, repository
from lab.description.replacements import replaced
from lab.errors import WrongUseError
from lab.nvml import models
from lab.standins import vendor
from lab.state import Gpus, LabState, Node, Served
from lockstep import inventory as inventory_
from lockstep import spec
from lockstep.inventory import Description, described, plan_or_problems
from lockstep.plan import ClusterPlan
from lockstep.report import fold
from lockstep.spec import Problem, names

HOST_NAME = re.compile(r"[a-z][a-z0-9]{0,9}")
"""Names of nodes that the lab can use for network namespaces and for the switch's ports."""
DOCUMENTED = "docs/lab.md lists what a lab can take"


@dataclass(frozen=True)
class Wanted:
    """A package at a version that the lab's nodes need."""

    name: str
    pattern: str
    """Its version, or a pattern of it (apt_preferences(5)); "*" for any."""


def read(path: str) -> Description:
    """Return the description in an inventory file, if it is valid and a lab can take it.

    Raises:
        WrongUseError: a lab cannot take it; the message names each field with the reason.
        SystemExit: with status 3, after an error message, when the file cannot be run.
    """
    found = described(path)
    made, problems = plan_or_problems(found.values, found.file, found.roles)
    problems = problems or list(_objections(found.values))
    if made is None or problems:
        _refuse(found, problems)
    return found


def _refuse(found: Description, problems: list[Problem]) -> None:
    located = spec.located(problems, Path(found.file))
    blocks = (
        f"\n  {one.where(found.file)}\n    found    {one.value}\n    allowed  {one.allowed}"
        for one in located
    )
    raise WrongUseError(f"a lab cannot take {found.file}:{''.join(blocks)}", DOCUMENTED)


def _objections(description: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what of a valid description a lab cannot have."""
    release = description["os"]["release"]
    systems = ", ".join(sorted(archive.SUITES))
    if release not in archive.SUITES:
        yield Problem(("os", "release"), release, f"an image of the lab: {systems}")
    for index, group in enumerate(description["nodes"]):
        if group.get("release") not in (None, release):
            allowed = f"{release}: all machines of a lab have one system"
            yield Problem(("nodes", index, "release"), group["release"], allowed)
        for name in names.expand(group["name"]):
            if not HOST_NAME.fullmatch(name) or name == "switch":
                allowed = "lower-case letters and digits, 10 at most, and not 'switch'"
                yield Problem(("nodes", index, "name"), name, allowed)
                break
    for name, one in description["hardware"].items():
        here = ("hardware", name)
        if one.get("architecture", "x86_64") != "x86_64":
            yield Problem((*here, "architecture"), one["architecture"], "x86_64, as the host")
        gpu = one.get("gpu")
        if gpu is not None:
            yield from _gpu_objections((*here, "gpu"), gpu)


def _gpu_objections(here: tuple[str, ...], gpu: Mapping[str, Any]) -> Iterator[Problem]:
    vendor, model = gpu.get("vendor", "nvidia"), gpu.get("model")
    simulated = models.known()
    if vendor != "nvidia":
        yield Problem((*here, "vendor"), vendor, "nvidia: the lab simulates no other GPUs")
    elif model not in simulated:
        allowed = f"a model that the lab simulates: {', '.join(simulated)}"
        yield Problem((*here, "model"), repr(model), allowed)
    elif gpu["count"] > models.slots(model):
        allowed = f"{models.slots(model)} at most, the slots of the simulated board"
        yield Problem((*here, "count"), str(gpu["count"]), allowed)


def release(found: Description) -> str:
    """Return the operating system that a description of ``read`` names."""
    values: Any = found.values
    return str(values["os"]["release"])


def prepare(found: Description, workers: int | None, lab: LabState) -> None:
    """Give a new lab the nodes of a description, and a repository in place of each of its own.

    Args:
        found: a description of ``read``.
        workers: as in ``nodes``.
        lab: the lab, without nodes.

    Raises:
        WrongUseError: the lab cannot take the description.
    """
    values: Any = found.values
    lab.description = str(Path(found.file).resolve())
    lab.fabric_prefix = network.fabric_prefix_for(lab.fabric_prefix, rails(values))
    lab.nodes = nodes(found, lab, workers)
    software = values.get("software", {})
    names_of = [one["name"] for one in software.get("repositories", ())]
    own = Served(uri=lab.repository_uri, key=lab.repository_key, versions=lab.repository_versions)
    # The packages do not depend on the addresses of the repositories, which follow from them.
    unserved = lab.model_copy(update={"repositories": dict.fromkeys(names_of, own)})
    needed = wanted(planned(found, unserved))
    gone = missing(needed, json.loads(Path(lab.archive_versions).read_text(encoding="utf-8")))
    made = {one: list(vendor.made(one.name, one.pattern)) for one in gone}
    not_made = {one for one in gone if not made[one] or not names_of}
    if not_made:
        refuse_missing(found, not_made, lab)
    packages = sorted(
        (one for several in made.values() for one in several), key=lambda one: one.name
    )
    split = vendor.split(packages, names_of)
    beside = repository.Repository(Path(lab.repository_key).parent)
    for name, built in zip(split, repository.ensure_beside(beside, split.values()), strict=True):
        lab.repositories[name] = Served(
            uri=built.uri, key=str(built.key), versions=str(built.versions)
        )


def nodes(found: Description, lab: LabState, workers: int | None) -> list[Node]:
    """Return the machines of a lab: all heads of a description, and some of its workers.

    Args:
        found: a description of ``read``.
        lab: the lab, with its prefixes.
        workers: number of workers, the same from each group as far as it has them; None: two, or
            fewer if the description has fewer, and at least one of each group.

    Raises:
        WrongUseError: the description has fewer workers, or more groups of workers.
    """
    chosen = _chosen(found, workers)
    counts = {"head": network.HEAD_HOST_PART, "worker": network.FIRST_WORKER_HOST_PART + 1}
    made = []
    values: Any = found.values
    for index, group in enumerate(values["nodes"]):
        for name in chosen[index]:
            made.append(_node(values, group, name, counts[group["role"]], lab))
            counts[group["role"]] += 1
    return made


def _chosen(found: Description, workers: int | None) -> dict[int, list[str]]:
    """Return the names of the lab's nodes of each group."""
    of_workers = _groups(found, "worker")
    there = sum(map(len, of_workers.values()))
    wanted = max(min(2, there), len(of_workers)) if workers is None else workers
    if not len(of_workers) <= wanted <= there:
        raise WrongUseError(
            f"--workers {wanted}: {found.file} has {there} workers in {len(of_workers)} groups; "
            f"expected {len(of_workers)} to {there}"
        )
    return {**_groups(found, "head"), **_first_workers(found, wanted)}


def _groups(found: Description, role: str) -> dict[int, list[str]]:
    """Return the names of all nodes of each group with a role."""
    groups: Any = found.values["nodes"]
    named = ((index, one["name"]) for index, one in enumerate(groups) if one["role"] == role)
    return {index: list(names.expand(name)) for index, name in named}


def _first_workers(found: Description, number: int) -> dict[int, list[str]]:
    """Return the names of some workers, the same number from each group as far as it has them."""
    of_workers = _groups(found, "worker")
    taken: dict[int, list[str]] = {index: [] for index in of_workers}
    while sum(map(len, taken.values())) < number:
        fewest = min(
            (index for index in taken if len(taken[index]) < len(of_workers[index])),
            key=lambda index: len(taken[index]),
        )
        taken[fewest].append(of_workers[fewest][len(taken[fewest])])
    return taken


def rails(description: Mapping[str, Any]) -> int:
    """Return the number of rails of the fabric; 1 without a fabric."""
    return int(description["networks"].get("fabric", {}).get("rails", 1))


def _node(
    description: Mapping[str, Any], group: Mapping[str, Any], name: str, part: int, lab: LabState
) -> Node:
    hardware = description["hardware"][group["hardware"]]
    interfaces = hardware.get("nics", {}).get("interfaces", "")
    has_fabric = group.get("fabric") is not None
    named = list(names.expand(interfaces)) if interfaces else []
    numbered = [f"fabric{rail}" for rail in range(rails(description))]
    gpu = hardware.get("gpu")
    stack = description.get("software", {}).get("nvidia") or {}
    return Node(
        name=name,
        role=group["role"],
        address=network.address_in(lab.prefix, part),
        fabric_address=network.address_in(lab.fabric_prefix, part) if has_fabric else None,
        interface=hardware.get("management_interface") or "mgmt0",
        fabric_interfaces=named if len(named) == len(numbered) else numbered,
        gpus=Gpus(
            model=gpu["model"],
            count=gpu["count"],
            vbios=hardware.get("firmware", {}).get("vbios"),
            driver=stack.get("driver"),
        )
        if gpu is not None and group["role"] == "worker"
        else None,
    )


def planned(found: Description, lab: LabState) -> ClusterPlan:
    """Return the plan of a description in a lab.

    Raises:
        WrongUseError: the lab's description has problems; the message names the fields.
    """
    if left_out := list(_partitions_without_nodes(found, lab)):
        _refuse(found, left_out)
    made, problems = plan_or_problems(replaced(found.values, lab), found.file, found.roles)
    if made is None:
        _refuse(found, problems)
        raise AssertionError
    return made


def _partitions_without_nodes(found: Description, lab: LabState) -> Iterator[Problem]:
    """Yield the partitions all of whose workers the lab leaves out."""
    values: Any = found.values
    there = {node.name for node in lab.nodes}
    for index, one in enumerate((values.get("scheduler") or {}).get("partitions", ())):
        nodes = set(names.expand(one["nodes"]))
        if nodes & there:
            continue
        enough = next(
            number
            for number in count(1)
            if nodes.intersection(chain(*_first_workers(found, number).values()))
        )
        yield Problem(
            ("scheduler", "partitions", index, "nodes"),
            f"{one['nodes']}, the partition {one['name']}",
            f"at least one node of the lab, which has {fold(sorted(there))}. Next: boot more "
            f"workers: lockstep lab --name {lab.name} down, then up --description {found.file} "
            f"--workers {enough}",
        )


def wanted(made: ClusterPlan) -> set[Wanted]:
    """Return the packages of all nodes of a plan, with their versions."""
    return {
        Wanted(name, node.software.pins.get(name, "*"))
        for node in {node.kind: node for node in made.nodes.values()}.values()
        for name in (*node.software.packages, *node.software.pins)
    }


def missing(needed: set[Wanted], *offered: Mapping[str, str | list[str]]) -> set[Wanted]:
    """Return the packages that none of some archives has.

    Args:
        needed: packages.
        offered: package -> its version, or its versions, in each archive.
    """

    def has(one: Wanted, archive_: Mapping[str, str | list[str]]) -> bool:
        versions = archive_.get(one.name, [])
        every = [versions] if isinstance(versions, str) else versions
        return any(fnmatchcase(version, one.pattern) for version in every)

    return {one for one in needed if not any(has(one, archive_) for archive_ in offered)}


def plan_or_exit(lab: LabState, inventory: str) -> ClusterPlan:
    """Return the plan of the description of a running lab; exit with status 3 on errors.

    Args:
        lab: a lab that was made with a description.
        inventory: the inventory file that asks.

    Raises:
        SystemExit: the lab cannot take the description; pyinfra shows no traceback for it.
    """
    try:
        found = read(str(lab.description))
        needed = wanted(planned(found, lab))
        served = [lab.archive_versions, *(one.versions for one in lab.repositories.values())]
        gone = missing(needed, *(json.loads(Path(one).read_text()) for one in served))
        if gone:
            refuse_missing(found, gone, lab)
    except WrongUseError as error:
        print(f"ERROR {error}", file=sys.stderr)
        raise SystemExit(3) from error
    return inventory_.plan_or_exit(replaced(found.values, lab), inventory, found.roles)


def refuse_missing(found: Description, gone: set[Wanted], lab: LabState) -> None:
    """Refuse a description whose packages nothing in the lab has.

    Raises:
        WrongUseError: always; the message names the packages.
    """
    listed = ", ".join(sorted(f"{one.name} {one.pattern}" for one in gone))
    raise WrongUseError(
        f"{found.file}: neither the archive nor the lab's repositories have {listed}",
        f"lockstep lab --name {lab.name} down, then up again, if the description is new; "
        "lab/standins/vendor.py has the packages that the lab can simulate",
    )
