"""``lockstep diff`` on recorded nodes."""

from __future__ import annotations

import json

import pytest

from lockstep.checks import not_compared
from lockstep.node.readers import collect
from lockstep.when import DAY_S, HOUR_S
from tests.checks import recorded
from tests.commands.conftest import START, Cluster, ended, refused


def test_two_equal_nodes_do_not_differ(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("diff", "inventory.py", "worker1", "worker2") == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == (
        "worker1 and worker2: no differences (64 more with --all). Exit 0."
    )
    assert said.err == "reading 2 nodes ...\nread 2 of 2 nodes in 0 s\n"
    assert ended("diff", "inventory.py", "worker1", "worker2", "--all") == 1
    out = capsys.readouterr().out
    assert "os.hostname\n  worker1  worker1\n  worker2  worker2\n" in out
    assert out.endswith("worker1 and worker2: 64 differences. Exit 1.\n")


def test_each_place_that_differs_is_shown_with_both_sides(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for gpu in ("gpu3", "gpu4"):
        cluster.change("worker2", "gpu.vbios", (gpu,), "old")
    cluster.change("worker2", "packages", ("bash",), recorded.REMOVED)
    cluster.change("worker2", "gpu.persistence", (), recorded.REMOVED)
    line = ["BOOT_IMAGE=/boot/vmlinuz", "root=UUID=2", "nosmt"]
    cluster.change("worker2", "kernel.cmdline", (), line)
    cluster.change("worker1", "kernel.cmdline", (), [*line[:1], "root=UUID=1"])
    cluster.save("records.json")
    assert ended("diff", "inventory.py", "worker1", "worker2", "--records", "records.json") == 1
    out = capsys.readouterr().out
    assert "gpu.vbios gpu[3-4]\n  worker1  96.00.A5.00.03\n  worker2  old\n\n" in out
    assert "packages bash\n  worker1  5.2.37-2+b10\n  worker2  absent\n\n" in out
    assert "  worker2  not read: not in the record\n\n" in out
    assert "kernel.cmdline\n  worker1  -\n  worker2  + nosmt\n\n" in out
    assert out.splitlines()[-1] == (
        "worker1 and worker2: 5 differences (64 more with --all). Exit 1."
    )


def test_identities_are_left_out(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    for node in ("worker1", "worker2"):
        address = cluster.context.plan.nodes[node].address
        cluster.change(node, "listeners", ("tcp/9999",), [address])
        cluster.change(node, "cdi.devices", (), {f"GPU-of-{node}": ["/dev/nvidia0"]})
    assert ended("diff", "inventory.py", "worker1", "worker2") == 0
    cluster.change("worker2", "listeners", ("tcp/9999",), ["::"])
    capsys.readouterr()
    assert ended("diff", "inventory.py", "worker1", "worker2") == 1
    assert "listeners tcp/9999\n" in capsys.readouterr().out


def test_what_neither_side_could_read_is_named(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for node in ("worker1", "worker2"):
        cluster.change(node, "gpu.vbios", (), recorded.REMOVED)
    assert ended("diff", "inventory.py", "worker1", "worker2") == 0
    assert "not read on either side: " in capsys.readouterr().out


def test_one_node_before_and_after_a_maintenance(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    ended("record", "inventory.py")
    cluster.now += DAY_S
    cluster.change("worker3", "gpu.uuid", ("gpu3",), "GPU-new")
    cluster.change("worker3", "os.boot_id", (), "another")
    ended("record", "inventory.py", "--limit", "worker3")
    cluster.now += HOUR_S
    capsys.readouterr()
    assert ended("diff", "inventory.py", "worker3", "--before", "2h") == 1
    assert capsys.readouterr().out == (
        "gpu.uuid gpu3\n"
        "  2026-11-20 18:40 UTC  GPU-00000003-0000-000000000003\n"
        "  2026-11-21 18:40 UTC  GPU-new\n"
        "\n"
        "not read on either side: cpuset.system_slice, slurm.nodes\n"
        "2026-11-20 18:40 UTC and 2026-11-21 18:40 UTC: 1 difference (1 more with --all). "
        "Exit 1.\n"
    )
    times = ("--before", "2026-11-20T19:00", "--after", "1h")
    assert ended("diff", "inventory.py", "worker3", *times) == 1


def test_two_files_of_records_node_by_node(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.save("before.json")
    cluster.change("worker3", "os.locale", (), "")
    cluster.context = recorded.unreachable(cluster.context, "worker4")
    cluster.save("after.json")
    assert ended("diff", "before.json", "after.json") == 1
    out = capsys.readouterr().out
    assert out == (
        "worker3\n"
        "-------\n"
        "os.locale\n"
        "  before.json  C.UTF-8\n"
        "  after.json   nothing\n"
        "\n"
        "worker4: no record in after.json\n"
        "before.json and after.json, 8 nodes: 2 differences. Exit 1.\n"
    )
    assert ended("diff", "before.json", "before.json") == 0


def test_programs_get_all_of_it(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.save("before.json")
    cluster.change("worker3", "os.locale", (), "")
    cluster.context = recorded.unreachable(cluster.context, "worker4")
    cluster.save("after.json")
    assert ended("diff", "before.json", "after.json", "--json", "-") == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["exit_status"], document["sides"]) == (1, ["before.json", "after.json"])
    assert document["lacking"] == {"before.json": [], "after.json": ["worker4"]}
    differing = {name: side["differences"] for name, side in document["nodes"].items()}
    place = {"reading": "os.locale", "place": "", "left": "C.UTF-8", "right": "nothing"}
    assert differing == {"head1": [], **{f"worker{n}": [] for n in (*range(1, 9),) if n != 4}} | {
        "worker3": [place]
    }
    assert ended("diff", "inventory.py", "worker1", "worker3", "--json", "two.json") == 1
    said = "worker1 and worker3: 1 difference (62 more with --all). Exit 1.\n"
    assert capsys.readouterr().out.endswith(said)
    with open("two.json", encoding="utf-8") as file:
        assert json.load(file)["nodes"][""]["differences"] == [place]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("inventory.py", "worker1"), "lockstep diff inventory.py worker1: wrong arguments"),
        (
            ("inventory.py", "worker1", "worker33"),
            "inventory.py: unknown node 'worker33'\n  expected  did you mean worker3",
        ),
        (
            ("inventory.py", "worker1", "--before", "then"),
            "--before 'then': not a time\n  expected  an age such as 90m, 36h",
        ),
        (
            ("inventory.py", "worker1", "--before", "2026-11-21", "--after", "soon"),
            "--after 'soon': not a time\n  expected  an age such as 90m, 36h",
        ),
        (
            ("inventory.py", "worker1", "--before", "1h"),
            "no record of worker1 at or before 2026-11-20 17:40 UTC: the oldest of 1 is from "
            "2026-11-20 18:40 UTC\n  next      lockstep record inventory.py --limit worker1",
        ),
        (
            ("inventory.py", "worker1", "--before", "2026-11-21"),
            "both times select the same record of worker1, 2026-11-20 18:40 UTC\n"
            "  next      lockstep record inventory.py --limit worker1",
        ),
        (("no.json", "no.json"), "no.json: No such file or directory\n  expected  a file written"),
    ],
)
def test_what_cannot_be_compared_ends_with_3(
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    message: str,
) -> None:
    ended("record", "inventory.py")
    assert refused(capsys, "diff", *words).startswith(f"ERROR {message}")


@pytest.mark.parametrize("records", [(), ("--records", "lost.json")])
def test_a_node_that_is_down_is_not_read_rather_than_wrong_use(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], records: tuple[str, ...]
) -> None:
    cluster.context = recorded.unreachable(cluster.context, "worker2")
    cluster.save("lost.json")
    assert ended("diff", "inventory.py", "worker1", "worker2", *records) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "ERROR no record of worker2: ssh: Could not connect" in said.err


def test_a_node_of_which_nothing_is_kept_says_how_to_begin(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("diff", "inventory.py", "worker1", "--before", "1h") == 3
    assert "2026-11-20 17:40 UTC: none is saved\n  next      lockstep" in capsys.readouterr().err
    assert cluster.now == START


@pytest.mark.parametrize("table", ["NOT_JUDGED", "CHANGES_BY_ITSELF", "DIFFERS_BETWEEN_NODES"])
def test_what_is_not_compared_is_something_that_the_probe_reads(table: str) -> None:
    taken = {name for _, names in collect.READERS for name in names}
    for place, reason in getattr(not_compared, table).items():
        assert any(f"{place}.".startswith(f"{name}.") for name in taken), place
        assert reason
