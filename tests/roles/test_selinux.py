"""The role selinux: the real semodule links and loads its module, and only where it differs."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.catalog.selinux import GDRCOPY_MODULE, GPU_BOOLEAN, MUNGE, RDMA_MODULE, SLURM
from lockstep.facts.selinux import SelinuxState, selinux_state
from lockstep.files import ManagedFile, managed
from lockstep.node.readers import commands as of_commands
from lockstep.node.readers import selinux as reader
from lockstep.node.readers import tree
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Unread
from lockstep.plan import NodePlan
from lockstep.plan.selinux import SelinuxPlan
from lockstep.question import Taken
from lockstep.roles.operations import operation as of_operations
from lockstep.roles.operations import selinux as role
from tests.checks import test_selinux
from tests.plan.on_release import planned_on, prod_on, texts
from tests.roles.test_network import needs

needs_semodule = needs("semodule", "policycoreutils")
BASE = """\
(handleunknown allow)
(mls true)
(sid kernel)
(sidorder (kernel))
(sensitivity s0)
(sensitivityorder (s0))
(category c0)
(categoryorder (c0))
(sensitivitycategory s0 (c0))
(class chr_file (append getattr ioctl lock map open read write))
(classorder (chr_file))
(user system_u)
(role object_r)
(role system_r)
(userrole system_u system_r)
(userrole system_u object_r)
(userlevel system_u (s0))
(userrange system_u ((s0) (s0)))
(type kernel_t)
(type {container})
(type infiniband_device_t)
(type xserver_misc_device_t)
(roletype system_r kernel_t)
(roletype system_r {container})
(roletype object_r infiniband_device_t)
(roletype object_r xserver_misc_device_t)
(sidcontext kernel (system_u system_r kernel_t ((s0) (s0))))
(allow kernel_t infiniband_device_t (chr_file (read)))
"""
"""A policy with the types that the module names."""


def node(name: str = "worker3", mode: str = "enforcing") -> NodePlan:
    return test_selinux.cluster(mode).plan.nodes[name]


def source(plan: NodePlan | None = None, module: str = RDMA_MODULE) -> ManagedFile:
    files = managed(plan or node(), None, "selinux")
    (file,) = [one for one in files if one.path.endswith(f"/{module}.cil")]
    return file


def with_gdrcopy() -> NodePlan:
    return test_selinux.cluster("enforcing", gdrcopy="2.5.1").plan.nodes["worker3"]


class Store:
    """A store of policies; ``semodule`` uses it instead of the machine's, and loads nothing."""

    def __init__(self, root: Path, container: str = "container_t") -> None:
        self.root = root
        for folder in ("var/lib/selinux", "etc/selinux/targeted", "bin"):
            (root / folder).mkdir(parents=True)
        semodule = shutil.which("semodule", path=f"{os.environ['PATH']}:/usr/sbin")
        script = root / "bin" / "semodule"
        script.write_text(
            f'#!/bin/sh\necho "$@" >>{root}/ran\nexec {semodule} -n -p {root} -s targeted "$@"\n'
        )
        script.chmod(0o755)
        (root / "base.cil").write_text(BASE.format(container=container))
        assert self.run(f"semodule -i {root}/base.cil").returncode == 0

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the role, whose paths are below the store's folder."""
        path = f"{self.root}/bin:{os.environ['PATH']}"
        words = command.replace("/etc/lockstep", f"{self.root}/etc/lockstep")
        return subprocess.run(
            words, shell=True, capture_output=True, text=True, env={"PATH": path}, check=False
        )

    def write(self, file: ManagedFile) -> None:
        path = Path(f"{self.root}{file.path}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(tree, "ROOT", str(tmp_path))
    monkeypatch.setattr(of_commands, "PATH", f"{tmp_path}/bin:{of_commands.PATH}")
    return Store(tmp_path)


def modules() -> dict[str, str]:
    """What the reader says of Lockstep's modules."""
    found = reader.read_modules({"selinux_modules": [RDMA_MODULE]}, Commands())["selinux.modules"]
    assert isinstance(found, dict)
    return found


RIGHT: dict[str, Any] = {
    "running": "enforcing",
    "persisted": "enforcing",
    "policy": "targeted",
    "booleans": {GPU_BOOLEAN: {"running": "on", "persisted": "on"}},
    "job_steps": 0,
}


def started(
    monkeypatch: pytest.MonkeyPatch, operation: Any, plan: NodePlan, **differs: Any
) -> tuple[list[str], str]:
    """Return the commands of an operation on a node, and what it says."""
    state = SelinuxState(
        **{
            **RIGHT,
            "labels": dict(plan.selinux.labels),
            "modules": {RDMA_MODULE: source().sha256},
            **differs,
        }
    )
    lines: list[str] = []
    host = SimpleNamespace(log_styled=lambda line, **_: lines.append(line), noop=lines.append)
    monkeypatch.setattr(role, "ask", lambda question: state)
    monkeypatch.setattr(role, "host", host)
    monkeypatch.setattr(of_operations, "host", host)
    monkeypatch.setattr(of_operations, "strictly", nullcontext)
    found = list(operation._inner(plan=plan))
    lines += [str(getattr(one, "connector_arguments", "")) for one in found]
    return [str(one) for one in found], " ".join(lines)


# -- the module, by the real semodule


@needs_semodule
def test_the_module_is_loaded_once_and_again_when_it_changes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = source()
    store.write(file)
    assert modules() == {RDMA_MODULE: "absent"}
    (load,), _ = started(monkeypatch, role.policy, node(), modules=modules())
    done = store.run(load)
    assert (done.returncode, done.stderr) == (0, "")
    # The sum that semodule shows is that of the source, so the plan knows it.
    assert modules() == {RDMA_MODULE: file.sha256}
    assert started(monkeypatch, role.policy, node(), modules=modules())[0] == []
    changed = Path(f"{store.root}{file.path}")
    changed.write_bytes(file.content + b"; by hand\n")
    assert store.run(load).returncode == 0
    (again,), _ = started(monkeypatch, role.policy, node(), modules=modules())
    store.write(file)
    assert store.run(again).returncode == 0
    assert modules() == {RDMA_MODULE: file.sha256}


@needs_semodule
@needs("sesearch", "setools")
def test_the_policy_then_allows_the_device_and_nothing_else(store: Store) -> None:
    file = source()
    store.write(file)

    def rules() -> list[str]:
        (policy,) = (store.root / "etc/selinux/targeted/policy").iterdir()
        shown = subprocess.run(
            ["sesearch", "-A", "-s", "container_t", policy], capture_output=True, text=True
        )
        return shown.stdout.splitlines()

    assert rules() == []
    assert store.run(f"semodule -i {file.path}").returncode == 0
    assert rules() == [
        "allow container_t infiniband_device_t:chr_file "
        "{ append getattr ioctl lock map open read write };"
    ]


@needs_semodule
def test_the_device_of_gdrcopy_then_has_the_label_of_the_gpus(store: Store) -> None:
    contexts = store.root / "etc/selinux/targeted/contexts/files/file_contexts"
    plan = with_gdrcopy()
    file = source(plan, GDRCOPY_MODULE)
    store.write(file)
    assert "gdrdrv" not in (contexts.read_text() if contexts.exists() else "")
    done = store.run(f"semodule -i {file.path}")
    assert (done.returncode, done.stderr) == (0, "")
    ((_, kind, label),) = [line.split() for line in contexts.read_text().splitlines()]
    assert (kind, label) == ("-c", "system_u:object_r:xserver_misc_device_t:s0")
    assert label.split(":")[2] == plan.selinux.labels["/dev/gdrdrv"]


@needs_semodule
def test_a_policy_without_the_types_stays_as_it_was(tmp_path: Path) -> None:
    store = Store(tmp_path, container="other_t")
    store.write(source())
    done = store.run(f"semodule -i {source().path}")
    assert done.returncode != 0
    assert "Failed to resolve" in done.stderr
    assert RDMA_MODULE not in store.run("semodule -l").stdout


@needs_semodule
def test_a_module_that_the_plan_no_longer_has_is_unloaded(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(source())
    assert store.run(f"semodule -i {source().path}").returncode == 0
    (command,), _ = started(monkeypatch, role.policy, node("head1"), modules=modules())
    assert command == f"semodule -r {RDMA_MODULE}"
    assert store.run(command).returncode == 0
    assert modules() == {RDMA_MODULE: "absent"}


# -- the plan


def test_what_a_worker_gets_and_what_a_head_gets() -> None:
    worker, head = node(), node("head1")
    assert worker.selinux.booleans == (GPU_BOOLEAN,)
    assert worker.selinux.loaded == {RDMA_MODULE: source().path}
    assert "container-selinux" in worker.software.packages
    assert (head.selinux.booleans, head.selinux.loaded) == ((), {})
    assert "container-selinux" not in head.software.packages
    assert {**MUNGE, **SLURM}.items() <= head.selinux.labels.items()
    assert worker.selinux.labels["/usr/sbin/slurmd"] == "bin_t"
    assert {"/usr/sbin/slurmctld", "/usr/sbin/slurmdbd"} <= head.selinux.labels.keys()


def test_only_a_worker_with_gdrcopy_gets_the_label_of_its_device() -> None:
    plan = with_gdrcopy()
    assert plan.selinux.loaded == {
        GDRCOPY_MODULE: source(plan, GDRCOPY_MODULE).path,
        RDMA_MODULE: source(plan).path,
    }
    assert "/dev/gdrdrv" in plan.selinux.labels
    assert "/dev/gdrdrv" not in node().selinux.labels


def test_without_a_declared_mode_nothing_of_selinux_is_kept() -> None:
    plan = planned_on("rocky_9").nodes["worker01"]
    assert "selinux" not in plan.roles
    assert plan.selinux == SelinuxPlan()


@pytest.mark.parametrize(
    ("release", "mode", "said"),
    [
        ("debian_13", "enforcing", "debian_13 does not run SELinux"),
        ("ubuntu_24_04", "permissive", "ubuntu_24_04 does not run SELinux"),
        ("rocky_9", "disabled", "Lockstep never disables SELinux"),
        ("rocky_9", "Enforcing", '"enforcing" or "permissive"'),
        ("rocky_9", "enforcing", ""),
    ],
)
def test_a_mode_is_refused_where_it_cannot_be(release: str, mode: str, said: str) -> None:
    wanted = prod_on(release) if release != "debian_13" else prod_on("ubuntu_24_04")
    wanted["os"] |= {"release": release, "selinux": mode}
    found = [text for text in texts(wanted) if text.startswith("os.selinux")]
    assert [mode in text and said in text for text in found] == [True] * bool(said)


# -- the mode


@pytest.mark.parametrize(
    ("mode", "running", "steps", "command", "said"),
    [
        ("enforcing", "enforcing", 0, [], ""),
        ("enforcing", "permissive", 0, ["setenforce 1"], ""),
        ("enforcing", "permissive", 2, [], "while a job step runs"),
        ("permissive", "enforcing", 2, ["setenforce 0"], ""),
        ("permissive", "disabled", 0, [], "reboot the node"),
    ],
)
def test_the_running_mode_never_becomes_stricter_under_a_job(
    mode: str,
    running: str,
    steps: int,
    command: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = node(mode=mode)
    found, lines = started(monkeypatch, role.running_mode, plan, running=running, job_steps=steps)
    assert found == command
    assert said in lines


@pytest.mark.parametrize(
    ("differs", "mode", "said"),
    [
        ({"running": "disabled"}, "enforcing", 'set os.selinux to "permissive"'),
        ({"policy": "mls"}, "permissive", "leave os.selinux out"),
        ({"policy": "absent"}, "permissive", ""),
        ({"running": "disabled"}, "permissive", ""),
    ],
)
def test_a_mode_with_which_the_node_may_not_boot_is_refused(
    differs: dict[str, str], mode: str, said: str
) -> None:
    state = SelinuxState(**{**RIGHT, "labels": {}, "modules": {}, **differs})
    why = role.unsafe(mode, state)
    assert said in why
    assert bool(why) == bool(said)


# -- booleans and labels


@pytest.mark.parametrize(
    ("value", "commands"),
    [
        ({"running": "on", "persisted": "on"}, []),
        ({"running": "off", "persisted": "on"}, [f"setsebool -P {GPU_BOOLEAN}=on"]),
        ({"running": "on", "persisted": "not set"}, [f"setsebool -P {GPU_BOOLEAN}=on"]),
        ({"running": "absent", "persisted": "not set"}, ["cat >&2; exit 1"]),
    ],
)
def test_a_boolean_is_set_once(
    value: dict[str, str], commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = started(monkeypatch, role.booleans, node(), booleans={GPU_BOOLEAN: value})
    assert found == commands


def test_only_wrong_labels_are_set_again(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = {**node().selinux.labels, "/etc/munge": "user_home_t", "/var/log/slurm": "absent"}
    assert started(monkeypatch, role.labels, node())[0] == []
    found, _ = started(monkeypatch, role.labels, node(), labels=labels)
    assert found == ["restorecon -- /etc/munge"]


# -- the reader


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ("disabled", "absent", "absent")),
        (
            {
                "/sys/fs/selinux/enforce": "1",
                "/etc/selinux/config": "# SELINUX=disabled\nSELINUX=Permissive\n"
                "SELINUXTYPE=targeted\n",
            },
            ("enforcing", "permissive", "targeted"),
        ),
        ({"/sys/fs/selinux/enforce": "0"}, ("permissive", "absent", "absent")),
    ],
)
def test_the_mode_is_read_running_and_on_disk(
    files: dict[str, str],
    expected: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tree, "ROOT", str(tmp_path))
    put(tmp_path, files)
    found = reader.read_mode({}, Commands())["selinux.mode"]
    assert tuple(found.values()) == expected


def test_booleans_are_read_running_and_from_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "ROOT", str(tmp_path))
    put(
        tmp_path,
        {
            "/etc/selinux/config": "SELINUXTYPE=targeted\n",
            "/sys/fs/selinux/booleans/container_use_devices": "0 0",
            "/sys/fs/selinux/booleans/container_connect_any": "1 1",
            "/var/lib/selinux/targeted/active/booleans.local": "# x\ncontainer_connect_any=1\n",
        },
    )
    asked = {"selinux_booleans": ["container_use_devices", "container_connect_any", "no_such"]}
    assert reader.read_booleans(asked, Commands())["selinux.booleans"] == {
        "container_use_devices": {"running": "off", "persisted": "not set"},
        "container_connect_any": {"running": "on", "persisted": "on"},
        "no_such": {"running": "absent", "persisted": "not set"},
    }


def test_labels_are_read_and_a_file_without_one_is_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "ROOT", str(tmp_path))
    put(tmp_path, {"/a": "", "/b": ""})

    def label(path: str, name: str, *, follow_symlinks: bool) -> bytes:
        if path.endswith("/b"):
            raise OSError(61, "No data available")
        assert (name, follow_symlinks) == ("security.selinux", False)
        return b"system_u:object_r:etc_t:s0\0"

    monkeypatch.setattr(os, "getxattr", label)
    asked = {"selinux_labels": ["/a", "/b", "/c"]}
    found = reader.read_labels(asked, Commands())["selinux.labels"]
    assert found == {
        "/a": "etc_t",
        "/b": {"unread": "/b: no label: No data available"},
        "/c": "absent",
    }


def test_a_kernel_without_selinux_has_no_booleans_and_labels_to_set() -> None:
    plan = node().selinux
    readings = {
        "selinux.mode": {"running": "disabled", "persisted": "permissive", "policy": "targeted"},
        "selinux.modules": dict.fromkeys(plan.modules, "absent"),
        "slurm.steps": 0,
    }
    taken = Taken({name: {"value": value} for name, value in readings.items()})
    state = selinux_state(plan).answer(taken)
    assert (state.booleans, state.labels) == ({}, {})


def test_semodule_without_sums_is_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """semodule before 3.4."""
    script = tmp_path / "semodule"
    script.write_text("#!/bin/sh\necho \"semodule: invalid option -- 'm'\" >&2; exit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(of_commands, "PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(Unread, match="invalid option"):
        modules()
