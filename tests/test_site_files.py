"""Lines, and whole files, of the site in files that Lockstep writes."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from lockstep.files import managed
from lockstep.inventory import plan_or_problems, planned
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.plan.site_lines import Keys, of_chrony, of_hosts, of_slurm
from lockstep.spec import Cluster, Problem
from tests.checks import recorded
from tests.plan.on_release import prod_on

SLURM, GRES, CHRONY = "/etc/slurm/slurm.conf", "/etc/slurm/gres.conf", "/etc/chrony/chrony.conf"
DBD, HOSTS, NCCL = "/etc/slurm/slurmdbd.conf", "/etc/hosts", "/etc/nccl.conf"


def described(files: dict[str, Any]) -> tuple[ClusterPlan | None, list[Problem]]:
    wanted = {**copy.deepcopy(recorded.DESCRIPTION), "files": files}
    return plan_or_problems(wanted, __file__)


def text(node: NodePlan, path: str) -> str:
    (found,) = (one for one in managed(node, recorded.SECRETS) if one.path == path)
    return found.content.decode()


def test_lines_of_the_site_follow_those_of_lockstep_on_every_node_with_the_file() -> None:
    plan, problems = described(
        {
            SLURM: {"lines": ["FirstJobId=1000", "# ours"]},
            HOSTS: {"lines": ["fd00:9::1 storage1"]},
            DBD: {"lines": ["PurgeJobAfter=12months"]},
        }
    )
    assert problems == []
    assert plan is not None
    usual = recorded.consistent().plan.nodes
    block = "\n# Lines of the site (files in the description):\n"
    for node in plan.nodes.values():
        assert text(node, HOSTS) == f"{text(usual[node.name], HOSTS)}{block}fd00:9::1 storage1\n"
    head = plan.nodes["head1"]
    assert text(head, SLURM) == f"{text(usual['head1'], SLURM)}{block}FirstJobId=1000\n# ours\n"
    assert text(head, DBD).endswith(f"{block}PurgeJobAfter=12months\n")


def test_a_file_of_the_site_replaces_lockstep_s_and_is_validated_by_the_same_program() -> None:
    plan, problems = described({CHRONY: {"content": "pool ntp.example.net"}})
    assert problems == []
    assert plan is not None
    worker, usual = plan.nodes["worker1"], recorded.consistent().plan.nodes["worker1"]
    assert text(worker, CHRONY) == "pool ntp.example.net\n"
    (made,) = (one for one in managed(worker, None) if one.path == CHRONY)
    (before,) = (one for one in managed(usual, None) if one.path == CHRONY)
    assert (made.validate, made.mode) == (before.validate, before.mode)
    assert made.validate.startswith("chronyd -p -f {new}")


def test_the_check_expects_what_the_site_wants() -> None:
    plan, _ = described({CHRONY: {"lines": ["leapsecmode slew"]}})
    assert plan is not None
    context = replace(recorded.consistent(), plan=plan)
    found = recorded.report(context).findings
    assert {(one.rule, one.device) for one in found} == {("file.content", CHRONY)}
    for name, node in plan.nodes.items():
        (file,) = (one for one in managed(node, None) if one.path == CHRONY)
        context = recorded.mutated(context, name, "files", (CHRONY, "sha256"), file.sha256)
    assert recorded.report(context).findings == []


def test_a_path_has_the_name_of_each_release() -> None:
    wanted = {**prod_on("rocky_9"), "files": {CHRONY: {"lines": ["leapsecmode slew"]}}}
    node = planned(Cluster.model_validate(wanted)).nodes["worker01"]
    (made,) = (one for one in managed(node, None) if one.path == "/etc/chrony.conf")
    assert made.content.endswith(b"\nleapsecmode slew\n")


OWN = "a line that does not set {}: Lockstep's own line is "
OTHERS = f"{CHRONY}, {HOSTS}, /etc/slurm/cgroup.conf, {GRES}, {SLURM}, {DBD}"


@pytest.mark.parametrize(
    ("path", "wanted", "field", "allowed"),
    [
        (SLURM, {"lines": ["# x", "slurmdtimeout=9"]}, ("lines", 1), OWN.format("slurmdtimeout")),
        (SLURM, {"lines": ["NodeName=worker[8-9]"]}, ("lines", 0), OWN.format("NodeName=worker8")),
        (SLURM, {"lines": ["Timeout 9"]}, ("lines", 0), "Key=Value, or a comment"),
        (SLURM, {"lines": ["A=1 \\"]}, ("lines", 0), "a whole line"),
        (GRES, {"lines": ["AutoDetect=off"]}, ("lines", 0), OWN.format("AutoDetect")),
        (CHRONY, {"lines": ["server x"]}, ("lines", 0), OWN.format("server")),
        (HOSTS, {"lines": ["::5 Worker2"]}, ("lines", 0), OWN.format("worker2")),
        (HOSTS, {"lines": ["worker2 ::5"]}, ("lines", 0), "an address and at least one name"),
        (DBD, {"lines": ["StoragePass=x"]}, ("lines", 0), OWN.format("StoragePass")),
        (DBD, {"content": "A=1"}, ("content",), "lines: the file holds a secret"),
        (SLURM, {}, (), "lines, or content for the whole file"),
        (SLURM, {"lines": ["A=1"], "content": "A=1"}, (), "lines, or content for the whole"),
        (NCCL, {"lines": ["A=1"]}, (), f"a file that can have lines of the site: {OTHERS}"),
        ("/etc/slurm/slrm.conf", {"lines": ["A=1"]}, (), f"did you mean {SLURM}, "),
        ("/srv/a", {"lines": ["A=1"]}, (), f"one of: {OTHERS}; Lockstep writes no other"),
    ],
)
def test_what_contradicts_lockstep_s_lines_is_refused_with_the_line(
    path: str, wanted: dict[str, Any], field: tuple[str | int, ...], allowed: str
) -> None:
    plan, problems = described({path: wanted})
    assert plan is None
    (problem,) = problems
    assert problem.path == ("files", path, *field)
    assert problem.allowed.startswith(allowed)
    if "own line is" in allowed:
        assert "--becomes" in problem.allowed
    assert recorded.SECRETS.database_password not in problem.allowed


def test_a_file_of_an_unmanaged_role_takes_no_lines() -> None:
    wanted = {**copy.deepcopy(recorded.DESCRIPTION), "files": {CHRONY: {"lines": ["rtcsync"]}}}
    _, (problem,) = plan_or_problems({**wanted, "unmanaged": ["all"]}, __file__)
    why = "no lines: the role that writes this file, time_sync, is unmanaged"
    assert problem.allowed == why


@pytest.mark.parametrize(
    ("keys", "line", "found"),
    [
        (of_slurm, "DefMemPerCPU = 4000 # MiB", ("DefMemPerCPU",)),
        (of_slurm, "TaskPluginParam+=Cores", ("TaskPluginParam",)),
        (of_slurm, "partitionname=long Nodes=ALL MaxTime=1", ("partitionname=long",)),
        (of_slurm, "NodeName=a[1-2] CPUs=4", ("NodeName=a1", "NodeName=a2")),
        (of_slurm, "NodeName=a1 Name=shm Count=4", ("Name=shm",)),
        (of_slurm, "include /etc/slurm/more.conf", ()),
        (of_slurm, "  # A=1", ()),
        (of_chrony, "! A", ()),
        (of_chrony, "Allow fd00::/8", ("allow fd00::/8",)),
        (of_chrony, "makestep 1 3", ("makestep",)),
        (of_hosts, "::1 a B # c", ("a", "b")),
        (of_hosts, "", ()),
    ],
)
def test_the_keys_of_a_line(keys: Keys, line: str, found: tuple[str, ...]) -> None:
    assert keys(line) == found
