"""All readings that roles use are in the check's record; reading ahead starts nothing."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lockstep import facts
from lockstep.facts import (
    boot,
    clock,
    containers,
    driver,
    files,
    firewall,
    gpus,
    kubernetes,
    manifest,
    network,
    packages,
    reboot,
    selinux,
    services,
    settings,
    signing,
    slurm,
)
from lockstep.facts.declared import declared
from lockstep.fleet.request import request
from lockstep.node.readers import collect
from lockstep.node.readers.driver import read_kernels
from lockstep.node.readers.take import NAMES, take
from lockstep.node.record import of_roles
from lockstep.node.record.of_roles import for_a_role
from lockstep.plan.boot import HUGEPAGE_MOUNTS
from lockstep.plan.nvidia import CDI_REFRESH
from lockstep.plan.selinux import SelinuxPlan
from lockstep.plan.slurm_files import FETCHED
from lockstep.probe.ship import asking
from lockstep.question import ABOUT, Question
from lockstep.spec import NodeRole
from tests.checks import recorded
from tests.probe.test_promises import pattern

QUESTIONS: tuple[Question[Any], ...] = (
    boot.boot_entries(),
    boot.group_of(1),
    boot.hugepages_state(),
    boot.hugetlb_mounts(("/dev/hugepages",)),
    boot.menu_is_due(("/etc/hosts",), ("quiet",)),
    boot.next_arguments(),
    clock.clock_offset(),
    containers.cdi_is_current(),
    containers.cdi_refused(),
    containers.docker_ends_containers(),
    containers.has_image("docker", "lockstep/check:1"),
    settings.cpus_of_systemd(),
    settings.cpus_of_services(),
    boot.initramfs_is_due(("/etc/hosts",)),
    driver.boot_kernels(),
    driver.loaded_driver(),
    driver.rdma_driver_waits(),
    files.file_states(("/etc/hosts",)),
    files.files_and_texts(("/etc/hosts",), ("/etc/hosts",)),
    files.folders_to_make({"/etc": None}),
    gpus.gpu_states(),
    containers.folders_open_to_all(("/tmp",)),
    containers.slurm_loads("/a.so"),
    kubernetes.object_states(("/etc/kubernetes/lockstep/a.yaml",)),
    kubernetes.swap_areas(),
    kubernetes.release_states(("a/b",)),
    files.existing(("/etc/hosts",)),
    files.links(("/etc/hosts",)),
    kubernetes.static_pods(),
    kubernetes.nodes_seen(),
    kubernetes.pod_routes(),
    settings.kernel_files(("/proc/version",)),
    network.interface_states(()),
    firewall.loaded_rules("nftables"),
    firewall.listens("tcp/22"),
    selinux.selinux_state(SelinuxPlan()),
    manifest.manifest_state(),
    manifest.shipped_by(("/etc/hosts",)),
    manifest.on_the_node(),
    packages.package_state(("munge",)),
    reboot.boot_state(),
    reboot.hold_state("worker1"),
    services.not_applied(),
    signing.built_modules(),
    signing.module_trust(),
    services.service_state(services.MANAGER, ("/etc/hosts",)),
    services.service_state("munge.service", ("/etc/hosts",)),
    slurm.accounting_clusters(),
    slurm.configuration_distributed(("/etc/hosts",)),
    slurm.database_login(),
    slurm.newly_named("a", "/etc/hosts"),
    slurm.slurm_node("worker01"),
    slurm.is_healthy(),
    slurm.known_nodes(),
    slurm.new_nodes(None),
    settings.settings(("vm.swappiness",), ("munge.service",)),
)
"""One of each kind."""

STARTS_SOMETHING = ("nvidia-smi", "nvidia-ctk", "nvidia-modprobe", "modprobe", "docker")
"""nvidia-smi has the driver's module loaded, with the options of that moment. Docker's socket
starts Docker."""


def makers() -> Iterator[str]:
    """Every function of ``lockstep.facts`` that makes a question."""
    for path in sorted(Path(facts.__file__).parent.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.returns is not None:
                decorated = [ast.unparse(one) for one in node.decorator_list]
                made = (ast.unparse(node.returns), *decorated)
                if any(text.startswith(("Question[", "question(")) for text in made):
                    yield f"{path.stem}.{node.name}"


MODULES = (
    *(boot, clock, containers, driver, files, firewall, gpus, kubernetes, manifest),
    *(network, packages, reboot, selinux, services, settings, signing, slurm),
)


def test_each_kind_of_question_is_walked_here() -> None:
    made = {
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in MODULES
        for name, one in inspect.getmembers(module, inspect.isfunction)
        if "Question[" in str(one.__annotations__.get("return", "")) or hasattr(one, "__wrapped__")
        if one.__module__ == module.__name__
    }
    assert set(makers()) == made
    assert len(QUESTIONS) == len(made) + 1, "systemd itself is a unit of its own kind"


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one.name)
def test_what_a_role_asks_is_in_the_record_and_of_the_same_reader(question: Question[Any]) -> None:
    of_the_check = {
        name: (reader.__module__, reader.__name__)
        for reader, names in (*collect.READERS, *of_roles.READERS)
        for name in names
    }
    of_the_role = {
        name: (module, function)
        for rows in json.loads(asking(frozenset(question.readings), {}))["in_turn"]
        for module, function, names in rows
        for name in names
    }
    for reading in question.readings:
        assert of_the_role[reading] == of_the_check[reading]
    record = take(for_a_role(frozenset(question.readings)), {})["readings"]
    assert set(question.readings) <= set(record)


def test_what_a_reading_is_about_is_a_name_of_a_request() -> None:
    assert set(ABOUT.values()) <= set(NAMES)
    assert {name for question in QUESTIONS for name in question.about} <= set(NAMES)
    for question in QUESTIONS:
        about = {ABOUT[name] for name in question.readings if name in ABOUT}
        assert about == set(question.about), question.name


def test_the_check_asks_for_the_files_and_units_of_the_roles() -> None:
    for node in recorded.consistent().plan.nodes.values():
        wanted, asked = frozenset().union(*declared(node)), request(node)
        files_ahead = {one for reading, _, one in wanted if reading == "files"}
        # slurmd's copy of slurm.conf is slurm.conf_sha256 in a record; the unit that watches for
        # CDI shows as cdi.devices and cdi.libraries; folders are not compared.
        folders = node.job_containers.folders.values()
        assert files_ahead - {FETCHED, *folders} == set(asked.files)
        units_ahead = {one for reading, _, one in wanted if reading == "units"}
        # Mounts of huge pages show as hugepages.mount.
        mounts = {unit for _, unit in HUGEPAGE_MOUNTS.values()}
        assert units_ahead - {f"{CDI_REFRESH}.path", *mounts} <= set(asked.units)
        assert {one for reading, _, one in wanted if reading == "sysctl.running"} == set(
            asked.sysctls
        )


def guarded(reader: Callable[..., Any]) -> bool:
    """Whether a reader asks first whether the driver is loaded, or Docker runs."""
    (function,) = ast.parse(inspect.getsource(reader)).body
    assert isinstance(function, ast.FunctionDef)
    first = function.body[1]  # after the docstring
    said = ast.unparse(first.test if isinstance(first, ast.If) else first)
    return re.search(r"^only_if_loaded\(|\bdocker_runs\(commands\)$", said) is not None


def started_by(readings: frozenset[str], *, runs: bool = True) -> set[str]:
    """The programs that the readers of some readings may run, as their modules have them.

    Args:
        readings: by name.
        runs: on a node whose driver is loaded, and whose Docker runs.
    """
    found = set()
    for rows in for_a_role(readings):
        for reader, _ in rows:
            if guarded(reader) and not runs:
                continue
            module = inspect.getmodule(reader)
            assert module is not None
            functions = [reader]
            seen = set()
            while functions:
                function = functions.pop()
                seen.add(function)
                for node in ast.walk(ast.parse(inspect.getsource(function))):
                    if not isinstance(node, ast.Call):
                        continue
                    if ast.unparse(node.func) in ("commands.run", "commands.outcome"):
                        first = node.args[0]
                        first = first.value if isinstance(first, ast.Starred) else first
                        first = first.elts[0] if isinstance(first, ast.Tuple) else first
                        found.add(pattern(first))
                    called = getattr(module, ast.unparse(node.func), None)
                    if inspect.isfunction(called) and called not in seen:
                        functions.append(called)
    return found


def test_the_walk_finds_what_a_reader_starts() -> None:
    assert started_by(frozenset({"gpu.mig.devices"})) == {"nvidia-smi"}
    assert started_by(frozenset({"gpu.uuid"})) & {*STARTS_SOMETHING, "*"}
    assert started_by(frozenset({"gpu.uuid"}), runs=False) == set()
    assert not guarded(read_kernels)
    assert started_by(frozenset({"packages"})) == {"dpkg-query", "rpm"}
    assert "modinfo" in started_by(frozenset({"driver.module_next"}))


def test_nothing_that_is_read_ahead_loads_the_driver_before_its_options_are_written() -> None:
    for node in recorded.consistent().plan.nodes.values():
        readings = frozenset(reading for parts in declared(node) for reading, _, _ in parts)
        assert readings
        started = started_by(readings, runs=False)
        assert not started & {*STARTS_SOMETHING, "*"}, started
    workers = [
        one for one in recorded.consistent().plan.nodes.values() if one.role is NodeRole.WORKER
    ]
    assert any(one.gpu for one in workers), "nodes with GPUs are among them"
