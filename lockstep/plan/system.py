"""Packages, files, units and kernel parameters of a node, from the declarations of its roles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from lockstep.plan import kubernetes, owners
from lockstep.plan.declaration import File, Unit
from lockstep.plan.driver import Driver
from lockstep.plan.fabric import doca_packages
from lockstep.plan.signing import builds_modules
from lockstep.spec.software import Repository

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan


@dataclass(frozen=True)
class Software:
    """The packages that all nodes of the same kind have."""

    plan: NodePlan
    """The plan of one node, which represents all nodes of its kind."""

    @property
    def repositories(self) -> tuple[Repository, ...]:
        """The additional package repositories of the nodes."""
        return self.plan.spec.software.repositories_on(
            self.plan.release.name, self.plan.hardware.hardware.architecture
        )

    @cached_property
    def by_role(self) -> dict[str, tuple[str, ...]]:
        """Role -> packages that the role needs."""
        release = self.plan.release
        return {
            role.name: tuple(
                dict.fromkeys((*role.packages_on(release), *role.more_packages(self.plan)))
            )
            for role in self.plan.roles.values()
        }

    @cached_property
    def packages(self) -> tuple[str, ...]:
        """Every package, sorted; none if the nodes do not have the role ``packages``."""
        return self.needed if "packages" in self.by_role else ()

    @property
    def needed(self) -> tuple[str, ...]:
        """Every package that the managed roles need, sorted, whoever installs it."""
        return tuple(sorted(set[str]().union(*self.by_role.values())))

    @cached_property
    def version_set(self) -> dict[str, str]:
        """Package of NVIDIA's stacks or of a container program -> version pattern."""
        stack = self.plan.nvidia.packages_of if self.plan.nvidia else {}
        parts = (
            kubernetes.packages(self.plan) if "kubernetes_node" in self.plan.roles else {},
            *stack.values(),
            *self.plan.job_containers.packages_of.values(),
            doca_packages(self.plan),
        )
        return {name: version for packages in parts for name, version in packages.items()}

    @cached_property
    def versions(self) -> dict[str, str]:
        """Package -> its locked version, which may be a pattern (apt_preferences(5))."""
        locked = {
            **self.version_set,
            **self.plan.spec.software.locked_on(self.plan.release.name),
        }
        versions = {name: locked[name] for name in self.packages if name in locked}
        if self.plan.release.family == "rhel":
            # As RPM's reader: rpm(8) prints no epoch, and dnf(8) accepts a version without it.
            return {name: version.rpartition(":")[2] for name, version in versions.items()}
        return versions

    @property
    def pins(self) -> dict[str, str]:
        """Package -> version that apt prefers: locked packages and their pinned dependencies."""
        return {**(self.plan.nvidia.pins if self.plan.nvidia else {}), **self.versions}

    @cached_property
    def held(self) -> tuple[str, ...]:
        """Packages on hold, which not even a manual upgrade changes."""
        return tuple(name for name in self.packages if name in self.version_set)

    @cached_property
    def headers(self) -> str:
        """Name of the package with a kernel's headers, with {release} for the kernel.

        Empty if DKMS builds no modules on the nodes.
        """
        built = bool(self.packages) and builds_modules(self.plan)
        return self.plan.release.kernel_headers if built else ""

    @cached_property
    def driver(self) -> Driver | None:
        """The driver that Lockstep installs; None if the site installs it, or if there is none."""
        managed = bool(self.packages) and self.plan.manages("nvidia_driver")
        return self.plan.nvidia.driver if self.plan.nvidia and managed else None


@dataclass(frozen=True)
class Listener:
    """A port that other nodes must be able to reach."""

    unit: str
    protocol: Literal["tcp", "udp"]
    port: int


@dataclass(frozen=True)
class System:
    """The files, units and kernel parameters that all nodes of the same kind have."""

    plan: NodePlan
    """The plan of one node, which represents all nodes of its kind."""

    @cached_property
    def files(self) -> tuple[tuple[str, File], ...]:
        """The role name and the declaration of each file."""
        return tuple(
            (role.name, file)
            for role in self.plan.roles.values()
            for file in role.files_on(self.plan)
        )

    def paths(self, role: str | None = None) -> tuple[str, ...]:
        """Return the paths of all files, or of one role's files; secret files are included."""
        return tuple(file.path for owner, file in self.files if role is None or owner == role)

    @cached_property
    def manager_paths(self) -> tuple[str, ...]:
        """The paths of the files that configure systemd itself: its defaults and slices."""
        return tuple(
            path
            for path in self.paths()
            if any(part in path for part in ("/systemd/system.conf.d/", ".slice.d/", "/service.d/"))
        )

    @cached_property
    def declared_units(self) -> tuple[Unit, ...]:
        """The declarations of the units that must be enabled and running."""
        return tuple(
            unit
            for role in self.plan.roles.values()
            for unit in role.units
            if unit.wanted(self.plan)
        )

    @cached_property
    def role_of_unit(self) -> dict[str, str]:
        """Unit that must be enabled and running -> its role."""
        return owners.first(
            self.plan,
            lambda role: [unit.name for unit in role.units if unit.wanted(self.plan)],
        )

    @property
    def units(self) -> tuple[str, ...]:
        """Units that must be enabled and running."""
        return tuple(self.role_of_unit)

    @cached_property
    def masked_units(self) -> tuple[str, ...]:
        """Units that must never start."""
        return tuple(owners.first(self.plan, lambda role: role.contributes.masked_units(self.plan)))

    @cached_property
    def forbidden_units(self) -> tuple[str, ...]:
        """Units that must not run, because their hardware is missing or their feature is off."""
        return tuple(
            owners.first(self.plan, lambda role: role.contributes.forbidden_units(self.plan))
        )

    @cached_property
    def job_parents(self) -> tuple[str, ...]:
        """Services that start the processes of jobs or containers and may use workload CPUs.

        A service of the site does so, too.
        """
        roles = self.plan.managed_or_not.values()
        units = (unit for role in roles for unit in role.units if unit.wanted(self.plan))
        return tuple(unit.name for unit in units if unit.runs_jobs)

    @cached_property
    def listeners(self) -> tuple[Listener, ...]:
        """Listeners on the network: sshd, and the units that have a port.

        munge has no port: it answers on a local socket, and Slurm's messages carry its credentials.
        """
        ports = (
            (unit, unit.port(self.plan)) for unit in self.declared_units if unit.port is not None
        )
        return (
            Listener(self.plan.release.local("ssh.service"), "tcp", self.plan.spec.access.port),
            *(Listener(unit.name, unit.protocol, port) for unit, port in ports if port is not None),
        )

    @cached_property
    def kernel_args(self) -> tuple[str, ...]:
        """Arguments of the kernel command line; a key may occur more than once."""
        return tuple(
            arg
            for role in self.plan.roles.values()
            for arg in role.contributes.kernel_args(self.plan)
        )

    @cached_property
    def sysctl(self) -> dict[str, str]:
        """Sysctl -> its value."""
        return {
            key: value
            for role in self.plan.roles.values()
            for key, value in role.contributes.sysctl(self.plan).items()
        }
