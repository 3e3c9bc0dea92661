"""The description of an inventory in a lab: what is replaced, what stays, what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import description, network
from lab.description import Wanted, missing
from lab.description.replacements import REPLACEMENTS, Keys, Replacement, replaced
from lab.errors import WrongUseError
from lab.standins import vendor
from lab.state import Hardware, LabState, Served
from lockstep.files import managed
from lockstep.inventory import Description, described, plan_or_problems
from lockstep.plan import ClusterPlan
from tests.golden.write import FAKE, ROOT, plan_of
from tests.spec.nvidia_example import KEY

HOST = Hardware(sockets=1, cores_per_socket=2, threads_per_core=2, numa_nodes=1, memory_mib=16000)
ARCHIVE = {
    "slurmd": "24.11.5-4+deb13u9",
    "slurmctld": "24.11.5-4+deb13u9",
    "slurmdbd": "24.11.5-4+deb13u9",
    "slurm-client": "24.11.5-4+deb13u9",
    "libnccl2": "2.22.3-1-1",
    "libcuda1": "550.163.01-2",
}
PATHS = {name: str(ROOT / "inventories" / f"{name}.py") for name in ("prod", "small")}


def lab_of(found: Description, folder: Path, workers: int | None = None) -> LabState:
    """A lab that has the machines of a description, and one key for all repositories."""
    archive, key = folder / "packages.json", folder / "key.asc"
    archive.write_text(json.dumps(ARCHIVE), encoding="utf-8")
    key.write_text(KEY, encoding="ascii")
    prefix, fabric = network.prefixes("test")
    values: Any = found.values
    lab = LabState(
        name="test",
        os="debian_13",
        prefix=prefix,
        fabric_prefix=network.fabric_prefix_for(fabric, description.rails(values)),
        ssh_key=str(folder / "id_ed25519"),
        known_hosts=str(folder / "known_hosts"),
        ssh_config=str(folder / "ssh_config"),
        archive_versions=str(archive),
        repository_uri="http://lockstep-nvidia/0/",
        repository_key=str(key),
        repository_versions=str(folder / "versions.json"),
        image=str(folder),
        hardware={"head": HOST, "worker": HOST},
        nodes=[],
        description=found.file,
    )
    lab.nodes = description.nodes(found, lab, workers)
    for one in values.get("software", {}).get("repositories", ()):
        lab.repositories[one["name"]] = Served(
            uri=f"http://lockstep-nvidia/{one['name']}/", key=str(key), versions="none"
        )
    return lab


def leaves(value: Any, before: Keys = ()) -> Iterator[tuple[Keys, object]]:
    """Every value of a description with its path; an empty container is a value."""
    items: Any = None
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    if not items:
        yield before, None if items is not None else value
        return
    for key, one in items:
        yield from leaves(one, (*before, key))


def covers(path: Keys, keys: Keys) -> bool:
    """Whether a row's path is that of a value, or of something that contains it."""
    return len(path) <= len(keys) and all(
        row in ("*", key) for row, key in zip(path, keys, strict=False)
    )


def differing(found: Description, lab: LabState) -> set[Keys]:
    before = dict(leaves(found.values))
    after = dict(leaves(replaced(found.values, lab)))
    return {key for key in {**before, **after} if before.get(key) != after.get(key)}


@pytest.fixture(params=[*PATHS.values()], ids=[*PATHS])
def found(request: pytest.FixtureRequest) -> Description:
    return description.read(request.param)


def test_every_difference_is_a_row_of_the_table(found: Description, tmp_path: Path) -> None:
    lab = lab_of(found, tmp_path)
    left = {
        keys
        for keys in differing(found, lab)
        # A container whose last value is gone is empty.
        if not any(covers(row.path[: len(keys)], keys) for row in REPLACEMENTS)
    }
    assert left == set()
    assert all(row.reason for row in REPLACEMENTS)


IN_NEITHER = {
    ("networks", "fabric", "gateway"): "a fabric with routers",
    **{
        path: "IPv4 beside IPv6"
        for network in ("management", "fabric")
        for path in (("networks", network, "second_family"), ("nodes", "*", f"{network}_second"))
    },
    ("hardware", "*", "cpu_numbering"): "processors that are not x86",
}
"""Row that changes neither prod.py nor small.py -> the descriptions that need it."""


