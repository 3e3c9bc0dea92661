"""Reboots: reasons, order, the steps of one node, and pyinfra's part."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api import Host, State
from pyinfra.connectors.util import CommandOutput, OutputLine
from typing_extensions import override

from lockstep.facts import reading
from lockstep.facts.boot import HugepagesState, hugepages_state, next_arguments
from lockstep.facts.driver import boot_kernels
from lockstep.facts.gpus import GpuSettings, GpuStates, gpu_states
from lockstep.facts.packages import PackageState, package_state
from lockstep.facts.reboot import (
    BootState,
    Conversation,
    HoldState,
    Unanswered,
    boot_state,
    hold_state,
)
from lockstep.node.readers.collect import collect
from lockstep.node.readers.reading import NOT_ASKED
from lockstep.plan import NodePlan
from lockstep.plan.driver import BootKernels, Driver, Kernel
from lockstep.plan.reboot import Pending, Reason, Seen, absent, pending
from lockstep.question import Question, Taken
from lockstep.roles.operations.packages import REFUSED
from lockstep.roles.steps.reboot import _workers_to_come, decide
from lockstep.roles.steps.reboot import rollout as rollout_module
from lockstep.roles.steps.reboot import turn as steps
from lockstep.roles.steps.reboot.decision import OURS, Decision, remember
from lockstep.roles.steps.reboot.driver import USERS_OF_GPUS
from lockstep.roles.steps.reboot.objections import against, as_text, lasting, reason_of, undecided
from lockstep.roles.steps.reboot.rollout import Rollout
from lockstep.roles.steps.reboot.turn import Turn
from tests.checks import recorded
from tests.plan.example import planned
from tests.probe.test_collect import Node, node
from tests.roles.hosts import LoggingHost
from tests.roles.local import asked, machine, on_node
from tests.test_pyinfra_assumptions import pyinfra

__all__ = ["node"]

# -- why a node waits for a reboot

ARGS = ("hugepagesz=2M", "hugepages=0:64,1:64", "iommu=pt")
OLD = ("quiet",)
PAGES = {"2M": {0: 64, 1: 64}}
GIVEN = {("2M", 0): 64, ("2M", 1): 64}


def reasons(seen: Seen) -> str:
    return str(pending(ARGS, PAGES, seen))


def test_arguments_in_the_menu_and_not_in_this_boot_are_a_reason() -> None:
    seen = Seen(cmdline=(*ARGS[:2], "quiet"), menu=(*ARGS, "quiet"), pages=GIVEN)
    assert reasons(seen) == "pending kernel arguments: iommu=pt"


def test_huge_pages_that_this_boot_was_not_asked_for_are_named_as_well() -> None:
    seen = Seen(cmdline=OLD, menu=ARGS, pages={("2M", 0): 64, ("2M", 1): 3})
    assert reasons(seen) == (
        "pending kernel arguments: hugepagesz=2M hugepages=0:64,1:64 iommu=pt; "
        "huge pages: fewer than 64 x 2M on NUMA node 1"
    )


def test_arguments_that_the_menu_lacks_are_a_deploy_first_whatever_else_waits() -> None:
    seen = Seen(cmdline=OLD, menu=ARGS[:2], pages=GIVEN, marker="linux-image-amd64")
    assert pending(ARGS, PAGES, seen) == Pending(deploy_first="iommu=pt")


def test_huge_pages_that_the_boot_itself_could_not_give_are_no_reason() -> None:
    found = pending(ARGS, PAGES, Seen(cmdline=ARGS, menu=ARGS, pages={("2M", 0): 64}))
    assert found.reasons == ()
    assert found.remark == (
        "huge pages: fewer than 64 x 2M on NUMA node 1, although the node booted with the planned "
        "arguments; a reboot would not help"
    )


def test_all_in_force_is_no_reason() -> None:
    assert pending(ARGS, PAGES, Seen(cmdline=ARGS, menu=ARGS, pages=GIVEN)) == Pending()


def test_the_marker_of_packages_is_a_reason_with_and_without_their_names() -> None:
    assert pending((), {}, Seen(OLD, (), {}, marker="")).reasons == (Reason("reboot-required", ""),)
    assert str(pending((), {}, Seen(OLD, (), {}, marker="libc6 linux"))) == (
        "reboot-required: libc6 linux"
    )


def test_of_an_argument_that_stands_twice_the_last_one_counts() -> None:
    assert absent(("iommu=pt",), ("iommu=pt", "iommu=off")) == ("iommu=pt",)
    assert absent(ARGS, (*ARGS, "hugepagesz=1G", "hugepages=0:1")) == ()


DRIVER = Driver("550.163.01", {"nvidia-smi": "550.163.01-*", "libcuda1": "550.163.01-*"})
INSTALLED = {"nvidia-smi": "550.163.01-2", "libcuda1": "550.163.01-2"}


def due(installed: dict[str, str], module: str) -> Pending:
    return pending((), {}, Seen((), (), {}, driver=installed, module=module), DRIVER)


def test_a_driver_of_another_version_is_changed_and_then_booted() -> None:
    found = due({**INSTALLED, "libcuda1": "550.90.07-1"}, "550.90.07")
    assert str(found) == "driver 550.163.01: instead of libcuda1 550.90.07-1"
    assert found.change == ("libcuda1",)
    half = due({"nvidia-smi": "550.163.01-2"}, "550.163.01")
    assert half.change == ("libcuda1",), "what broke in the middle is completed"


def test_an_older_module_that_is_still_loaded_waits_for_the_boot() -> None:
    found = due(INSTALLED, "550.90.07")
    assert str(found) == "driver 550.163.01: 550.90.07 is loaded"
    assert found.change == ()


def test_the_planned_driver_and_none_at_all_are_no_reason() -> None:
    assert due(INSTALLED, "550.163.01") == Pending()
    assert due(INSTALLED, "") == Pending(), "the kernel is not the machine's own"
    assert due({}, "") == Pending(), "a deploy installs it: nothing runs with it yet"


def test_a_driver_that_somebody_else_installed_is_changed_by_the_rollout() -> None:
    assert due({}, "550.90.07").change == ("nvidia-smi", "libcuda1")


def test_a_module_that_is_not_loaded_yet_waits_for_the_boot() -> None:
    own = replace(DRIVER, flavour="open")
    found = pending((), {}, Seen((), (), {}, driver=INSTALLED), own)
    assert str(found) == "driver 550.163.01: its module is not loaded"


NEWER = Kernel("6.12.117", True)


def test_another_kernel_that_boots_next_is_a_reason() -> None:
    def due(*later: Kernel, unknown: str = "") -> Pending:
        kernels = BootKernels(Kernel("6.12.94", True), later, unknown)
        return pending((), {}, Seen((), (), {}, kernels=kernels))

    assert str(due(NEWER)) == "kernel 6.12.117: 6.12.94 is running"
    assert due(Kernel("6.12.94", True)) == Pending()
    assert due(Kernel("6.12.94", True), NEWER, unknown="a script decides") == Pending(
        remark="the kernel that boots next is unknown: a script decides"
    )


def test_the_other_flavour_is_replaced_by_the_rollout() -> None:
    both = replace(DRIVER, flavour="open", replaced=("nvidia-kernel-dkms",))
    seen = Seen((), (), {}, driver={**INSTALLED, "nvidia-kernel-dkms": "1"}, module="550.163.01")
    found = pending((), {}, seen, both)
    assert found.change == ("nvidia-kernel-dkms",)
    assert found.driver == both


def test_a_mode_that_waits_for_a_reset_is_a_reason() -> None:
    found = pending((), {}, Seen((), (), {}, modes=("GPU-a", "GPU-b")))
    assert str(found) == "ECC or MIG mode pending: GPU-a, GPU-b"
    assert found.kinds == "ECC or MIG mode pending"


def test_another_layout_and_a_gpu_that_asks_for_a_reset_are_reasons() -> None:
    seen = Seen((), (), {}, layouts=("GPU-a",), resets=("GPU-a",))
    assert str(pending((), {}, seen)) == ("MIG layout differs: GPU-a; GPU reset due: GPU-a")


SILENT = GpuStates(answered=False)


def reader(
    plan: NodePlan,
    *,
    menu: bool,
    gpus: GpuStates = SILENT,
    booted: bool = False,
) -> Callable[..., Any]:
    """A node that was not rebooted since its arguments were planned, if not said otherwise."""
    args = plan.system.kernel_args
    pages = {
        (size, node): count
        for size, split in plan.hardware.hugepages.items()
        for node, count in split.items()
    }
    answers = {
        boot_state: BootState("a 1", args if booted else ("quiet",)),
        next_arguments: (*args, "quiet") if menu else ("quiet",),
        hugepages_state: HugepagesState(pages if booted else {}, ""),
        hold_state: HoldState(frozenset({"IDLE"}), "", ()),
        gpu_states: gpus,
        boot_kernels: BootKernels(NEWER, (NEWER,)),
    }
    return lambda kind, **arguments: answers[kind]


def test_a_node_is_asked_for_the_arguments_of_its_next_boot() -> None:
    plan = planned().nodes["worker1"]
    assert plan.system.kernel_args
    due = decide(reader(plan, menu=True), plan)
    assert due.why(plan).startswith("to reboot: pending kernel arguments: ")
    unwritten = decide(reader(plan, menu=False), plan)
    assert unwritten.nothing
    assert unwritten.why(plan) == (
        f"deploy first: the boot loader's menu lacks {' '.join(plan.system.kernel_args)} "
        "(pyinfra -y INVENTORY deploys/worker.py --limit worker1)"
    )


def test_a_node_is_drained_before_a_reboot_even_if_the_site_manages_slurm() -> None:
    plan = planned(lambda wanted: wanted.update(unmanaged=["slurm_worker"])).nodes["worker1"]
    decision = decide(reader(plan, menu=True), plan)
    assert decision.worker
    assert decision.hold.states == {"IDLE"}


def test_what_unmanaged_roles_would_set_is_no_reason_to_reboot() -> None:
    left = ["boot_loader", "hugepages", "nvidia_driver"]
    plan = planned(lambda wanted: wanted.update(unmanaged=left)).nodes["worker1"]
    assert plan.system.kernel_args
    assert plan.software.driver is None
    decision = decide(reader(plan, menu=True), plan)
    assert decision.nothing
    assert decision.why(plan) == "no reboot is pending"


def test_an_unclear_next_boot_counts_only_where_a_node_waits_for_arguments() -> None:
    plan = planned().nodes["worker1"]

    def unclear(*, booted: bool) -> Callable[..., Any]:
        answers = reader(plan, menu=True, gpus=GpuStates(to_reset=("GPU-a",)), booted=booted)

        def read(kind: Any, **arguments: object) -> Any:
            if kind is next_arguments:
                raise Unanswered("a script decides")
            return answers(kind, **arguments)

        return read

    assert str(decide(unclear(booted=True), plan).pending) == "GPU reset due: GPU-a"
    with pytest.raises(Unanswered, match="a script decides"):
        decide(unclear(booted=False), plan)


def divided(*devices: str, mode: str = "Enabled") -> GpuSettings:
    return GpuSettings(
        uuid="GPU-a",
        persistence="Enabled",
        ecc="Enabled",
        ecc_pending="Enabled",
        mig=mode,
        mig_pending="Enabled",
        mig_devices=devices,
        enforced_limit_w=None,
        default_limit_w=None,
        compute_mode=None,
    )


@pytest.mark.parametrize(
    ("gpu", "why"),
    [
        (divided("2g.35gb", "3g.71gb"), ""),
        (divided("3g.71gb"), "MIG layout differs: GPU-a"),
        (divided("7g.141gb"), "MIG layout differs: GPU-a"),
        (divided(mode="Disabled"), "ECC or MIG mode pending: GPU-a"),
    ],
)
def test_a_divided_node_reboots_for_its_mode_and_its_layout(gpu: GpuSettings, why: str) -> None:
    def divide(wanted: dict[str, Any]) -> None:
        wanted["hardware"]["hgx"]["gpu"]["mig"] = ["3g.71gb", "2g.35gb"]

    plan = planned(divide).nodes["worker1"]
    read = reader(plan, menu=True, gpus=GpuStates((gpu,)), booted=True)
    assert str(decide(read, plan).pending) == why


def test_a_node_reboots_for_a_gpu_that_asks_for_a_reset() -> None:
    plan = planned().nodes["worker1"]
    read = reader(plan, menu=True, gpus=GpuStates(to_reset=("GPU-a",)), booted=True)
    assert str(decide(read, plan).pending) == "GPU reset due: GPU-a"


# -- readings


def test_the_boot_is_read_on_this_machine() -> None:
    found = asked(boot_state())
    assert found.boot == asked(boot_state()).boot
    assert re.fullmatch(r"[0-9a-f-]{36} \d+", found.boot)
    assert found.cmdline == tuple(Path("/proc/cmdline").read_text().split())


def test_packages_that_want_a_reboot_are_read_with_and_without_their_names(node: Node) -> None:
    node.file("/proc/sys/kernel/random/boot_id", "a\n")
    node.file("/proc/1/stat", "1 (an (odd) name) S " + " ".join(map(str, range(4, 30))))
    node.file("/proc/cmdline", "quiet\n")

    def read() -> BootState:
        return boot_state().answer(Taken(node.read()))

    assert read() == BootState("a 22", ("quiet",))
    node.file("/run/reboot-required", "*** System restart required ***\n")
    assert read().wanted_by == ()
    node.file("/run/reboot-required.pkgs", "linux\nlibc6\nlinux\n")
    assert read().wanted_by == ("libc6", "linux")


SHOWN = (
    "NodeName=w1 Arch=x86_64 CoresPerSocket=1 State={} ThreadsPerCore=1 "
    "BootTime=2026-01-01T00:00:00 SlurmdStartTime=2026-01-02T03:04:05 "
    "Reason=lockstep-reboot: pending kernel arguments [root@2026-01-02T00:00:00]"
)


@pytest.fixture
def held(node: Node) -> Callable[..., HoldState]:
    """A node whose controller prints a state and jobs; None: it does not answer."""

    def read(state: str | None, jobs: str | None) -> HoldState:
        for tool, said in (("scontrol", state and SHOWN.format(state)), ("squeue", jobs)):
            silent = "echo 'Unable to contact slurm controller' >&2; exit 1"
            node.tool(tool, silent if said is None else f"echo '{said}'")
        question = hold_state("w1")
        taken = collect(dict(question.about), frozenset(question.readings))
        return question.answer(Taken(taken["readings"]))

    return read


def test_a_nodes_hold_is_read(held: Callable[..., HoldState]) -> None:
    reason = "lockstep-reboot: pending kernel arguments"
    assert held("MIXED+DRAIN", "12\n13_4") == HoldState(
        frozenset({"MIXED", "DRAIN"}), reason, ("12", "13_4"), "2026-01-02T03:04:05"
    )
    old = held("DOWN+DRAIN*", "")
    assert (old.states, old.jobs) == (frozenset({"DOWN", "DRAIN", "NOT_RESPONDING"}), ())


def test_a_controller_that_does_not_answer_is_not_an_idle_node(
    held: Callable[..., HoldState],
) -> None:
    assert held(None, None) == HoldState(jobs=None)
    assert held("IDLE", None).jobs is None
    assert held(None, "12") == HoldState(jobs=("12",))


def test_a_check_asks_the_controller_of_no_single_node(node: Node) -> None:
    seen = node.read()
    assert (seen["slurm.node"], seen["slurm.jobs"]) == ({"value": NOT_ASKED}, {"value": NOT_ASKED})


# -- order and slots


def started(rollout: Rollout, at_once: int, work: Callable[[str], None], *names: str) -> list[str]:
    """Let nodes come together, in threads; return how each turn began and ended, in order."""
    told: list[str] = []
    all_asked = threading.Barrier(len(names), timeout=10)

    def one(place: int, name: str) -> None:
        with rollout.turn(name, place, at_once) as stopped:
            if stopped:
                told.append(f"{name}: {stopped}")
                return
            told.append(f"{name} begins")
            work(name)
            told.append(f"{name} ends")

    threads = [threading.Thread(target=one, args=pair) for pair in enumerate(names)]
    with pytest.MonkeyPatch.context() as patch:
        # However slow this machine is: no node goes on before the last one has asked for a slot.
        patch.setattr(rollout_module, "sleep", lambda seconds: all_asked.wait())
        for thread in reversed(threads):
            thread.start()
        for thread in threads:
            thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
    return told


def test_nodes_go_one_by_one_in_their_order() -> None:
    rollout = Rollout()
    told = started(rollout, 1, lambda name: None, "a", "b", "c")
    assert told == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]
    assert rollout.done == {"a", "b", "c"}


def test_as_many_are_away_as_the_plan_allows() -> None:
    both = threading.Barrier(2, timeout=5)

    def wait(name: str) -> None:
        both.wait()

    told = started(Rollout(), 2, wait, "a", "b", "c", "d")
    assert [line.split()[1] for line in told[:2]] == ["begins", "begins"]
    assert len(told) == 8


def test_after_a_stop_no_node_begins_and_the_first_reason_stays() -> None:
    rollout = Rollout()

    def fail(name: str) -> None:
        rollout.stop(f"{name} broke")
        rollout.stop("other broke")

    told = started(rollout, 1, fail, "a", "b", "c")
    assert sorted(told[2:]) == [
        f"{name}: the rollout stopped because a broke" for name in ("b", "c")
    ]


# -- one node's way: a node and its controller that answer from a script


@dataclass
class Doubles:
    """What a node and slurmctld would do; ``said`` is what was changed, in order."""

    states: set[str] = field(default_factory=lambda: {"IDLE"})
    reason: str = ""
    jobs: list[str] = field(default_factory=list)
    boots: int = 1
    slurmd: int = 1
    returns: bool = True
    said: list[str] = field(default_factory=list)
    after_boot: Callable[[Doubles], None] = lambda doubles: None
    on_look: Callable[[Doubles], None] = lambda doubles: None
    silent: bool = False
    gpus: tuple[GpuSettings, ...] = ()
    answers: bool = True
    """Whether nvidia-smi does."""
    pids: tuple[str, ...] = ()
    """Processes that use a GPU, as /proc shows them."""
    kernels: tuple[Kernel, ...] = (Kernel("6.12.94", True, "550.163.01 (open)"),)
    breaks: str = ""
    """Commands that hold this fail."""
    complaints: tuple[str, ...] = ("E: it broke",)
    """What they say."""
    stands: Pending = field(default_factory=Pending)
    """What it waits for after its reboot."""

    def hold(self) -> HoldState:
        self.on_look(self)
        if self.silent:
            return HoldState()
        return HoldState(frozenset(self.states), self.reason, tuple(self.jobs), str(self.slurmd))

    def command(self, command: str) -> list[str]:
        if "scontrol update" in command:
            what = command.split("NodeName=")[1].split(" ", 1)[1]
            self.said.append(what)
            if "State=DRAIN" in what:
                self.states.add("DRAIN")
                self.reason = what.split("Reason=")[1].strip("'")
            else:
                self.states, self.reason = {"IDLE"}, ""
            return []
        if command.startswith("apt-cache"):
            return []
        if "apt-get" in command or "apt-mark" in command:
            self.said.append(" ".join(command.split(" -o ")[-1].split()[1:]))
            return []
        if "make.log" in command:
            return []
        if command == USERS_OF_GPUS:
            return list(self.pids)
        if "rebooted-in-vain" in command:
            self.said.append(command.split("printf '%s\\n' ")[1])
            return []
        assert command.startswith("systemctl reboot")
        self.said.append("reboot")
        if self.returns:
            self.boots, self.slurmd = self.boots + 1, self.slurmd + 1
            self.after_boot(self)
        return ["asked 0"]


class Talk(Conversation):
    def __init__(self, doubles: Doubles) -> None:
        self.doubles = doubles

    @override
    def say(self, command: str, within_s: float = 0, **further: Any) -> tuple[bool, CommandOutput]:
        lines = self.doubles.command(command)
        if self.doubles.breaks and self.doubles.breaks in command:
            said = self.doubles.complaints
            return False, CommandOutput([OutputLine("stderr", line) for line in said])
        return True, CommandOutput([OutputLine("stdout", line) for line in lines])

    @override
    def read(self, make: Callable[..., Question[Any]], **arguments: Any) -> Any:
        if make is package_state:
            return PackageState(INSTALLED, interrupted=False, held=frozenset(INSTALLED))
        if make is gpu_states:
            return GpuStates(self.doubles.gpus, self.doubles.answers)
        if make is boot_kernels:
            return BootKernels(self.doubles.kernels[0], self.doubles.kernels[-1:])
        raise LookupError(make)

    @override
    def ask(self, question: Question[Any]) -> Any:
        if question.name == hold_state("").name:
            return self.doubles.hold()
        assert question.name == boot_state().name
        return BootState(str(self.doubles.boots), ())

    @override
    def connect(self, within_s: float = 0) -> None:
        if not self.doubles.returns:
            raise Unanswered("ssh: no route")


@dataclass
class Ran:
    ok: bool
    stopped: str
    logged: list[str]

    @property
    def last(self) -> str:
        return self.logged[-1]


@pytest.fixture
def go(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    monkeypatch.setattr(steps, "POLL_S", 0.001)
    monkeypatch.setattr(steps, "CHECK_EVERY_S", 0.01)
    monkeypatch.setattr(steps, "SETTLE_S", 0.05)
    monkeypatch.setattr(steps, "RESUME_S", 0.05)
    limits = {"drain_timeout_s": 1, "return_timeout_s": 1}
    stack = {"packaging": "debian", "driver": "550.163.01"}

    def change(wanted: dict[str, Any]) -> None:
        wanted.update(reboots=limits)
        wanted["software"]["nvidia"] = stack

    plan = planned(change).nodes["worker1"]

    def run(
        doubles: Doubles,
        pending: Pending | None = None,
        found: list[dict[str, Any]] | None = None,
        rollout: Rollout | None = None,
        checked: Callable[[str], None] = lambda node: None,
    ) -> Ran:
        logged: list[str] = []

        def check(inventory: str, node: str, *options: str) -> list[dict[str, Any]]:
            checked(node)
            return found or []

        host = LoggingHost(logged=logged)
        monkeypatch.setattr(steps, "check", check)
        wanted = Pending((Reason("reboot-required", ""),)) if pending is None else pending
        decision = Decision(wanted, str(doubles.boots), doubles.hold(), worker=True)
        shared = rollout or Rollout()
        talk = Talk(doubles)
        ok = Turn(cast(Host, host), plan, talk, decision, shared, lambda: doubles.stands).run()
        return Ran(ok, shared.stopped, logged)

    return run


MARK = f"{OURS} reboot-required"


def test_a_node_is_drained_rebooted_checked_and_resumed(go: Callable[..., Ran]) -> None:
    doubles = Doubles()
    ran = go(doubles)
    assert ran.ok, ran
    assert ran.logged[0] == "to reboot: reboot-required"
    assert doubles.said == [f"State=DRAIN Reason='{MARK}'", "reboot", "State=RESUME"]
    assert ran.last == "resumed"
    assert doubles.states == {"IDLE"}


STANDS = Reason("MIG layout differs", "GPU-a")


def test_a_reboot_that_ends_nothing_stops_the_rollout_and_is_kept_on_the_node(
    go: Callable[..., Ran],
) -> None:
    doubles = Doubles(stands=Pending((STANDS, Reason("reboot-required", ""))))
    ran = go(doubles)
    assert not ran.ok
    assert ran.stopped == (
        "the rollout stopped because worker1 was still failing its checks after its reboot: "
        "the node still needs a reboot (reboot-required)"
    )
    assert doubles.said[-1] == "reboot-required > /run/lockstep/rebooted-in-vain"
    assert "State=RESUME" not in doubles.said


def test_what_a_reboot_did_not_end_is_no_reason_for_the_next_one(go: Callable[..., Ran]) -> None:
    def due(*in_vain: str, marker: str | None = None) -> Pending:
        return pending((), {}, Seen((), (), {}, marker=marker, layouts=("GPU-a",), in_vain=in_vain))

    again = due(str(STANDS))
    assert (again.reasons, again.in_vain) == ((), (STANDS,))
    assert due("another").in_vain == ()
    assert len(due(str(STANDS), marker="").reasons) == 2, "a new reason is one more try for all"
    for left in ({}, {"states": {"IDLE", "DRAIN"}, "reason": MARK}):
        doubles = Doubles(**cast(Any, left))
        ran = go(doubles, again)
        assert (ran.ok, doubles.said) == (False, [])
        assert ran.stopped == "", "nothing was done to it: the others get their turn"
        assert (
            "was not rebooted again: a reboot did not resolve this (MIG layout differs: GPU-a)"
            in ran.last
        )
        assert ("It stays drained. Next: fix the cause" in ran.last) == bool(left)
    held = Doubles(states={"IDLE", "DRAIN"}, reason="a person")
    ran = go(held, again)
    assert (ran.ok, ran.stopped, held.said) == (True, "", []), "it is out anyway"
    assert ran.last.startswith("not rebooted again: ")


@pytest.mark.parametrize("what", ["modes", "layouts", "resets"])
def test_what_a_reboot_ended_on_one_gpu_only_is_kept_for_the_other(
    go: Callable[..., Ran], what: str
) -> None:
    def due(*gpus: str, in_vain: tuple[str, ...] = ()) -> Pending:
        return pending((), {}, Seen((), (), {}, in_vain=in_vain, **cast(Any, {what: gpus})))

    doubles = Doubles(stands=due("GPU-b"))
    ran = go(doubles, due("GPU-a", "GPU-b"))
    (kept,) = map(str, due("GPU-b").reasons)
    assert f"still needs a reboot ({kept})" in ran.stopped
    assert doubles.said[-1] == f"'{kept}' > /run/lockstep/rebooted-in-vain"
    assert due("GPU-b", in_vain=(kept,)).reasons == ()
    assert due("GPU-a", "GPU-b", in_vain=(kept,)).reasons, "another GPU is one more try"


def test_huge_pages_that_differ_from_boot_to_boot_are_the_same_reason() -> None:
    def due(pages: int, *in_vain: str) -> Pending:
        given = {("2M", 0): 64, ("2M", 1): pages}
        return pending(ARGS, PAGES, Seen(OLD, ARGS, given, in_vain=in_vain))

    assert due(5, *map(str, due(3).reasons)).reasons == ()


def test_what_a_reboot_did_not_end_is_read_as_it_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "run" / "in-vain")
    monkeypatch.setattr("lockstep.roles.steps.reboot.decision.IN_VAIN", path)
    on_node(monkeypatch, "/run/lockstep/rebooted-in-vain", path)
    assert asked(boot_state()).in_vain == ()
    (host,) = machine().inventory
    reasons = (STANDS, Reason("kernel 6.12.117", "it's 6.12.94 that is running"))
    for _ in range(2):
        remember(Conversation(host, {}), reasons)
        assert asked(boot_state()).in_vain == tuple(map(str, reasons))


CHANGE = Pending((Reason("driver 570.1", "instead of nvidia-smi 550.1"),), change=("nvidia-smi",))


def test_a_driver_is_changed_on_the_drained_node_and_then_booted(go: Callable[..., Ran]) -> None:
    doubles = Doubles()
    ran = go(doubles, CHANGE)
    assert ran.ok, ran
    drained, *changed, rebooted, resumed = doubles.said
    assert drained == "State=DRAIN Reason='lockstep-reboot: driver 570.1'"
    assert any("install 'nvidia-smi=550.163.01-*'; status" in said for said in changed), changed
    assert (rebooted, resumed) == ("reboot", "State=RESUME")
    assert ran.last == "resumed"


OWN = replace(DRIVER, flavour="open")
BOOT = Pending((Reason("kernel 6.12.117", "6.12.94 is running"),), driver=OWN)


def test_a_kernel_without_the_drivers_module_is_not_booted(go: Callable[..., Ran]) -> None:
    doubles = Doubles(kernels=(Kernel("6.12.94", True, "550.163.01 (open)"), NEWER))
    ran = go(doubles, BOOT)
    assert (ran.ok, doubles.said) == (False, []), "not even drained"
    assert "has no module 550.163.01 (open) for kernel 6.12.117, which boots next" in ran.stopped
    built = replace(NEWER, module="550.163.01 (open)")
    assert go(Doubles(kernels=(Kernel("6.12.94", True), built)), BOOT).ok


def test_a_change_after_which_dkms_has_no_module_stops_the_node_drained(
    go: Callable[..., Ran],
) -> None:
    doubles = Doubles(kernels=(Kernel("6.12.94", False),))
    ran = go(doubles, replace(CHANGE, driver=OWN))
    assert not ran.ok
    assert doubles.states == {"IDLE", "DRAIN"}
    assert "reboot" not in doubles.said
    assert "has no module 550.163.01 (open) for kernel 6.12.94" in ran.stopped


def test_a_gpu_with_a_process_that_is_no_job_stops_the_rollout(go: Callable[..., Ran]) -> None:
    doubles = Doubles(gpus=(GpuSettings("GPU-a", busy=True),))
    ran = go(doubles, CHANGE)
    assert (ran.ok, "reboot" in doubles.said) == (False, False)
    assert ran.stopped == (
        "the rollout stopped because worker1 did not get the new driver: "
        "GPUs in use outside Slurm: GPU-a"
    )
    assert not [said for said in doubles.said if "install" in said]


def test_a_process_on_a_gpu_is_also_found_where_nvidia_smi_does_not_answer(
    go: Callable[..., Ran],
) -> None:
    doubles = Doubles(answers=False, pids=("12", "34"))
    ran = go(doubles, CHANGE)
    assert not ran.ok
    assert "worker1 did not get the new driver: nvidia-smi fails, but GPUs are in use" in ran.last
    assert "Next: run `fuser -v /dev/nvidia-uvm` on worker1 to list the processes" in ran.last
    assert not [said for said in doubles.said if "install" in said or said == "reboot"]


def test_a_node_is_not_changed_while_the_processes_on_its_gpus_are_unknown(
    go: Callable[..., Ran],
) -> None:
    doubles = Doubles(answers=False, breaks="nvidia-uvm", complaints=("find: not found",))
    ran = go(doubles, CHANGE)
    assert not ran.ok
    assert "worker1 did not get the new driver: nvidia-smi fails" in ran.last
    assert (
        "processes on the GPUs cannot be listed: find: not found. It stays drained. Next: "
        in ran.last
    )
    assert not [said for said in doubles.said if "install" in said or said == "reboot"]


def test_a_node_without_a_loaded_driver_gets_its_packages(go: Callable[..., Ran]) -> None:
    doubles = Doubles(answers=False)
    assert go(doubles, CHANGE).ok
    assert [said for said in doubles.said if "install" in said]


def test_processes_that_use_gpus_are_found_without_nvidia_smi(tmp_path: Path) -> None:
    device = tmp_path / "nvidia-uvm"
    device.touch()
    with device.open():
        found = subprocess.run(USERS_OF_GPUS, shell=True, capture_output=True, text=True)
    if os.geteuid() == 0:
        assert found.returncode == 0
        assert str(os.getpid()) in found.stdout.split()
    else:  # of other users' processes nothing is known
        assert (found.returncode, found.stdout) == (1, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees every process")
@pytest.mark.parametrize(("find", "status"), [("exit 1", 0), ("exit 127", 1), ("kill -9 $$", 1)])
def test_a_list_of_processes_that_cannot_be_made_is_not_an_empty_one(
    tmp_path: Path, find: str, status: int
) -> None:
    """find exits with 1 when a process ends meanwhile."""
    double = tmp_path / "find"
    double.write_text(f"#!/bin/sh\n{find}\n")
    double.chmod(0o755)
    listed = subprocess.run(
        USERS_OF_GPUS,
        shell=True,
        capture_output=True,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert (listed.returncode, listed.stdout) == (status, b"")


def test_a_package_that_fails_keeps_the_node_drained_and_stops_the_rollout(
    go: Callable[..., Ran],
) -> None:
    doubles = Doubles(breaks="nvidia-smi")
    ran = go(doubles, CHANGE)
    assert (ran.ok, doubles.states) == (False, {"IDLE", "DRAIN"})
    assert "reboot" not in doubles.said
    assert ran.stopped == (
        "the rollout stopped because the driver packages of worker1 could not be changed: "
        "E: it broke"
    )
    assert "It stays drained. Next: run apt-get check and dpkg --audit on worker1 and" in ran.last


def test_a_change_that_we_refuse_is_told_in_our_words_not_in_apts(go: Callable[..., Ran]) -> None:
    said = ("W: slow", f"{REFUSED} this would change the kernel: linux-image-9", "E: Failure")
    ran = go(Doubles(breaks="nvidia-smi", complaints=said), CHANGE)
    assert ran.stopped == (
        "the rollout stopped because the driver packages of worker1 could not be changed: "
        f"{said[1]}"
    )


def test_a_job_is_awaited_and_not_ended(go: Callable[..., Ran]) -> None:
    looks = [0]

    def look(doubles: Doubles) -> None:
        looks[0] += 1
        if looks[0] == 4:
            doubles.jobs = []
            doubles.states.add("COMPLETING")
        if looks[0] == 6:
            doubles.states.discard("COMPLETING")
            assert "reboot" not in doubles.said

    ran = go(Doubles(jobs=["12"], on_look=look))
    assert ran.ok, ran
    assert [line for line in ran.logged if "waiting" in line] == [
        "waiting for 1 job (12), 1 s at most"
    ]


def test_jobs_that_do_not_finish_in_time_stop_the_rollout(go: Callable[..., Ran]) -> None:
    doubles = Doubles(states={"MIXED"}, jobs=["12", "14"])
    ran = go(doubles)
    assert (ran.ok, doubles.said) == (False, [f"State=DRAIN Reason='{MARK}'"])
    assert ran.last == (
        "worker1 still has 2 jobs (12, 14) after 1 s (drain_timeout_s), so it was not rebooted. "
        "It stays drained. Next: wait until the jobs have ended, then run: "
        "pyinfra -y INVENTORY deploys/reboot.py --limit worker1"
    )
    assert ran.stopped.startswith("the rollout stopped because worker1 still has 2 jobs")


def test_what_a_person_drained_is_rebooted_and_stays_drained(go: Callable[..., Ran]) -> None:
    doubles = Doubles(states={"IDLE", "DRAIN"}, reason="a person")
    ran = go(doubles)
    assert (ran.ok, doubles.said) == (True, ["reboot"])
    assert ran.last == "not resumed: already out of service: 'a person'"
    assert doubles.reason == "a person"


def test_a_fault_of_a_manually_drained_node_stops_no_other(
    go: Callable[..., Ran],
) -> None:
    doubles = Doubles(states={"DOWN", "DRAIN"}, reason="gpu3 is broken")
    ran = go(doubles, found=[finding("gpu.count", found="7", expected="8")])
    assert (ran.ok, ran.stopped, doubles.said) == (True, "", ["reboot"])
    assert ran.logged[-2:] == [
        "the checks failed after the reboot: gpu.count (found 7, expected 8)",
        "not resumed: already out of service: 'gpu3 is broken'",
    ]
    assert (doubles.states, doubles.reason) == ({"DOWN", "DRAIN"}, "gpu3 is broken")


def test_what_a_person_takes_over_meanwhile_is_not_resumed(go: Callable[..., Ran]) -> None:
    def person(doubles: Doubles) -> None:
        doubles.reason = "fan broken"

    doubles = Doubles(after_boot=person)
    ran = go(doubles)
    assert (ran.ok, ran.last) == (True, "not resumed: taken out of service meanwhile: 'fan broken'")
    assert doubles.said[-1] == "reboot"


def test_a_node_that_slurm_calls_down_for_its_reboot_is_resumed(go: Callable[..., Ran]) -> None:
    """Slurm keeps a reason that is there: node_mgr.c, validate_node_specs."""

    def down(doubles: Doubles) -> None:
        doubles.states = {"DOWN", "DRAIN"}

    doubles = Doubles(after_boot=down)
    assert go(doubles).last == "resumed"
    assert doubles.states == {"IDLE"}


def test_a_node_that_does_not_come_back_stays_drained(go: Callable[..., Ran]) -> None:
    doubles = Doubles(returns=False)
    ran = go(doubles)
    assert not ran.ok
    assert ran.stopped == (
        "the rollout stopped because worker1 did not come back within 1 s of its reboot "
        "(return_timeout_s): ssh: no route"
    )
    assert "It stays drained. Next: look at the console of worker1" in ran.last
    assert doubles.reason == MARK


def test_a_node_that_fails_the_check_stays_drained(go: Callable[..., Ran]) -> None:
    doubles = Doubles()
    ran = go(doubles, found=[finding("gpu.count", found="7", expected="8")])
    assert not ran.ok
    assert doubles.said[1:] == ["reboot", f"State=DRAIN Reason='{OURS} gpu.count (from: spec)'"]
    assert "was still failing its checks after its reboot: gpu.count (found 7" in ran.last
    assert ran.stopped


def test_a_node_that_differs_only_in_a_warning_stays_drained_and_the_others_get_their_turn(
    go: Callable[..., Ran],
) -> None:
    doubles = Doubles()
    differs = finding("fingerprint.file", device="/etc/x", severity="warning", reference="peers")
    ran = go(doubles, found=[differs])
    assert (ran.ok, ran.stopped) == (False, "")
    assert doubles.said[-1] == (
        f"State=DRAIN Reason='{OURS} fingerprint.file /etc/x (from: peers)'"
    )
    assert "It stays drained. Next: run lockstep check" in ran.last


@pytest.mark.parametrize(
    ("rules", "checks"),
    [(("fingerprint.file",), 2), (("fingerprint.file", "gpu.count"), 4)],
)
def test_a_check_is_not_repeated_for_what_does_not_settle(
    go: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, rules: tuple[str, ...], checks: int
) -> None:
    """One more check sees what a service wrote meanwhile. A GPU may come within 300 s."""
    doubles = Doubles()
    found = [finding(rule, severity="error") for rule in rules]
    now = [0.0]

    def slept(seconds: float) -> None:
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=slept)
    monkeypatch.setattr(steps, "time", clock)
    monkeypatch.setattr(steps, "SETTLE_S", 300.0)
    monkeypatch.setattr(steps, "CHECK_EVERY_S", 100.0)
    made: list[str] = []
    run = go(doubles, found=found, checked=made.append)
    assert not run.ok
    assert len(made) == checks


def test_a_difference_of_which_nobody_knows_the_right_side_is_said_after_a_reboot(
    go: Callable[..., Ran],
) -> None:
    doubles = Doubles()
    doubtful = finding("fingerprint.file", device="/etc/x", status="undecided")
    ran = go(doubles, found=[doubtful])
    assert ran.ok
    assert doubles.said[-1] == "State=RESUME"
    assert [
        one for one in ran.logged if "differs from its peers, and the right value is not" in one
    ]


def test_a_slurmd_that_did_not_register_since_stays_drained(go: Callable[..., Ran]) -> None:
    def same(doubles: Doubles) -> None:
        doubles.slurmd -= 1

    assert "slurmd has not registered with the controller" in go(Doubles(after_boot=same)).stopped


def test_what_an_interrupted_rollout_drained_is_gone_on_with(go: Callable[..., Ran]) -> None:
    left = {"states": {"IDLE", "DRAIN"}, "reason": MARK}
    before_reboot = Doubles(**cast(Any, left))
    assert go(before_reboot).ok
    assert before_reboot.said == ["reboot", "State=RESUME"]
    after_reboot = Doubles(**cast(Any, {**left, "states": {"DOWN", "DRAIN"}}))
    ran = go(after_reboot, pending=Pending())
    assert ran.logged[0] == "to check and resume: drained by a rollout that did not finish"
    assert after_reboot.said == ["State=RESUME"]


def test_without_the_controller_nothing_is_rebooted(go: Callable[..., Ran]) -> None:
    doubles = Doubles(silent=True)
    ran = go(doubles)
    assert (ran.ok, doubles.said) == (False, [])
    assert ran.last.startswith("worker1 was not drained: the controller did not answer. Next: ")


def test_a_node_that_waits_for_jobs_is_put_back_when_the_rollout_stops(
    go: Callable[..., Ran],
) -> None:
    rollout = Rollout()
    rollout.stop("worker2 broke")
    doubles = Doubles(jobs=["12"])
    ran = go(doubles, rollout=rollout)
    assert ran.ok
    assert doubles.said[-1] == "State=RESUME"
    assert ran.last == "not rebooted, resumed: the rollout stopped because worker2 broke"


def test_a_node_that_somebody_resumes_meanwhile_is_not_rebooted(go: Callable[..., Ran]) -> None:
    def resumed(doubles: Doubles) -> None:
        if doubles.said:
            doubles.states = {"MIXED"}

    doubles = Doubles(jobs=["12"], on_look=resumed)
    ran = go(doubles)
    assert not ran.ok
    assert "was resumed before its jobs had finished, so it was not rebooted. Next" in ran.last


def test_an_error_of_our_own_stops_the_rollout_as_well(go: Callable[..., Ran]) -> None:
    def bug(doubles: Doubles) -> None:
        if doubles.said:
            raise LookupError("a bug")

    rollout = Rollout()
    with pytest.raises(LookupError):
        go(Doubles(on_look=bug), rollout=rollout)
    assert rollout.stopped == (
        "the rollout stopped because Ctrl-C or an internal error in Lockstep ended the turn of "
        "worker1"
    )


# -- what the check may say


def finding(rule: str, node: str = "worker1", **fields: str) -> dict[str, Any]:
    usual = {"rule": rule, "node": node, "device": "", "reference": "spec", "severity": "error"}
    return {**usual, "status": "differs", "found": "a", "expected": "b", **fields}


MAJORITY = "peers: 15 nodes of class hgx-h200"


@pytest.mark.parametrize(
    "allowed",
    [
        finding("slurm.state"),
        finding("kubernetes.node", found="cordoned by a rollout: lockstep-reboot: huge pages"),
        finding("kubernetes.unavailable", found="0 of 1 pods"),
        finding("kernel.release", reference="peers"),
        finding("kernel.cmdline", node="worker[1-2]", reference="peers"),
        finding("gpu.driver_version", reference=MAJORITY),
        finding("gpu.count", node="worker2"),
        finding("rdma.firmware", reference=MAJORITY, severity="warning"),
        finding("fingerprint.file", reference="peers (2 of 3)", severity="notice"),
        finding("fingerprint.sysctl", node="worker[1-2]", status="undecided"),
    ],
    ids=lambda allowed: f"{allowed['rule']} {allowed['node']}",
)
def test_these_findings_do_not_keep_a_rebooted_node_out(allowed: dict[str, Any]) -> None:
    assert lasting([allowed], "worker1") == []


def test_a_cordoned_node_with_another_fault_is_kept_out() -> None:
    one = finding("kubernetes.node", found="not Ready, cordoned by a rollout: lockstep-reboot")
    assert lasting([one], "worker1") == [one]


def test_a_value_that_could_not_be_read_keeps_a_rebooted_node_out() -> None:
    one = finding("kubernetes.unavailable", found="", status="unknown")
    assert lasting([one], "worker1") == [one]


def test_of_many_findings_the_first_are_said() -> None:
    found = [finding("unit.active", device=f"unit{number}") for number in range(5)]
    text = as_text(found)
    assert text.count("found a, expected b") == 3
    assert text.endswith("unit2 (found a, expected b) and 2 more")


def test_a_difference_of_the_configuration_keeps_a_rebooted_node_out() -> None:
    for reference in ("peers (2 of 3)", "configured", "no package owns it"):
        for severity in ("error", "warning"):
            one = finding("fingerprint.file", reference=reference, severity=severity)
            assert lasting([one], "worker1") == [one]


def test_a_comparison_with_the_class_counts_warnings_of_rules_that_a_rollout_lets_pass() -> None:
    warning = finding("rdma.firmware", severity="warning")
    assert lasting([warning], "worker1") == []
    assert against([warning], "worker1") == [warning]
    assert against([finding("slurm.state")], "worker1") == []


def test_a_difference_of_which_nobody_knows_the_right_side_is_told_apart() -> None:
    one = finding("fingerprint.sysctl", node="worker[1-2]", status="undecided")
    notice = {**one, "severity": "notice"}
    assert against([one, notice], "worker1") == []
    assert undecided([one, notice], "worker1") == [one]
    assert undecided([one], "worker3") == []


def test_a_reason_for_everybody_has_no_values() -> None:
    one = finding("fingerprint.file", device="/etc/x", reference="peers (2 of 3)", found="secret")
    assert reason_of("x:", [one]) == "x: fingerprint.file /etc/x (from: peers (2 of 3))"


def test_any_other_finding_does() -> None:
    found = [finding("kernel.args"), finding("gpu.ecc", device="gpu3", reference="peers")]
    assert as_text(lasting(found, "worker1")) == (
        "kernel.args (found a, expected b), gpu.ecc gpu3 (found a, expected b)"
    )
    of_peers = [finding("gpu.ecc", device="gpu3", reference=MAJORITY)]
    assert as_text(lasting(of_peers, "worker1")) == "gpu.ecc gpu3 (found a, expected b)"
    # What the plan says of the command line is no matter of the peers.
    assert lasting([finding("kernel.cmdline")], "worker1")


@pytest.mark.parametrize(
    ("reading", "path", "value", "kept_out"),
    [
        ("kernel.release", (), "6.1.0-9", False),
        ("gpu.driver_version", ("gpu3",), "580.1", False),
        ("rdma.firmware", ("mlx5_1",), "28.37", False),  # a warning
        ("rdma.rate", ("mlx5_1",), "200 Gb/sec (2X NDR)", True),
    ],
)
def test_findings_are_read_as_the_engine_writes_them(
    reading: str, path: tuple[str, ...], value: str, kept_out: bool
) -> None:
    start = recorded.mutated(recorded.consistent(), "worker3", reading, path, value)
    (one,) = recorded.report(start).document()["findings"]
    assert re.fullmatch(r"peers: (\d+ of )?\d+ nodes of class [\w-]+", one["reference"])
    assert bool(lasting([one], "worker3")) is kept_out


# -- what pyinfra does: a later pyinfra that differs fails here

HOSTS = """\
_now = {"fake_delay": 0, "fake_delay_jitter": 0}
head = [("@fake/head", _now)]
worker = [("@fake/worker1", _now), ("@fake/worker2", _now)]
"""

OPERATION = """\
import threading
from pyinfra import host
from pyinfra.api import FunctionCommand, operation
from lockstep.roles.steps.reboot.rollout import rollout_of

