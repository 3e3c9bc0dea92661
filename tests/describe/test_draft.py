"""A draft of recorded nodes is accepted, and the nodes that it was made of fit it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lockstep.__main__ import main
from lockstep.checks.context import Context
from lockstep.describe import Draft
from lockstep.describe.seen import Seen
from lockstep.describe.values import TODO
from lockstep.inventory import planned
from lockstep.node.describe.readers import OF_A_CHECK, READERS
from lockstep.plan import ClusterPlan
from lockstep.probe.record import Reading, Record, Unreachable
from lockstep.roles import declared
from lockstep.spec import Cluster, load
from tests.checks import recorded
from tests.describe import hosts
from tests.golden.write import plan_of
from tests.plan.on_release import planned_on

DESCRIBED = OF_A_CHECK | {name for _, names in READERS for name in names}


def without_vendors(description: dict[str, Any]) -> None:
    """Leave only software that is in the distribution's archive, so that nothing is a TODO."""
    del description["software"]["repositories"]
    description["hardware"]["hgx-h200"]["gpu"]["nvswitch"] = False
    description["software"]["nvidia"] = {
        "packaging": "debian",
        "driver": "550.163.01",
        "cuda": ["12.4"],
        "cuda_parts": "runtime",
    }
    description["software"]["containers"] = {}


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Reading:
    """The nodes of the recorded cluster."""
    return hosts.read(recorded.consistent(), tmp_path_factory.mktemp("conf"))


@pytest.fixture(scope="module")
def simple(tmp_path_factory: pytest.TempPathFactory) -> Reading:
    """The same with packages of the archive only, so that the whole draft is found."""
    return hosts.read(recorded.clustered(without_vendors), tmp_path_factory.mktemp("conf"))


def filled(draft: Draft, plan: ClusterPlan) -> dict[str, Any]:
    """Return the description after a person has filled in the repositories."""
    description = copy.deepcopy(dict(draft.description))
    known = plan.spec.model_dump(mode="json", exclude_unset=True)["software"]
    description["software"]["repositories"] = known["repositories"]
    # The package of the recorded cluster has no revision, so the version is not in it as such.
    description["software"]["containers"]["apptainer"] = known["containers"]["apptainer"]
    del description["unmanaged"]  # then everything is judged
    return description


def accepted(description: Mapping[str, Any]) -> ClusterPlan:
    cluster, problems = load(description, declared())
    assert cluster is not None, problems
    return planned(cluster, inventory="draft.py")


def problems_of(description: Mapping[str, Any]) -> set[str]:
    """Return the fields that the reader refuses."""
    return {".".join(map(str, one.path)) for one in load(description, declared())[1]}


def judged(plan: ClusterPlan, reading: Reading, context: Context) -> set[tuple[str, str, str]]:
    """Return rule, node and device of what the check finds beside what it finds without a draft."""
    before = {(one.rule, one.node, one.device) for one in recorded.report(context).findings}
    now = recorded.report(
        Context(
            plan,
            {name: reading[name] for name in plan.nodes},
            recorded._files,
            recorded.SECRETS.munge_key_sha256,
        )
    )
    return {(one.rule, one.node, one.device) for one in now.findings} - before


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("recorded", "debian_13"),
        ("prod", "debian_13"),
        ("prod", "ubuntu_24_04"),
        ("prod", "rocky_9"),
    ],
)
def test_a_check_of_the_same_records_finds_nothing_that_was_read(
    name: str, release: str, tmp_path: Path
) -> None:
    plan = {"recorded": recorded.consistent().plan}.get(name) or (
        plan_of(name) if release == "debian_13" else planned_on(release)
    )
    context = hosts.recorded_on(release, plan)
    read = hosts.read(context, tmp_path)
    draft = hosts.drafted(read)
    assert draft.problems == ()
    description = filled(draft, plan)
    if release != "debian_13":  # the tests have no key of the vendor for its repository there
        description["software"]["repositories"] = []
        assert problems_of(description) == {"software.repositories"}
        now = planned(Cluster.model_validate(description))
    else:
        now = accepted(description)
    found = judged(now, read, context)
    # Lockstep's own files follow from the whole description, also from what no node shows.
    assert {rule for rule, _, _ in found} <= {"file.content", "left_over.package"}