def test_every_row_is_needed(tmp_path: Path) -> None:
    changed: set[Keys] = set()
    for path in PATHS.values():
        found = description.read(path)
        changed |= differing(found, lab_of(found, tmp_path))
    idle = {row.path for row in REPLACEMENTS if not any(covers(row.path, k) for k in changed)}
    # These change with a value of their own inside.
    idle -= {("checks",)}
    assert idle == set(IN_NEITHER)


PLACES = {"secrets_dir", "records_dir", "access", "networks", "nodes", "checks"}
SOURCES = {("scheduler", "partitions"), ("software", "repositories"), ("software", "versions")}
LOST_ROLES: dict[str, dict[str, Keys]] = {
    "head1": {"network": ("networks", "management", "manager")},
    "head2": {"network": ("networks", "management", "manager")},
    "worker01": {
        "rdma": ("hardware", "*", "nics", "rdma"),
        "module_signing": ("software", "module_signing"),
    },
}
"""Node of prod.py -> role that it does not have in a lab -> the row that takes it away."""

_CLASS: Keys = ("hardware", "*")
_BOOT: Keys = (*_CLASS, "boot_loader")
BOOTS = (_BOOT,)
BUILDS_MODULES = (_BOOT, ("software", "nvidia", "modules"))
SIGNS = (_BOOT, ("software", "module_signing"))
CUFILE = (_BOOT, ("software", "nvidia", "nvidia_fs"), ("software", "nvidia", "cufile"))
CLOCK = ((*_CLASS, "clock"),)
CGROUP = ((*_CLASS, "cgroup"),)
RDMA = ((*_CLASS, "nics", "rdma"), (*_CLASS, "nics", "rdma_devices"))
PROCESSORS = (
    *((*_CLASS, field) for field in ("sockets", "cores_per_socket", "threads_per_core")),
    *((*_CLASS, field) for field in ("numa_nodes", "memory_mib", "housekeeping_cpus")),
)
HUGEPAGES = (*PROCESSORS, _BOOT, (*_CLASS, "hugepages"))
KERNEL = (_BOOT, (*_CLASS, "kernel"))
DIFFERING: dict[str, tuple[Keys, ...]] = {
    "/etc/apt/preferences.d/90-lockstep": BOOTS,
    "/etc/chrony/chrony.conf": (("time", "servers"),),
    "/etc/default/chrony": CLOCK,
    "/etc/default/grub.d/50-lockstep.cfg": BOOTS,
    "/etc/dkms/framework.conf.d/50-lockstep.conf": SIGNS,
    "/etc/dkms/lockstep-modules.der": SIGNS,
    "/etc/dkms/lockstep-modules.key": SIGNS,
    "/etc/enroot/enroot.conf.d/50-lockstep.conf": RDMA,
    "/etc/lockstep/cufile.json": CUFILE,
    "/etc/lockstep/node-check.json": PROCESSORS,
    "/etc/modprobe.d/50-lockstep-nvidia.conf": BUILDS_MODULES,
    "/etc/modules-load.d/50-lockstep-nvidia.conf": BUILDS_MODULES,
    "/etc/mysql/mariadb.conf.d/90-lockstep.cnf": PROCESSORS,
    "/etc/nccl.conf": RDMA,
    "/etc/network/interfaces.d/50-lockstep-rails": RDMA,
    "/etc/profile.d/50-lockstep-cufile.sh": CUFILE,
    "/etc/prometheus/lockstep.rules.yml": CLOCK,
    "/etc/slurm/cgroup.conf": CGROUP,
    "/etc/slurm/slurm.conf": PROCESSORS,
    "/etc/sysctl.d/99-zz-lockstep.conf": (("os", "sysctl", "*"),),
    "/etc/systemd/system.conf.d/50-lockstep-cpus.conf": PROCESSORS,
    "/etc/systemd/system/chrony.service.d/50-lockstep.conf": CLOCK,
    "/etc/systemd/system/dev-hugepages.mount.d/50-lockstep.conf": HUGEPAGES,
    "/etc/systemd/system/service.d/50-lockstep-cpus.conf": CGROUP,
    "/etc/systemd/system/slurmd.service.d/50-lockstep.conf": PROCESSORS,
    "/etc/systemd/system/user.slice.d/50-lockstep.conf": PROCESSORS,
    "/etc/tmpfiles.d/50-lockstep-cpus.conf": BOOTS,
    "/etc/tmpfiles.d/50-lockstep-kernel.conf": KERNEL,
    "/etc/ucx/ucx.conf": RDMA,
    "/etc/udev/rules.d/60-rdma-persistent-naming.rules": RDMA,
}
"""File that a lab's nodes do not have, or have with another content than prod.py's at the lab's
addresses -> rows without which the lab's nodes would have it, or have it otherwise."""


