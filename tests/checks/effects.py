"""What the operations of roles write on a node, and how its record shows that it is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lockstep.files import managed
from lockstep.plan import NodePlan, owners
from lockstep.plan.job_containers import PYXIS_PLUGIN
from lockstep.plan.running import KernelFile
from lockstep.plan.slurm import MUNGE_KEY
from lockstep.probe.record import Record
from tests.checks.recorded import REMOVED, SECRETS


@dataclass(frozen=True)
class Effect:
    """One thing that a role wrote, changed: where a record shows it, and as what."""

    role: str
    reading: str
    path: tuple[str, ...]
    value: Any

    @property
    def shape(self) -> tuple[str, ...]:
        """The place with its item (a file, a unit, a package) left open."""
        inside = (part for part in self.path[1:] if not part.startswith("/"))
        return (self.reading, *inside, str(self.value is REMOVED))


def _items(record: Record, reading: str) -> dict[str, Any]:
    items = record.items(reading)
    assert isinstance(items, dict)
    return items


Effects = Callable[[NodePlan, Record], Iterator[Effect]]


def files(plan: NodePlan, record: Record) -> Iterator[Effect]:
    for file in managed(plan, SECRETS):
        yield Effect(file.role, "files", (file.path, "mode"), "777")
        yield Effect(file.role, "files", (file.path, "user"), "nobody")
        yield Effect(file.role, "files", (file.path, "group"), "nogroup")
        if file.path == MUNGE_KEY:
            yield Effect(file.role, "munge.key_sha256", (), "0" * 64)
            yield Effect(file.role, "munge.key_sha256", (), "absent")
        else:
            yield Effect(file.role, "files", (file.path, "sha256"), "0" * 64)
            yield Effect(file.role, "files", (file.path,), {"absent": True})


def packages(plan: NodePlan, record: Record) -> Iterator[Effect]:
    held = list(plan.software.held)
    for name in plan.software.packages:
        yield Effect("packages", "packages", (name,), REMOVED)
    driver = plan.software.driver
    for name in plan.software.versions:
        if driver is None or name not in driver.packages:  # those are the rollout's
            yield Effect("packages", "packages", (name,), "0.1-1")
    for name in held:
        others = sorted(other for other in held if other != name)
        yield Effect("packages", "packages.held", (), others)


def units(plan: NodePlan, record: Record) -> Iterator[Effect]:
    for unit in plan.system.units:
        (role,) = owners.of_unit(plan, unit)
        yield Effect(role, "units", (unit, "active"), "inactive")
        yield Effect(role, "units", (unit, "enabled"), "disabled")


def systemd(plan: NodePlan, record: Record) -> Iterator[Effect]:
    if plan.hardware.cpu.housekeeping:
        yield Effect("cpu_sets", "cpuset.user_slice", (), plan.hardware.cpu.all)


def manager_cpus(plan: NodePlan, record: Record) -> Iterator[Effect]:
    if plan.hardware.cpu.housekeeping:
        yield Effect("cpu_sets", "cpuset.manager", (), plan.hardware.cpu.all)


def service_cpus(plan: NodePlan, record: Record) -> Iterator[Effect]:
    if plan.hardware.cpu.housekeeping:
        for unit in _items(record, "cpuset.services"):
            if unit not in plan.system.job_parents:
                yield Effect("cpu_sets", "cpuset.services", (unit,), plan.hardware.cpu.all)


def kernel_files(plan: NodePlan, record: Record) -> Iterator[Effect]:
    written = {"kernel": plan.hardware.kernel_files, "cpu_sets": plan.hardware.cpu_files}
    for role, settings in written.items():
        for file in settings:
            for path in _items(record, "kernel.files")[file.path]:
                yield Effect(role, "kernel.files", (file.path, path), _other(file))


def _other(file: KernelFile) -> str:
    return {"word": "other", "choice": "[other] x", "mask": "f"}[file.form]


def kernel_arguments(plan: NodePlan, record: Record) -> Iterator[Effect]:
    args = list(plan.system.kernel_args)
    for argument in args:
        left = [other for other in args if other != argument]
        yield Effect("boot_loader", "kernel.cmdline_persisted", (), left)


def os_running(plan: NodePlan, record: Record) -> Iterator[Effect]:
    yield Effect("os_settings", "os.hostname", (), "localhost")
    yield Effect("os_settings", "os.time_zone", (), "Europe/Rome")
    yield Effect("os_settings", "os.locale", (), "")
    for key in plan.system.sysctl:
        yield Effect("os_settings", "sysctl.running", (key,), "77")
    for unit in plan.system.masked_units:
        yield Effect("os_settings", "units", (unit, "load"), "loaded")


def hugepages(plan: NodePlan, record: Record) -> Iterator[Effect]:
    for size, split in plan.hardware.hugepages.items():
        for node in split:
            yield Effect("hugepages", "hugepages", (size, str(node)), 3)


def hugepage_mounts(plan: NodePlan, record: Record) -> Iterator[Effect]:
    if plan.hardware.hugepages:
        for point in _items(record, "hugepages.mounts"):
            yield Effect("hugepages", "hugepages.mounts", (point,), REMOVED)
            yield Effect("hugepages", "hugepages.mounts", (point, "mode"), "700")
            yield Effect("hugepages", "hugepages.mounts", (point, "gid"), 77)


def gpu_settings(plan: NodePlan, record: Record) -> Iterator[Effect]:
    for gpu in range(plan.gpu.count if plan.gpu else 0):
        for reading, value in (
            # Less of it alone would be a cap from below the driver, which no role set.
            ("gpu.power.enforced_w", 750.0),
            ("gpu.persistence", "Disabled"),
            ("gpu.compute_mode", "Prohibited"),
            ("gpu.ecc.pending", "Disabled"),
            ("gpu.mig.pending", "Disabled" if plan.gpu and plan.gpu.mig else "Enabled"),
            *((("gpu.mig.devices", []),) if plan.gpu and plan.gpu.mig else ()),
        ):
            yield Effect("gpu_settings", reading, (f"gpu{gpu}",), value)


def idle_units(plan: NodePlan, record: Record) -> Iterator[Effect]:
    for unit in plan.system.forbidden_units:
        yield Effect("nvidia_driver", "units", (unit, "active"), "active")
        yield Effect("nvidia_driver", "units", (unit, "enabled"), "enabled")


def built_modules(plan: NodePlan, record: Record) -> Iterator[Effect]:
    if plan.nvidia is not None and plan.nvidia.driver.flavour is not None:
        yield Effect("nvidia_driver", "driver.module_on_disk", ("version",), "absent")
        yield Effect("nvidia_driver", "driver.module_next", ("version",), "absent")


def signatures(plan: NodePlan, record: Record) -> Iterator[Effect]:
    for kernel, modules in _items(record, "dkms.signatures").items():
        for module, files in modules.items():
            for name in files:
                yield Effect(
                    *("module_signing", "dkms.signatures", (kernel, module, name)),
                    {"signer": "", "key": "", "hash": ""},
                )


def cdi(plan: NodePlan, record: Record) -> Iterator[Effect]:
    if plan.nvidia is not None and plan.nvidia.has("container_toolkit"):
        if plan.gpu and plan.gpu.mig:
            yield Effect("container_runtime", "cdi.devices", ("0:1",), REMOVED)
        else:
            yield Effect("container_runtime", "cdi.devices", ("all",), ["/dev/nvidia0"])
        yield Effect("container_runtime", "cdi.libraries", (), ["1.2.3"])


def pyxis(plan: NodePlan, record: Record) -> Iterator[Effect]:
    if "pyxis" in plan.roles:
        yield Effect("pyxis", "slurm.spank_plugins", (PYXIS_PLUGIN,), "23.11")


def rdma_modules(plan: NodePlan, record: Record) -> Iterator[Effect]:
    if "rdma" in plan.roles:
        yield Effect("rdma", "rdma.device_files", ("/dev/infiniband/rdma_cm",), REMOVED)


def rails(plan: NodePlan, record: Record) -> Iterator[Effect]:
    for one in plan.interfaces:
        if one.is_rail:
            yield Effect("network", "net.addresses", (one.name,), [])
            if one.mtu:
                yield Effect("network", "net.mtu", (one.name,), 1500)


def packet_filter(plan: NodePlan, record: Record) -> Iterator[Effect]:
    if plan.firewall.kind:
        yield Effect("firewall", "firewall.rules", (plan.firewall.kind,), "absent")


def selinux_policy(plan: NodePlan, record: Record) -> Iterator[Effect]:
    for name in plan.selinux.loaded:
        yield Effect("selinux", "selinux.modules", (name,), "absent")
        yield Effect("selinux", "selinux.modules", (name,), "0" * 64)
    for name in set(plan.selinux.modules) - plan.selinux.loaded.keys():
        yield Effect("selinux", "selinux.modules", (name,), "0" * 64)


def selinux_booleans(plan: NodePlan, record: Record) -> Iterator[Effect]:
    for name in plan.selinux.booleans:
        for item in ("running", "persisted"):
            yield Effect("selinux", "selinux.booleans", (name, item), "off")


def selinux_labels(plan: NodePlan, record: Record) -> Iterator[Effect]:
    for path in plan.selinux.labels:
        yield Effect("selinux", "selinux.labels", (path,), "user_home_t")


def selinux_mode(plan: NodePlan, record: Record) -> Iterator[Effect]:
    if plan.selinux.mode:
        yield Effect("selinux", "selinux.mode", ("running",), "permissive")


def fetched(plan: NodePlan, record: Record) -> Iterator[Effect]:
    if "slurm_worker" in plan.roles and plan.cluster.configless:
        yield Effect("slurm_worker", "slurm.conf_sha256", (), "0" * 64)


WRITTEN: dict[str, Effects] = {
    "files.managed_files": files,
    "packages.locked_packages": packages,
    "service.service": units,
    "service.units": units,
    "service.manager_configuration": systemd,
    "kernel.running_kernel_files": kernel_files,
    "module_signing.signed_modules": signatures,
    "nvidia_driver.built": built_modules,
    "workers_first.files_after_workers": files,
    "boot_loader.menu": kernel_arguments,
    "boot_loader.entries": kernel_arguments,
    "container_runtime.cdi_specification": cdi,
    "cpu_sets.manager_cpus": manager_cpus,
    "cpu_sets.confined": service_cpus,
    "gpu_settings.running_settings": gpu_settings,
    "hugepages.running_hugepages": hugepages,
    "hugepages.mounted": hugepage_mounts,
    "network.enabled": units,
    "network.files": files,
    "network.rails_applied": rails,
    "nvidia_driver.idle_units": idle_units,
    "os_settings.running_settings": os_running,
    "pyxis.plugin_of_this_slurm": pyxis,
    "rdma.loaded_modules": rdma_modules,
    "firewall.files": files,
    "firewall.loaded": packet_filter,
    "selinux.files": files,
    "selinux.policy": selinux_policy,
    "selinux.booleans": selinux_booleans,
    "selinux.labels": selinux_labels,
    "selinux.running_mode": selinux_mode,
    "slurm_worker.configuration_fetched": fetched,
    "slurm_worker.started": units,
}
"""Operation -> what it writes."""

WRITES_NOTHING = (
    "firewall.bus",  # lets D-Bus read its files again
    "declared.refused",  # fails
    "workers_first.on_every_worker",  # fails where one lacks a file
    "barrier.reached",
    "canary.no_new_findings",  # fails
    "comparison.noted",
    "slurm_controller.known_nodes_noted",
    "time_sync.clock_is_right",  # waits
)

OF_KUBERNETES = (
    "kubernetes_certificates.renewed",
    "kubernetes_gpus.offered",
    "kubernetes_manifests.as_configured",
    "kubernetes_member.cleared",
    "kubernetes_member.initialised",
    "kubernetes_member.joined",
    "kubernetes_member.registered",
    "kubernetes_node.routes_made",
    "kubernetes_node.same_endpoint",
    "kubernetes_node.same_version",
    "kubernetes_objects.as_planned",
    "kubernetes_objects.labelled",
    "kubernetes_releases.as_planned",
    "restore.follows",
    "restore.restored",
    "restore.stopped",
    "restore.verified",
    "uncordon.uncordoned",
    "upgrade.allowed",
    "upgrade.upgraded",
)
"""No recorded cluster has Kubernetes; tests/lab/test_kubernetes_drifts.py has its changes."""
OF_NO_ROLE = (
    "unlock.unlocked",  # gives the lock of the run itself back
    "manifest.recorded",  # the next deploy writes a lost manifest again
    "reboot.rebooted",  # other rules judge whether a reboot is due
    # slurm.state reports workers that stay drained.
    *("comparison.compared", "slurm_controller.drained_until_compared"),
    # The fingerprint's domain ``running`` judges them, on machines and not on records.
    *("service.limits_applied", "service.cpus_applied", "service.sockets_listen"),
    "removal.removed",  # the rules left_over.* judge what is left
)