@operation()
def own():
    name = host.name.rpartition("/")[2]
    {body}

own(name="own")
"""


def ran(
    folder: Path, body: str, *options: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """Run an operation of ours on three hosts; return what became of each."""
    lines = body.replace("\n", "\n    ")
    done = pyinfra(folder, OPERATION.format(body=lines), *options, inventory=HOSTS)
    said = done.stderr.split("--> Starting operation: own")[-1].split("--> Results")[0]
    ends = re.findall(r"\[@fake/(\w+)\] +(No changes|Success|Error|Skipped)", said)
    return done, dict(ends)


def test_a_function_that_returns_false_fails_its_host_alone(tmp_path: Path) -> None:
    body = 'yield FunctionCommand(lambda state, host: name != "worker1", (), {})'
    done, ends = ran(tmp_path, body, "-y")
    assert done.returncode == 1
    assert ends == {"head": "Success", "worker1": "Error", "worker2": "Success"}


def test_an_operation_that_yields_nothing_is_no_change(tmp_path: Path) -> None:
    done, ends = ran(tmp_path, "yield from ()", "-y")
    assert done.returncode == 0
    assert set(ends.values()) == {"No changes"}


def test_an_error_in_the_operation_itself_ends_the_run_for_all(tmp_path: Path) -> None:
    """So ``rebooted`` catches what its readings raise, and works inside a function."""
    body = 'if name == "worker1":\n    raise ValueError("mine")\nyield from ()'
    done, _ = ran(tmp_path, body, "-y")
    assert done.returncode != 0
    assert "mine" in done.stderr
    assert "--> Results" not in done.stderr


def test_an_error_in_a_function_fails_its_host_alone(tmp_path: Path) -> None:
    body = (
        "def broken(state, host):\n"
        '    if name == "worker1":\n'
        '        raise ValueError("mine")\n'
        "yield FunctionCommand(broken, (), {})"
    )
    done, ends = ran(tmp_path, body, "-y")
    assert done.returncode == 1
    assert ends == {"head": "Success", "worker1": "Error", "worker2": "Success"}


def test_hosts_wait_for_each_other_with_a_lock_of_the_standard_library(tmp_path: Path) -> None:
    """pyinfra's command line has gevent patch it; each host has a greenlet."""
    body = (
        "from gevent.monkey import is_module_patched\n"
        'assert is_module_patched("threading") and is_module_patched("subprocess")\n'
        "rollout = rollout_of(host.state)\n"
        'with rollout.turn(name, {"worker1": 0, "worker2": 1, "head": 2}[name], 1):\n'
        "    host.log(f'{name} begins')\n"
        "    yield FunctionCommand(lambda state, host: host.log(f'{name} ends'), (), {})"
    )
    done, ends = ran(tmp_path, body, "-y")
    assert set(ends.values()) == {"Success"}, done.stderr
    assert re.findall(r"(\w+) (?:begins|ends)", done.stderr) == [
        *("worker1", "worker1"),
        *("worker2", "worker2"),
        *("head", "head"),
    ]


