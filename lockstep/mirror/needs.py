"""What a plan needs from repositories: packages with versions, by kind of node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lockstep.catalog.os import Release
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.plan.fabric import doca_packages
from lockstep.report import alike
from lockstep.spec.software import fits

ANY = "*"
"""The version of a package that the description does not pin."""


@dataclass(frozen=True)
class Wanted:
    """A package that nodes get."""

    package: str
    version: str
    """The pinned version, which may be a pattern (apt_preferences(5)); ``ANY`` if it is free."""
    field: str
    """The field of the description that pins the version, or the role that needs the package."""

    def accepts(self, version: str) -> bool:
        """Return whether a version is one that the description allows."""
        return fits(version, self.version)

    @property
    def name(self) -> str:
        """The package with its version, for messages."""
        return self.package if self.version == ANY else f"{self.package} {self.version}"


@dataclass(frozen=True)
class Kind:
    """The nodes that get the same packages from the same repositories."""

    nodes: tuple[str, ...]
    plan: NodePlan
    """The plan of one of them, which represents all."""
    packages: tuple[Wanted, ...]

    @property
    def release(self) -> Release:
        """The operating system release of the nodes."""
        return self.plan.release

    @property
    def architecture(self) -> str:
        """The architecture of the nodes: x86_64 or arm64."""
        return self.plan.hardware.hardware.architecture

    @property
    def system(self) -> str:
        """The release, with the architecture if it is not x86_64: ``ubuntu_24_04/arm64``."""
        more = "" if self.architecture == "x86_64" else f"/{self.architecture}"
        return self.release.name + more

    @property
    def streams(self) -> tuple[str, ...]:
        """Module streams that have packages of the nodes: ``nvidia-driver:580-open``."""
        return self.plan.nvidia.streams if self.plan.nvidia else ()


def kinds(plan: ClusterPlan) -> tuple[Kind, ...]:
    """Return the kinds of nodes on which Lockstep installs packages."""
    found = alike(
        (node for node in plan.nodes.values() if node.software.packages),
        lambda node: (
            node.release.name,
            node.hardware.hardware.architecture,
            node.software.packages,
            tuple(sorted(node.software.pins.items())),
            node.nvidia.streams if node.nvidia else (),
        ),
    )
    return tuple(
        Kind(tuple(node.name for node in nodes), nodes[0], tuple(_wanted(nodes[0])))
        for nodes in found.values()
    )


def header_pattern(kind: Kind) -> str:
    """Return the name of the package with kernel headers, with {release} for the kernel.

    It is empty if the nodes build no modules.
    """
    return kind.plan.software.headers


def headers(kind: Kind, kernels: Iterable[str]) -> dict[str, str]:
    """Return kernel -> the package with its headers, for nodes that build a driver's modules."""
    pattern = header_pattern(kind)
    return {one: pattern.format(release=one) for one in kernels} if pattern else {}


def _wanted(node: NodePlan) -> Iterator[Wanted]:
    for package in node.software.packages:
        version = node.software.versions.get(package, ANY)
        yield Wanted(package, version, _field(node, package, version))


def _field(node: NodePlan, package: str, version: str) -> str:
    if version != ANY and package not in node.software.version_set:
        return f"software.versions.{package}"
    stack = node.nvidia.packages_of if node.nvidia else {}
    for part, packages in stack.items():
        if package in packages and version == packages[package]:
            name = {"modules": "driver", "cuda": "cuda"}.get(part.partition("_")[0], part)
            return f"software.nvidia.{name}"
    if package in doca_packages(node) and version == doca_packages(node)[package]:
        return "software.rdma.version"
    for part, packages in node.job_containers.packages_of.items():
        if package in packages and version == packages[package]:
            return f"software.containers.{part}"
    if version != ANY:
        return f"software.versions.{package}"
    roles = [role for role, packages in node.software.by_role.items() if package in packages]
    return f"role {', '.join(roles)}"
