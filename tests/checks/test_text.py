"""The report as text."""

from __future__ import annotations

from typing import Any

from tests.checks import recorded

PATH = "/etc/gai.conf"


def changed(*nodes: str) -> str:
    start = recorded.consistent()
    for node in nodes:
        start = recorded.mutated(start, node, "files", (PATH,), {"absent": True})
    return recorded.text(recorded.report(start, "file.content"))


def test_what_differs_alike_on_several_nodes_is_one_block() -> None:
    text = changed("worker2", "worker3", "head1")
    assert text.count("ERROR") == 2
    assert f"ERROR   file.content  worker[2-3] {PATH}\n" in text
    assert (
        "  repair    pyinfra -y inventories/recorded.py deploys/worker.py "
        "--limit worker2 --limit worker3 --data roles=os_settings\n" in text
    )
    assert "deploys/head.py --limit head1 --data roles=os_settings\n" in text
    assert text.endswith("9 nodes, 1 rule, 3 findings: 3 differing. Nothing was changed. Exit 1.\n")


def eleven_of_twelve(reading: str, path: tuple[str, ...], value: Any) -> str:
    def many(description: dict[str, Any]) -> None:
        description["nodes"][1]["name"] = "worker[1-12]"

    start = recorded.clustered(many)
    for number in range(1, 12):
        start = recorded.mutated(start, f"worker{number}", reading, path, value)
    return recorded.text(recorded.report(start, "file.content", "os.locale"))


def test_a_repair_of_many_nodes_is_for_these_alone() -> None:
    text = eleven_of_twelve("files", (PATH,), {"absent": True})
    assert (
        "  repair    lockstep repair inventories/recorded.py --rule file.content "
        "--limit 'worker[1-11]'\n" in text
    )
    assert "--limit worker" not in text


def test_what_was_not_read_is_read_anew_by_a_command_that_a_shell_takes() -> None:
    text = eleven_of_twelve("os.locale", (), recorded.REMOVED)
    assert (
        "  repair    find the cause on worker[1-11], then check again: lockstep check "
        "inventories/recorded.py --limit 'worker[1-11]' --rule os.locale\n" in text
    )


def test_nodes_that_give_no_record_have_one_repair() -> None:
    start = recorded.consistent()
    text = recorded.text(recorded.report(recorded.unreachable(start, *start.plan.nodes)))
    assert text.count("  repair    ") == 1
    assert "  repair    check the power, network, sshd and sudo on head1,worker[1-8];" in text


def test_a_repair_names_all_nodes_of_its_block() -> None:
    start = recorded.consistent()
    for node in ("worker1", "worker2"):
        start = recorded.mutated(start, node, "gpu.count", (), 7)
    text = recorded.text(recorded.report(start))
    assert "repair    drain worker[1-2], look for Xid errors" in text