def test_a_slot_is_free_again_when_its_function_failed(tmp_path: Path) -> None:
    """pyinfra drops the generator, which closes it."""
    body = (
        "with rollout_of(host.state).turn(name, 0, 1):\n"
        "    yield FunctionCommand(lambda state, host: False, (), {})"
    )
    done, ends = ran(tmp_path, body, "-y")
    assert set(ends.values()) == {"Error"}, done.stderr


def test_a_dry_run_goes_up_to_the_first_command_and_does_not_execute(tmp_path: Path) -> None:
    body = (
        "host.log(f'executing: {host.state.is_executing}')\n"
        "yield FunctionCommand(lambda state, host: host.log('done'), (), {})\n"
        "host.log('behind')"
    )
    done, _ = ran(tmp_path, body, "--dry")
    assert done.returncode == 0
    assert done.stderr.count("executing: False") == 3
    assert "done" not in done.stderr
    assert "behind" not in done.stderr


def test_active_hosts_are_those_of_the_limit_that_did_not_fail(tmp_path: Path) -> None:
    body = (
        "active = sorted(h.name for h in host.state.inventory.get_active_hosts())\n"
        "host.log(f'active: {active}')\n"
        "yield from ()"
    )
    done, _ = ran(tmp_path, body, "-y", "--limit", "worker")
    assert done.stderr.count("active: ['@fake/worker1', '@fake/worker2']") == 2