def test_what_was_declared_is_found_again(reading: Reading) -> None:
    draft, wanted = hosts.drafted(reading), copy.deepcopy(recorded.DESCRIPTION)
    found = draft.description
    for name in ("name", "scheduler"):
        assert (
            found[name].items() >= wanted[name].items()
            if name == "scheduler"
            else (found[name] == wanted[name])
        )
    assert found["networks"]["management"] == {"prefix": "fd00:1::/64"}
    assert found["networks"]["fabric"] == {"prefix": "fd00:2::/63", "rails": 2}
    worker, head = wanted["hardware"]["hgx-h200"], wanted["hardware"]["head"]
    assert found["hardware"]["h200"] == {**worker, "memory_mib": 65536 * 103 // 100}
    assert found["hardware"]["cpu"].items() >= {**head, "memory_mib": 8240}.items()
    assert [{**one, "hardware": ""} for one in found["nodes"]] == [
        {
            **one,
            "hardware": "",
            **({"runs": sorted(one["runs"], key=order)} if "runs" in one else {}),
        }
        for one in wanted["nodes"]
    ]
    nvidia = found["software"]["nvidia"]
    assert nvidia.items() >= wanted["software"]["nvidia"].items()
    assert found["software"]["versions"]["slurmd"] == "24.11.5-4+deb13u1"
    assert found["software"]["containers"]["engines"] == ["docker", "podman"]


def order(service: str) -> int:
    return ["slurm_accounting", "slurm_controller", "prometheus"].index(service)


def test_a_draft_without_todo_is_an_inventory_at_once(
    simple: Reading, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draft = hosts.drafted(simple)
    assert (draft.todos, draft.problems) == (0, ())
    file = tmp_path / "draft.py"
    file.write_text(draft.text)
    assert main(["plan", str(file)]) == 0
    assert "worker[1-8]" in capsys.readouterr().out


def without_slurm(reading: Reading) -> Reading:
    """Return the records of nodes on which nobody has set up Slurm."""
    for node, got in reading.items():
        assert isinstance(got, Record)
        units = {"slurmdbd.service", "slurmctld.service", "slurmd.service"}
        found = got.get("units")
        assert isinstance(found, dict)
        others = {name: unit for name, unit in found.items() if name not in units}
        reading = hosts.changed(reading, node, describe__slurm={}, units=others)
    return reading


def test_nodes_without_slurm_get_a_todo_for_the_services_of_its_heads(simple: Reading) -> None:
    bare = without_slurm(simple)
    draft = hosts.drafted(bare)
    assert draft.todos == 2  # and the name of the cluster
    description = copy.deepcopy(dict(draft.description))
    head = description["nodes"][0]
    assert TODO in head["runs"]
    head["runs"] = head["runs"].partition("a list of ")[2].partition(", here or")[0].split(", ")
    accepted({**description, "name": "bare"})


def test_workers_without_slurm_and_head_get_a_head(simple: Reading) -> None:
    bare = {name: got for name, got in without_slurm(simple).items() if name != "head1"}
    last = hosts.drafted(bare).description["nodes"][-1]
    assert (last["role"], last["runs"]) == ("head", ["slurm_controller", "slurm_accounting"])


def test_the_reader_refuses_each_todo_with_its_line(
    reading: Reading, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draft = hosts.drafted(reading)
    assert draft.todos == draft.text.count(f'"{TODO}: ') == 4
    file = tmp_path / "draft.py"
    file.write_text(draft.text)
    with pytest.raises(SystemExit) as ended:
        main(["plan", str(file)])
    assert ended.value.code == 3
    said = capsys.readouterr().err
    for number, line in enumerate(draft.text.splitlines(), 1):
        if f'"{TODO}: ' in line:
            assert f"{file}:{number} software.repositories" in said


def test_each_value_says_where_it_was_found(simple: Reading) -> None:
    found = hosts.drafted(simple).text
    assert '"prefix": "fd00:1::/64",  # found on head1,worker[1-8]' in found
    assert '"count": 8,  # found on worker[1-8]' in found
    assert '"slurmctld": "24.11.5-4+deb13u1",  # found on head1' in found
    assert '"user": "admin",  # as given on the command line' in found


def test_a_setting_that_differs_on_one_node_is_named_there(simple: Reading) -> None:
    odd = hosts.changed(simple, "worker3", os__time_zone="Europe/Berlin")
    draft = hosts.drafted(odd)
    assert (draft.classes, draft.groups) == (2, 2)
    assert draft.description["os"]["time_zone"] == "Etc/UTC"
    note = "found on head1,worker[1-2,4-8]; worker3: 'Europe/Berlin'; confirm"
    assert f'# {note}\n            "time_zone": "Etc/UTC",\n' in draft.text


def test_two_kinds_of_machines_are_two_classes_and_two_groups(simple: Reading) -> None:
    mixed = simple
    for name in ("worker7", "worker8"):
        mixed = hosts.changed(mixed, name, memory_mib=30000)
    draft = hosts.drafted(mixed)
    assert {name: one["memory_mib"] for name, one in draft.description["hardware"].items()} == {
        "h200": 67502,
        "h200-2": 30000,
        "cpu": 8240,
    }
    groups = {
        one["name"]: (one["hardware"], one["management"]) for one in draft.description["nodes"]
    }
    assert groups == {
        "head1": ("cpu", "fd00:1::1"),
        "worker[1-6]": ("h200", "fd00:1::101"),
        "worker[7-8]": ("h200-2", "fd00:1::107"),
    }
    assert "worker[7-8]: differs from the class h200 (worker[1-6])" in draft.text
    assert "memory: 30000 MiB instead of 67502 MiB" in draft.text
    accepted(draft.description)


def test_a_lost_gpu_makes_a_class_that_says_so(simple: Reading) -> None:
    names = {f"gpu{number}": "NVIDIA H200" for number in range(7)}
    draft = hosts.drafted(hosts.changed(simple, "worker8", gpu__name=names))
    assert draft.description["hardware"]["h200-2"]["gpu"]["count"] == 7
    text = " ".join(draft.text.replace("#", "").split())
    assert (
        "worker8: differs from the class h200 (worker[1-7]). If that is a fault of these nodes, "
        "declare them as h200: the check then reports the fault. It differs in GPUs: NVIDIA H200 "
        "x7 instead of NVIDIA H200 x8"
    ) in text


def test_names_or_addresses_with_a_gap_begin_another_group(simple: Reading) -> None:
    record = simple["worker5"]
    assert isinstance(record, Record)
    moved = {**Seen("worker5", record).items("describe.addresses"), "eno1": ["fd00:1::999/64"]}
    gap = hosts.changed(
        simple, "worker5", describe__addresses=moved, describe__reached_at="fd00:1::999"
    )
    del gap["worker2"]
    names = [one["name"] for one in hosts.drafted(gap).description["nodes"]]
    assert names == ["head1", "worker1", "worker[3-4]", "worker5", "worker[6-8]"]


def test_a_host_that_does_not_answer_is_named_and_left_out(simple: Reading) -> None:
    draft = hosts.drafted({**simple, "worker8": Unreachable("ssh: timed out")})
    assert draft.lost == {"worker8": "ssh: timed out"}
    assert "# not read: worker8: ssh: timed out" in draft.text
    assert draft.description["nodes"][-1]["name"] == "worker[1-7]"
    assert "without worker8, which the draft has as no worker" in draft.text
    accepted(draft.description)


def test_one_machine_under_two_names_is_described_once(simple: Reading) -> None:
    twice = {**simple, "10.0.0.8": simple["worker8"]}
    draft = hosts.drafted(twice)
    assert draft.lost == {"10.0.0.8": "it is the machine that was also given as worker8"}
    assert draft.nodes == 9


def test_machines_with_one_host_name_are_named_as_given(simple: Reading) -> None:
    same = hosts.changed(simple, "worker8", os__hostname="worker7")
    draft = hosts.drafted(same)
    assert draft.nodes == 9
    assert draft.description["nodes"][-1]["name"] == "worker[1-8]"
    assert "set the host names of worker[7-8]: worker7 is not unique" in draft.text


def test_a_value_that_no_description_can_have_is_a_todo_with_the_reason(simple: Reading) -> None:
    for name in simple:
        simple = hosts.changed(simple, name, os__time_zone="Mars/Olympus")
    text = hosts.drafted(simple).text
    assert '"time_zone": "TODO: time zone"' in text
    assert "'Mars/Olympus' was found on head1,worker[1-8]; expected:" in " ".join(text.split())


def test_what_was_not_read_is_a_todo_with_the_reason(simple: Reading) -> None:
    record = simple["head1"]
    assert isinstance(record, Record)
    raw = record.model_dump(mode="json")
    raw["readings"]["describe.processors"] = {"unread": "some are offline"}
    draft = hosts.drafted({"head1": recorded.parsed(raw)})
    assert '"sockets": "TODO: sockets",  # TODO: some are offline' in draft.text
    assert draft.todos == 3


@pytest.mark.parametrize(
    ("id_", "version", "wanted"),
    [
        ("ubuntu", "24.04", "ubuntu_24_04"),
        ("rocky", "9.4", "rocky_9"),
        ("almalinux", "9.6", "almalinux_9"),
    ],
)
def test_releases_are_found(simple: Reading, id_: str, version: str, wanted: str) -> None:
    for name in simple:
        simple = hosts.changed(simple, name, os__id=id_, os__version_id=version)
    assert hosts.drafted(simple).description["os"]["release"] == wanted


def test_nodes_with_another_release_are_a_group_of_their_own(simple: Reading) -> None:
    for name in ("worker7", "worker8"):
        simple = hosts.changed(simple, name, os__version_id="12")
    nodes = hosts.drafted(simple).description["nodes"]
    assert [(one["name"], one.get("release")) for one in nodes] == [
        ("head1", None),
        ("worker[1-6]", None),
        ("worker[7-8]", "debian_12"),
    ]


def test_a_release_that_lockstep_does_not_know_is_a_todo(simple: Reading) -> None:
    for name in simple:
        simple = hosts.changed(simple, name, os__id="sles", os__version_id="15.6")
    draft = hosts.drafted(simple)
    assert draft.description["software"]["nvidia"]["packaging"].startswith(TODO)
    assert "versions" not in draft.description["software"]
    text = " ".join(draft.text.split())
    assert '"release": "TODO: release"' in text
    assert "head1,worker[1-8]: sles 15.6; Lockstep knows almalinux_9, debian_12" in text


EVIL = '"]}; import os  # \n__import__("os").system("true")\x1b[2J\u2028'


def test_no_text_of_a_node_becomes_python(simple: Reading, tmp_path: Path) -> None:
    marker = "evil_was_here"
    for name in simple:
        simple = hosts.changed(
            simple,
            name,
            os__hostname=f"{name}{EVIL}",
            os__locale=EVIL,
            os__id=EVIL,
            gpu__name={f"gpu{n}": EVIL for n in range(8)},
            kernel__cmdline=[EVIL, f"hugepagesz={EVIL}"],
            describe__login=EVIL,
            describe__time_servers=[EVIL],
            gpu__mig__devices={f"gpu{n}": [EVIL] for n in range(8)},
            packages={"slurmd": EVIL, "podman": EVIL},
            driver__module={"version": EVIL, "flavour": EVIL},
            describe__slurm={
                "settings": {"clustername": EVIL},
                "controllers": [EVIL],
                "nodes": [{"names": EVIL}, {"names": "worker[1-8]", "memspeclimit": EVIL}],
                "partitions": {EVIL: {"nodes": f"worker1,{EVIL}", "maxtime": EVIL}},
            },
        )
    draft = hosts.drafted({**simple, EVIL: Unreachable(EVIL)})
    names: dict[str, Any] = {}
    source = (
        draft.text.replace("from lockstep.inventory import plan_or_exit", "")
        .replace("plan_or_exit(", "dict(description=")
        .replace("    __file__,\n", "")
    )
    source = source.partition("\nhead = ")[0].partition("\nworker = ")[0]
    exec(source, names)
    assert marker not in names
    assert "\x1b" not in draft.text
    assert names["_cluster"]["description"] == draft.description