def files_of(plan: ClusterPlan) -> dict[tuple[str, str], bytes]:
    """The files of a node of each kind of prod.py."""
    return {
        (name, file.path): file.content
        for name in LOST_ROLES
        for file in managed(plan.nodes[name], FAKE)
    }


def planned_with(found: Description, lab: LabState, rows: Iterable[Replacement]) -> ClusterPlan:
    made, problems = plan_or_problems(replaced(found.values, lab, rows), found.file)
    assert made is not None, problems
    return made


def changed_between(one: ClusterPlan, other: ClusterPlan) -> set[str]:
    """The paths of the files that differ."""
    before, after = files_of(one), files_of(other)
    return {path for _, path in {*before, *after} if differ(before, after, path)}


def differ(
    before: dict[tuple[str, str], bytes], after: dict[tuple[str, str], bytes], path: str
) -> bool:
    return any(before.get((name, path)) != after.get((name, path)) for name in LOST_ROLES)


def test_roles_and_files_are_those_of_prod_but_for_the_rows_of_the_table(tmp_path: Path) -> None:
    found = description.read(PATHS["prod"])
    lab = lab_of(found, tmp_path)
    elsewhere = [row for row in REPLACEMENTS if row.path[0] in PLACES or row.path[:2] in SOURCES]
    at_the_lab, in_the_lab = planned_with(found, lab, elsewhere), description.planned(found, lab)
    assert changed_between(at_the_lab, in_the_lab) == set(DIFFERING)
    for name, lost in LOST_ROLES.items():
        here = set(in_the_lab.nodes[name].roles)
        assert set(plan_of("prod").nodes[name].roles) == {*here, *lost}
        assert not here & set(lost)
    every = {row.path for row in REPLACEMENTS}
    assert {row for lost in LOST_ROLES.values() for row in lost.values()} <= every
    for rows in set(DIFFERING.values()):
        assert set(rows) <= every
        without = [row for row in REPLACEMENTS if row.path not in rows]
        changed = changed_between(planned_with(found, lab, without), in_the_lab)
        assert {path for path, one in DIFFERING.items() if one == rows} <= changed


def test_the_given_description_stays_as_it_is(tmp_path: Path) -> None:
    found = described(PATHS["prod"])
    before = json.dumps(found.values, default=str)
    replaced(found.values, lab_of(found, tmp_path))
    assert json.dumps(found.values, default=str) == before


def test_the_lab_has_the_heads_and_some_workers_with_their_interfaces(tmp_path: Path) -> None:
    found = description.read(PATHS["prod"])
    lab = lab_of(found, tmp_path)
    assert [node.name for node in lab.nodes] == ["head1", "head2", "worker01", "worker02"]
    assert {node.interface for node in lab.nodes} == {"eno1"}
    head, *_, worker = lab.nodes
    assert (head.fabric_address, head.gpus) == (None, None)
    links = network.fabric_links(worker)
    assert [name for name, _ in links] == [f"ib{rail}" for rail in range(8)]
    plan = description.planned(found, lab).nodes["worker02"]
    assert [address for _, address in links] == [str(one) for one in plan.node.fabric]
    assert worker.gpus is not None
    assert (worker.gpus.driver, worker.gpus.vbios) == ("590.48.01", "96.00.99.00.01")


def test_only_a_few_packages_of_prod_are_simulated(tmp_path: Path) -> None:
    found = description.read(PATHS["prod"])
    needed = description.wanted(description.planned(found, lab_of(found, tmp_path)))
    assert Wanted("slurmd", ARCHIVE["slurmd"]) in needed
    assert Wanted("libnvidia-ml1", "590.48.01-*") in needed
    assert missing(needed, ARCHIVE) >= {Wanted("libcuda1", "590.48.01-*")}
    assert missing({Wanted("libcuda1", "550.*"), Wanted("slurmd", "*")}, ARCHIVE) == set()


