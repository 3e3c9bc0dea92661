"""``lockstep compare``: two clusters that should be identical."""

from __future__ import annotations

import copy
import json
import re
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from lockstep.checks import plans
from lockstep.checks.context import Context
from lockstep.files import managed
from lockstep.inventory import plan_or_problems
from lockstep.probe.parse import dumps
from lockstep.probe.record import Record
from tests.checks import recorded
from tests.checks.test_command import INVENTORY
from tests.commands.conftest import ended

BETA = "beta"
NO_SECRETS = partial(managed, secrets=None)


def beta(description: dict[str, Any]) -> None:
    """Make it another cluster: other names, other addresses, more workers."""
    description["name"] = BETA
    description["networks"]["management"] |= {"prefix": "fd00:2::/64", "gateway": "fd00:2::ffff"}
    description["networks"]["fabric"]["prefix"] = "fd00:3::/48"
    head, workers = description["nodes"]
    head.update(name="b-head", management="fd00:2::1")
    workers.update(name="b-worker[01-09]", management="fd00:2::201", fabric="fd00:3::201")


def changed(change: Any = None) -> dict[str, Any]:
    description = copy.deepcopy(recorded.DESCRIPTION)
    beta(description)
    if change is not None:
        change(description)
    return description


def write(description: dict[str, Any]) -> None:
    text = INVENTORY.replace("DESCRIPTION, ", "json.loads(Path('beta.json').read_text()), ")
    Path("beta.json").write_text(json.dumps(description))
    Path("beta.py").write_text(f"import json\nfrom pathlib import Path\n{text}")


OWN = {
    "GPU-0000": "GPU-beta",
    '"1650': '"2650',
    '"1d000': '"be000',
    "a088:": "beef:",
    "a0:88:": "be:ef:",
}
"""How what is the own of a GPU, a machine or an adapter begins, here and in the other one."""


def own_gpus(context: Context) -> Context:
    """Give the nodes hardware and an identity of their own: two clusters share none."""
    reading = dict(context.reading)
    for name, got in context.reading.items():
        assert isinstance(got, Record)
        text = got.model_dump_json()
        for here, there in OWN.items():
            text = text.replace(here, there)
        reading[name] = Record.model_validate_json(text)
    return recorded.with_reading(context, reading)


@cache
def another() -> Context:
    return own_gpus(recorded.clustered(beta))