def test_heads_go_after_the_workers_also_when_a_worker_failed(tmp_path: Path) -> None:
    deploy = (
        "from pyinfra import host\n"
        "from pyinfra.api import FunctionCommand, deploy, operation\n"
        "from lockstep.roles.steps import barrier\n"
        "@operation()\n"
        "def own():\n"
        "    yield FunctionCommand(lambda state, host: host.name != '@fake/worker1', (), {})\n"
        '@deploy("Reboot")\n'
        "def apply():\n"
        '    own(name="own")\n'
        'if "worker" in host.name:\n'
        "    apply()\n"
        'barrier.reached(name="barrier")\n'
        'if "head" in host.name:\n'
        "    apply()\n"
    )
    done = pyinfra(tmp_path, deploy, "-y", inventory=HOSTS)
    assert done.returncode == 1
    workers, barrier, heads = done.stderr.split("Starting operation: ")[1:]
    assert set(re.findall(r"\[@fake/(\w+)\] +(?:Success|Error)", workers)) == {
        "worker1",
        "worker2",
    }
    assert "barrier" in barrier
    assert re.findall(r"\[@fake/(\w+)\] +Success", heads) == ["head"]


def test_a_connection_is_given_up_and_made_again() -> None:
    state = machine()
    (host,) = state.inventory
    talk = Conversation(host, {})
    assert talk.ask(boot_state()).boot == asked(boot_state()).boot
    talk.close()
    assert not host.connected
    assert talk.say("echo again")[1].stdout == "again"
    assert host.connected