@pytest.mark.parametrize(
    ("workers", "names"), [(1, {"worker01"}), (3, {"worker01", "worker02", "worker03"})]
)
def test_the_number_of_workers_is_a_wish(workers: int, names: set[str], tmp_path: Path) -> None:
    found = description.read(PATHS["prod"])
    lab = lab_of(found, tmp_path, workers)
    assert {node.name for node in lab.nodes if node.role == "worker"} == names
    assert set(description.planned(found, lab).nodes) == names | {"head1", "head2"}


@pytest.mark.parametrize("workers", [0, 17])
def test_a_wrong_number_of_workers_is_refused(workers: int, tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match=f"--workers {workers}: .*expected 1 to 16"):
        lab_of(description.read(PATHS["prod"]), tmp_path, workers)


def test_a_partition_without_a_worker_of_the_lab_is_refused_with_the_number_that_has_one(
    tmp_path: Path,
) -> None:
    found = description.read(PATHS["prod"])
    values: Any = json.loads(json.dumps(found.values))
    values["scheduler"]["partitions"].append({"name": "last", "nodes": "worker[04-16]"})
    more = Description(values, found.file, found.roles)
    with pytest.raises(WrongUseError) as refused:
        description.planned(more, lab_of(more, tmp_path))
    said = str(refused.value)
    assert "prod.py:" in said
    assert "scheduler.partitions[1].nodes" in said
    assert "worker[04-16], the partition last" in said
    assert "head[1-2],worker[01-02]" in said
    assert "--workers 4" in said
    assert description.planned(more, lab_of(more, tmp_path, 4))


NO_DRIVER = ('"nvidia": {"packaging": "debian", "driver": "550.163.01", "cuda": ["12.4"]},', "")


@pytest.mark.parametrize(
    ("name", "said", "old", "new", "more"),
    [
        ("small", "os.release", '"debian_13"', '"ubuntu_24_04"', (NO_DRIVER,)),
        ("small", "hardware.gpu.gpu.vendor", '"model": "l40s"', '"vendor": "amd"', (NO_DRIVER,)),
        ("small", "hardware.gpu.gpu.count", '"count": 4', '"count": 16', ()),
        ("prod", "hardware.hgx-h200.gpu.model", '"model": "h200"', '"model": "NVIDIA H20"', ()),
        ("prod", "nodes[0].name", '"name": "head1"', '"name": "head-1"', ()),
        ("prod", "hardware.head.sockets", '"sockets": 1', '"sockets": 0', ()),
    ],
)
def test_what_a_lab_cannot_take_is_refused_with_its_place(
    name: str, said: str, old: str, new: str, more: tuple[tuple[str, str], ...], tmp_path: Path
) -> None:
    text = Path(PATHS[name]).read_text(encoding="utf-8")
    keys = repr(str(ROOT / "inventories" / "keys"))
    text = text.replace('Path(__file__).parent / "keys"', f"Path({keys})")
    for was, becomes in ((old, new), *more):
        assert text.count(was) == 1
        text = text.replace(was, becomes)
    file = tmp_path / "cluster.py"
    file.write_text(text, encoding="utf-8")
    line = text[: text.index(new)].count("\n") + 1
    with pytest.raises(WrongUseError) as refused:
        description.read(str(file))
    assert f"cluster.py:{line} {said}" in str(refused.value)
    assert "\n    found    " in str(refused.value)


def test_stand_ins_have_the_versions_that_are_asked_for() -> None:
    made = {one.version for one in vendor.made("nvidia-fabricmanager", "590.48.01-*")}
    assert made == {"590.48.01-1", "590.48.02-1"}
    (core,) = vendor.made("datacenter-gpu-manager-4-core", "1:4.6.0-*")
    assert core.version == "1:4.6.0-1"
    (nccl,) = vendor.made("libnccl2", "2.28.9-1+cuda13.1")
    assert nccl.version == "2.28.9-1+cuda13.1"
    assert [*vendor.made("enroot", "4.2.0-*")] == [], "the lab has one version"
    assert [*vendor.made("nvidia-kernel-open-dkms", "590.48.01-*")] == []
