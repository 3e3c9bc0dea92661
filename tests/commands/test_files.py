"""``lockstep files``: the files of a node's plan, and how a node differs from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lockstep.files import managed
from lockstep.probe.record import Reading, Record, Taken, Unreachable
from tests.checks import recorded
from tests.commands.conftest import INVENTORY, Cluster, ended, refused

CHRONY, KEY = "/etc/chrony/chrony.conf", "/etc/munge/munge.key"


@pytest.fixture
def node(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster whose nodes have the planned text in every file that is no secret."""

    def gather(plan: Any, names: list[str], *, texts: bool) -> Reading:
        assert texts
        return {name: cluster.context.reading[name] for name in names}

    plan = cluster.context.plan.nodes["worker1"]
    texts = {
        one.path: {"text": one.content.decode(errors="replace")} for one in managed(plan, None)
    }
    have(cluster, texts)
    monkeypatch.setattr("lockstep.commands.files.gather", gather)
    return cluster


def have(cluster: Cluster, texts: dict[str, Any]) -> None:
    """Give worker1 these texts in its files."""
    record = cluster.context.reading["worker1"]
    assert isinstance(record, Record)
    held = record.readings["files.texts"]
    before = held.value if isinstance(held, Taken) and isinstance(held.value, dict) else {}
    changed = {**record.readings, "files.texts": Taken(value={**before, **texts})}
    put(cluster, record.model_copy(update={"readings": changed}))


def put(cluster: Cluster, got: Record | Unreachable) -> None:
    """Replace what was read of worker1; other tests share the recorded cluster."""
    reading = {**cluster.context.reading, "worker1": got}
    cluster.context = recorded.with_reading(cluster.context, reading)


def test_the_list_names_every_file_with_its_role_and_no_node_is_read(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("files", "inventory.py", "worker1") == 0
    heading, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert heading == ["PATH", "MODE", "OWNER", "BYTES", "ROLE"]
    plan = cluster.context.plan.nodes["worker1"]
    assert [row[0] for row in rows] == sorted(plan.system.paths())
    assert [KEY, "400", "munge:munge", "secret", "munge"] in rows
    size = str(next(len(f.content) for f in managed(plan, None) if f.path == CHRONY))
    assert [CHRONY, "644", "root:root", size, "time_sync"] in rows
    assert cluster.asked is None


def test_the_list_says_which_files_have_lines_of_the_site(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {CHRONY: {"content": "pool x"}, "/etc/hosts": {"lines": ["fd00:9::1 storage1"]}}
    inventory = tmp_path / "inventory.py"
    inventory.write_text(INVENTORY.format(description=f"{{**DESCRIPTION, 'files': {files}}}"))
    assert ended("files", str(inventory), "worker1") == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert rows[CHRONY].endswith(" time_sync, the content by the site")
    assert rows["/etc/hosts"].endswith(" os_settings, 1 line by the site")


def test_a_path_shows_the_content_as_it_is_deployed(
    cluster: Cluster, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert ended("files", "inventory.py", "worker1", CHRONY) == 0
    plan = cluster.context.plan.nodes["worker1"]
    content = next(f.content for f in managed(plan, None) if f.path == CHRONY)
    assert capfdbinary.readouterr().out == content


def test_a_secret_is_never_shown_and_an_unknown_path_has_a_near_one(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "holds a secret, which is never shown" in refused(
        capsys, "files", "inventory.py", "worker1", KEY
    )
    said = refused(capsys, "files", "inventory.py", "worker1", "/etc/chrony.conf")
    assert said == (
        "ERROR Lockstep writes no file /etc/chrony.conf on worker1\n"
        f"  expected  did you mean {CHRONY} or /etc/nccl.conf?\n"
    )


def test_a_node_with_the_planned_files_does_not_differ(
    node: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("files", "inventory.py", "worker1", "--diff") == 0
    number = len(node.context.plan.nodes["worker1"].system.paths())
    *equal, last = capsys.readouterr().out.splitlines()
    assert f"{KEY}: secret, equal" in equal
    assert all(line.endswith(": secret, equal") for line in equal)
    assert last == f"worker1: {number} files, 0 differ. Exit 0."


def test_changes_are_shown_as_lines_and_secrets_only_as_different(
    node: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = next(f for f in managed(node.context.plan.nodes["worker1"], None) if f.path == CHRONY)
    first, *rest = planned.content.decode().splitlines()
    for path in (CHRONY, KEY):
        node.change("worker1", "files", (path, "sha256"), "0" * 64)
    have(node, {CHRONY: {"text": "\n".join(["# mine \x1b[31m", *rest, ""])}})
    node.change("worker1", "files", ("/etc/gai.conf",), {"absent": True})
    node.change("worker1", "files", ("/etc/hosts", "mode"), "600")
    assert ended("files", "inventory.py", "worker1", "--diff") == 1
    out = capsys.readouterr().out
    assert f"--- {CHRONY} on the node\n+++ {CHRONY} planned\n" in out
    assert f"-# mine \\x1b[31m\n+{first}\n" in out
    assert f"{KEY}: secret, different\n" in out
    assert "/etc/gai.conf: new, 644 root:root, " in out
    assert "/etc/hosts: 600 root:root becomes 644 root:root\n" in out
    assert recorded.SECRETS.database_password not in out
    assert out.splitlines()[-1].endswith("files, 4 differ. Exit 1.")


def test_what_cannot_be_compared_is_not_equal(
    node: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstep.secrets.existing", lambda *_: None)
    node.change("worker1", "files", (CHRONY,), {"unread": "Input/output error"})
    assert ended("files", "inventory.py", "worker1", "--diff") == 2
    out = capsys.readouterr().out
    assert f"{CHRONY}: not read: Input/output error\n" in out
    assert f"{KEY}: secret, not compared: this machine does not have it\n" in out
    put(node, Unreachable("ssh: no route"))
    assert ended("files", "inventory.py", "worker1", "--diff") == 2
    assert capsys.readouterr().err == "ERROR worker1: ssh: no route\n"
