"""What roles ask of a node: all of it is in the check's record, and asking ahead starts nothing."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lockstep import facts
from lockstep.facts import (
    ahead,
    boot,
    clock,
    cpu_sets,
    files,
    kernel_files,
    packages,
    services,
    settings,
)
from lockstep.facts.reading import ABOUT, Question
from lockstep.fleet.request import request
from lockstep.node.readers import collect
from lockstep.node.readers.take import NAMES
from lockstep.plan.nvidia import CDI_REFRESH
from lockstep.plan.slurm_files import FETCHED
from lockstep.probe.ship import _asking
from lockstep.spec import Role
from tests.checks import recorded
from tests.probe.test_promises import pattern

QUESTIONS: tuple[Question[Any], ...] = (
    boot.group_of(1),
    boot.hugepages_state(),
    boot.hugetlb_mounts(("/dev/hugepages",)),
    clock.clock_offset(),
    cpu_sets.cpus_of_systemd(),
    cpu_sets.cpus_of_services(),
    files.file_states(("/etc/hosts",)),
    kernel_files.kernel_files(("/proc/version",)),
    packages.package_state(("munge",)),
    services.service_state(services.MANAGER, ("/etc/hosts",)),
    services.service_state("munge.service", ("/etc/hosts",)),
    settings.settings(("vm.swappiness",), ("munge.service",)),
)
"""One of each kind."""

STARTS_SOMETHING = ("nvidia-smi", "nvidia-ctk", "nvidia-modprobe", "modprobe", "srun", "docker")
"""nvidia-smi has the driver's module loaded, with the options of that moment."""


def makers() -> Iterator[str]:
    """Every function of ``lockstep.facts`` that makes a question."""
    for path in sorted(Path(facts.__file__).parent.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            returns = node.returns if isinstance(node, ast.FunctionDef) else None
            if isinstance(node, ast.FunctionDef) and returns is not None:
                made = ast.unparse(returns).startswith("Question[")
                yield from [f"{path.stem}.{node.name}"] if made else []


def test_each_kind_of_question_is_walked_here() -> None:
    made = {
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in (boot, clock, cpu_sets, files, kernel_files, packages, services, settings)
        for name, one in inspect.getmembers(module, inspect.isfunction)
        if str(one.__annotations__.get("return", "")).startswith("Question[")
        and one.__module__ == module.__name__
    }
    assert set(makers()) == made
    assert len(QUESTIONS) == len(made) + 1, "systemd itself is a unit of its own kind"


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one.name)
def test_what_a_role_asks_is_in_the_record_and_of_the_same_reader(question: Question[Any]) -> None:
    of_the_check = {
        name: (reader.__module__, reader.__name__)
        for reader, names in collect.READERS
        for name in names
    }
    of_the_role = {
        name: (module, function)
        for rows in _asking(frozenset(question.readings))[0]
        for module, function, names in rows
        for name in names
    }
    for reading in question.readings:
        assert of_the_role[reading] == of_the_check[reading]
    record = collect.collect({}, frozenset(question.readings))["readings"]
    assert set(question.readings) <= set(record)


def test_what_a_reading_is_about_is_a_name_of_a_request() -> None:
    assert set(ABOUT.values()) <= set(NAMES)
    assert {name for question in QUESTIONS for name in question.about} <= set(NAMES)
    for question in QUESTIONS:
        about = {ABOUT[name] for name in question.readings if name in ABOUT}
        assert about == set(question.about), question.name


def test_the_check_asks_for_the_files_and_units_of_the_roles() -> None:
    for node in recorded.consistent().plan.nodes.values():
        wanted, asked = ahead.wanted(node), request(node)
        files_ahead = {one for reading, _, one in wanted if reading == "files"}
        # slurmd's copy of slurm.conf is slurm.conf_sha256 in a record; the unit that watches for
        # CDI shows as cdi.devices and cdi.libraries.
        assert files_ahead - {FETCHED} == set(asked.files)
        units_ahead = {one for reading, _, one in wanted if reading == "units"}
        assert units_ahead - {f"{CDI_REFRESH}.path"} <= set(asked.units)
        assert {one for reading, _, one in wanted if reading == "sysctl.running"} == set(
            asked.sysctls
        )


def started_by(readings: frozenset[str]) -> set[str]:
    """The programs that the readers of some readings may run, as their modules have them."""
    found = set()
    for rows in collect.in_turn(readings):
        for reader, _ in rows:
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
    assert started_by(frozenset({"packages"})) == {"dpkg-query"}
    assert "modinfo" in started_by(frozenset({"driver.module_next"}))


def test_nothing_that_is_read_ahead_loads_the_driver_before_its_options_are_written() -> None:
    for node in recorded.consistent().plan.nodes.values():
        readings = frozenset(reading for reading, _, _ in ahead.wanted(node))
        assert readings
        started = started_by(readings)
        assert not started & {*STARTS_SOMETHING, "*"}, started
    workers = [one for one in recorded.consistent().plan.nodes.values() if one.role is Role.WORKER]
    assert any(one.gpu for one in workers), "nodes with GPUs are among them"