@pytest.fixture
def clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    """Two clusters ``alpha.py`` and ``beta.py`` with saved records of both."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lockstep.secrets.existing", lambda *_: recorded.SECRETS)
    Path("alpha.py").write_text(INVENTORY)
    Path("a.json").write_text(dumps(recorded.consistent().reading))
    write(changed())
    other = another()
    Path("b.json").write_text(dumps(other.reading))
    return other


def compare(*words: str) -> int:
    return ended("compare", "alpha.py", "beta.py", *words)


def judged() -> int:
    return compare("--records", "a.json", "b.json")


def test_clusters_that_differ_in_names_and_addresses_are_identical(
    clusters: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judged() == 0
    out = capsys.readouterr().out
    assert out.startswith("plans of recorded and beta: no differences.\n\n19 nodes, ")
    assert out.endswith(" rules: all consistent. Nothing was changed. Exit 0.\n")


def test_what_one_cluster_accepts_is_no_difference_there(
    clusters: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    change = ("sysctl.running", ("net.core.somaxconn",), "128")
    alpha = recorded.mutated(recorded.consistent(), "worker3", *change)
    Path("a.json").write_text(dumps(alpha.reading))
    Path("b.json").write_text(dumps(recorded.mutated(clusters, "b-worker03", *change).reading))
    accept = ("sysctl.running", "net.core.somaxconn", "--until", "2999-01-01", "--reason", "why")
    assert ended("accept", "alpha.py", *accept, "--records", "a.json") == 0
    capsys.readouterr()
    assert judged() == 1
    out = capsys.readouterr().out
    assert "sysctl.running  beta:b-worker03 net.core.somaxconn\n" in out
    assert "recorded:worker3" not in out
    assert ", 1 accepted difference. " in out


def test_a_malformed_file_of_accepted_differences_is_refused_at_once(
    clusters: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("beta.accepted.toml").write_text("[[accepted]]\n")
    assert compare() == 3
    assert "ERROR beta.accepted.toml: accepted[0].rule\n" in capsys.readouterr().err


def test_what_the_plans_differ_in_is_shown_for_each_kind_of_node(
    clusters: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    def other(description: dict[str, Any]) -> None:
        description["software"]["versions"]["slurmd"] = "24.11.6-1"
        description["hardware"]["hgx-h200"]["kernel"]["max_cstate"] = 0
        description["os"]["locale"] = "de_DE.UTF-8"

    write(changed(other))
    assert compare("--plans") == 1
    out = capsys.readouterr().out
    worker = "worker hgx-h200"
    assert (
        f"{worker}: packages slurmd\n  recorded  24.11.5-4+deb13u1\n  beta      24.11.6-1\n" in out
    )
    assert f"{worker}: kernel_args\n" in out
    assert "+ processor.max_cstate=1\n" in out
    assert f"{worker}: file /etc/locale.conf\n" in out
    assert "+ LANG=de_DE.UTF-8" in out
    assert "plans of recorded and beta: " in out
    assert "worker1" not in out


def test_a_kind_of_node_that_only_one_has_is_named(
    clusters: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    def other(description: dict[str, Any]) -> None:
        description["nodes"][0]["runs"].remove("prometheus")

    write(changed(other))
    assert compare("--plans") == 1
    out = capsys.readouterr().out
    assert "prometheus\n  recorded  head1\n  beta      absent\n" in out


def test_peers_are_those_of_both_clusters(
    clusters: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = recorded.mutated(clusters, "b-worker03", "gpu.vbios", ("gpu3",), "old")
    Path("b.json").write_text(dumps(wrong.reading))
    assert judged() == 1
    out = capsys.readouterr().out
    assert "WARNING gpu.vbios  beta:b-worker03 gpu3\n" in out
    assert "(from: peers: 17 nodes of class hgx-h200)\n" in out
    assert "beta:" not in out.split("  repair    ")[1]


def test_a_whole_cluster_that_differs_is_outvoted_by_the_larger_one(
    clusters: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = recorded.consistent()
    for number in range(1, 9):
        gpus = {f"gpu{i}": "old" for i in range(8)}
        wrong = recorded.mutated(wrong, f"worker{number}", "gpu.vbios", (), gpus)
    Path("a.json").write_text(dumps(wrong.reading))
    assert judged() == 1
    assert "gpu.vbios  recorded:worker" in capsys.readouterr().out


def test_many_differences_fit_a_screen_and_programs_get_all(
    clusters: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    def other(description: dict[str, Any]) -> None:
        packages = "chrony munge podman containerd slurmctld slurmdbd prometheus rdma-core locales"
        for package in packages.split():
            description["software"]["versions"][package] = "9-1"

    write(changed(other))
    assert compare("--plans") == 1
    folded = capsys.readouterr().out
    assert len(folded.splitlines()) < 50
    again = "lockstep compare alpha.py beta.py --plans --all"
    assert re.search(rf"\.\.\. and \d+ more differences?: {again}\n", folded)
    assert ended(*again.split()[1:]) == 1
    said = capsys.readouterr().out
    assert "more differences" not in said
    assert len(said.splitlines()) > len(folded.splitlines())
    assert compare("--plans", "--json", "-") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["report"] is None
    assert f"{len(document['plans'])} differences." in said
    assert f"{len(document['plans'])} differences." in folded


def test_one_rule_alone_is_judged_and_written_for_programs(
    clusters: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = recorded.mutated(clusters, "b-worker03", "gpu.vbios", ("gpu3",), "old")
    Path("b.json").write_text(dumps(wrong.reading))
    records = ("--records", "a.json", "b.json")
    assert compare(*records, "--rule", "gpu.count") == 0
    assert "19 nodes, 1 rule: all consistent." in capsys.readouterr().out
    assert compare(*records, "--rule", "gpu.v*", "--json", "found.json") == 1
    document = json.loads(Path("found.json").read_text())
    assert (document["exit_status"], document["plans"]) == (1, [])
    assert document["report"]["rules"] == ["gpu.vbios"]
    assert [one["node"] for one in document["report"]["findings"]] == ["beta:b-worker03"]


def test_a_gpu_that_is_seen_in_both_is_found(
    clusters: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    uuid = "GPU-00000003-0000-000000000003"
    same = recorded.mutated(clusters, "b-worker03", "gpu.uuid", ("gpu3",), uuid)
    Path("b.json").write_text(dumps(same.reading))
    assert judged() == 1
    assert f"{uuid} on beta:b-worker03 gpu3, recorded:worker3 gpu3" in capsys.readouterr().out


def test_classes_of_one_name_and_another_machine_never_vote_together(
    clusters: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    def other(description: dict[str, Any]) -> None:
        beta(description)
        description["hardware"]["hgx-h200"]["memory_mib"] = 65000

    write(changed(other))
    mixed = own_gpus(recorded.clustered(other))
    for number in range(1, 10):
        gpus = {f"gpu{i}": "another" for i in range(8)}
        mixed = recorded.mutated(mixed, f"b-worker{number:02}", "gpu.vbios", (), gpus)
    Path("b.json").write_text(dumps(mixed.reading))
    assert judged() == 1  # the plans differ
    out = capsys.readouterr().out
    assert "gpu.vbios" not in out
    assert out.endswith("all consistent. Nothing was changed. Exit 0.\n")


def test_equal_names_need_files_of_different_names(
    clusters: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("compare", "alpha.py", "alpha.py", "--plans") == 3
    assert capsys.readouterr().err.startswith("ERROR both clusters are named 'recorded', and")
    Path("copy.py").write_text(INVENTORY)
    assert ended("compare", "alpha.py", "copy.py", "--plans") == 0
    assert capsys.readouterr().out == "plans of alpha and copy: no differences.\n"


@pytest.mark.parametrize("name", ["node", "other", "test", "prod2"])
def test_a_name_that_is_a_word_of_a_file_makes_no_difference(name: str) -> None:
    one, _ = plan_or_problems({**recorded.DESCRIPTION, "name": "gpu"}, "alpha.py")
    other, _ = plan_or_problems({**recorded.DESCRIPTION, "name": name}, "beta.py")
    assert one is not None
    assert other is not None
    assert plans.differing(one, other, NO_SECRETS) == []
    assert plans.differing(other, one, NO_SECRETS) == []


def test_plans_that_differ_in_names_and_addresses_do_not_differ() -> None:
    """What is a name or an address must not show as a difference of content."""
    description = changed()
    one, problems = plan_or_problems(recorded.DESCRIPTION, "alpha.py")
    other, others = plan_or_problems(description, "beta.py")
    assert one is not None, problems
    assert other is not None, others
    assert plans.differing(one, other, NO_SECRETS) == []