def test_a_command_that_hangs_is_left_and_the_connection_with_it() -> None:
    state = machine()
    (host,) = state.inventory
    talk = Conversation(host, {})
    with pytest.raises(Unanswered, match="no answer within 0 s"):
        talk.say("sleep 5", within_s=0.2)
    assert not host.connected


def test_a_reading_that_fails_raises_its_own_message(monkeypatch: pytest.MonkeyPatch) -> None:
    state = machine()
    (host,) = state.inventory

    monkeypatch.setattr(reading, "COMMAND", "cat > /dev/null; echo it broke >&2; exit 3")
    with pytest.raises(Unanswered, match="it broke"):
        Conversation(host, {}).read(boot_state)


def test_a_head_knows_which_workers_had_no_turn_yet() -> None:
    nodes = planned().nodes
    hosts = [SimpleNamespace(name=n, data=SimpleNamespace(plan=p)) for n, p in nodes.items()]
    inventory = SimpleNamespace(get_active_hosts=lambda: hosts)
    rollout = Rollout()
    rollout.done |= {"worker1", "worker2"}
    state = cast(State, SimpleNamespace(inventory=inventory))
    assert _workers_to_come(state, rollout) == "worker3, worker4"
    rollout.done |= {"worker3", "worker4"}
    assert _workers_to_come(state, rollout) == ""


def test_a_drain_of_the_rollout_is_resumed_by_no_other_part() -> None:
    """The health check and the deploy resume what begins with their own mark."""
    from lockstep.checks.slurm_states import OUR_MARK
    from lockstep.facts.slurm import OURS as HEALTH_CHECKS
    from lockstep.roles.operations.slurm_worker import RETURNS

    assert not OURS.startswith((OUR_MARK, HEALTH_CHECKS, *RETURNS))
    assert HEALTH_CHECKS == OUR_MARK
