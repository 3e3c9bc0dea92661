"""Facts from recorded text; a fact that cannot be read is an error, never a good value."""

import hashlib
from pathlib import Path

import pytest

from lockstep.facts.boot import HugepagesState, hugepages_state
from lockstep.facts.clock import clock_offset
from lockstep.facts.files import FileState, file_states
from lockstep.facts.packages import PackageState, package_state
from lockstep.facts.services import ServiceState, service_state
from lockstep.facts.settings import SettingsState, settings
from lockstep.facts.slurm import (
    DISTRIBUTED,
    SlurmNodeState,
    accounting_clusters,
    configuration_distributed,
    slurm_node,
)
from lockstep.question import Taken, Unreadable
from tests.roles.local import asked

DIGEST = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"


def lines(text: str) -> list[str]:
    return text.strip("\n").splitlines()


# -- files


def test_a_file_that_cannot_be_read_is_not_absent() -> None:
    state = {"sha256": DIGEST, "mode": "400", "user": "munge", "group": "munge"}
    files = {"/a": state, "/b": {"absent": True}, "/c": {"other": "a folder"}}
    question = file_states(("/a", "/b", "/c"))
    assert question.answer(Taken({"files": {"value": files}})) == {
        "/a": FileState(DIGEST, "400", "munge", "munge"),
        "/b": None,
        "/c": None,
    }
    unread = {"/b": {"unread": "/b: Input/output error"}}
    with pytest.raises(Unreadable, match="files: /b could not be read: /b: Input/output error"):
        question.answer(Taken({"files": {"value": files | unread}}))
    with pytest.raises(Unreadable, match="files: /c could not be read: not in the node's answer"):
        question.answer(Taken({"files": {"value": {"/a": state, "/b": {"absent": True}}}}))


def test_file_states_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "a name").write_text("foo")
    (tmp_path / "a name").chmod(0o600)
    (tmp_path / "empty").touch(0o644)
    (tmp_path / "link").symlink_to("empty")
    paths = tuple(str(tmp_path / name) for name in ("a name", "empty", "link", "gone", "."))
    states = asked(file_states(paths))
    whose = ((tmp_path / "empty").owner(), (tmp_path / "empty").group())
    assert states == {
        paths[0]: FileState(DIGEST, "600", *whose),
        paths[1]: FileState(hashlib.sha256(b"").hexdigest(), "644", *whose),
        **dict.fromkeys(paths[2:]),
    }
    assert asked(file_states(paths[2:])) == dict.fromkeys(paths[2:])


# -- units: recorded on Debian 13, started 1000 s after a boot at 1700000000

STARTED = 1700001000
UNIT = "a.service"


def unit(
    changed: dict[str, object],
    stamp: tuple[str, ...] = (),
    reload_files: tuple[str, ...] = ("/etc/three",),
) -> ServiceState:
    """What is made of the readings of a running unit and of its files."""
    files = tuple(path for path in changed if path not in reload_files)
    started = {
        "invocation": "9ad0",
        "at": float(STARTED),
        "needs_daemon_reload": False,
        "stamp": [*stamp],
    }
    readings = {
        "units": {UNIT: {"active": "active", "enabled": "enabled"}},
        "units.started": {UNIT: started},
        "files.changed": changed,
    }
    taken = Taken({name: {"value": value} for name, value in readings.items()})
    return service_state(UNIT, files, reload_files).answer(taken)


@pytest.mark.parametrize(
    ("written", "reload_written", "stale", "reload_due"),
    [
        (STARTED - 1, STARTED - 1, False, False),
        (STARTED + 1, STARTED - 1, True, False),
        (STARTED - 1, STARTED + 1, False, True),
        (STARTED + 0.01, STARTED + 0.01, False, False),
    ],
    ids=["older", "written", "to reload", "within the clock's grain"],
)
def test_a_unit_that_others_started_is_stale_when_its_files_are_younger(
    written: float, reload_written: float, stale: bool, reload_due: bool
) -> None:
    changed: dict[str, object] = {
        "/etc/one": f"{written} 11",
        "/usr/sbin/two": "1600000000.000000000 12",
        "/etc/three": f"{reload_written} 13",
    }
    assert unit(changed) == ServiceState("active", "enabled", False, stale, reload_due)


@pytest.mark.parametrize(
    ("stamp", "stale", "reload_due"),
    [
        (("9ad0", "5 11 /etc/one", "6 13 /etc/three"), False, False),
        (("9ad0", "4 11 /etc/one", "6 13 /etc/three"), True, False),
        (("9ad0", "5 99 /etc/one", "6 13 /etc/three"), True, False),
        (("9ad0", "5 11 /etc/one", "7 13 /etc/three"), False, True),
        (("9ad0", "6 13 /etc/three"), True, False),
        # Something else started it since: what it has read is judged by the time.
        (("0000", "4 11 /etc/one", "7 13 /etc/three"), False, False),
    ],
    ids=["as read", "written again", "replaced", "to reload", "new file", "another start"],
)
def test_a_unit_that_we_started_is_stale_when_its_files_are_others_than_it_read(
    stamp: tuple[str, ...], stale: bool, reload_due: bool
) -> None:
    """Whatever the clock did: the times here lie long before the unit's start."""
    state = unit({"/etc/one": "5 11", "/etc/three": "6 13"}, stamp)
    assert state == ServiceState("active", "enabled", False, stale, reload_due)


def test_the_youngest_of_several_files_counts() -> None:
    young = {"/etc/one": f"{STARTED + 1} 11", "/etc/three": "0 13"}
    assert unit({**young}).stale
    assert unit({**young, "/etc/four": "5 14"}).stale


def test_a_unit_without_files_is_never_stale() -> None:
    assert unit({}, reload_files=()) == ServiceState("active", "enabled", False, False, False)


def test_a_file_that_is_not_there_makes_no_unit_stale() -> None:
    assert not unit({"/etc/one": {"absent": True}}, reload_files=()).stale


def test_a_file_whose_change_cannot_be_read_is_no_file_that_is_absent() -> None:
    with pytest.raises(
        Unreadable, match=r"files\.changed: /etc/one could not be read: Input/output error"
    ):
        unit({"/etc/one": {"unread": "Input/output error"}}, reload_files=())


def test_a_unit_that_systemd_does_not_know() -> None:
    started: dict[str, object] = {
        "invocation": "",
        "at": None,
        "needs_daemon_reload": False,
        "stamp": [],
    }
    readings = {
        "units": {UNIT: {"active": "inactive", "enabled": ""}},
        "units.started": {UNIT: started},
    }
    state = service_state(UNIT).answer(Taken({k: {"value": v} for k, v in readings.items()}))
    assert (state.active, state.enabled) == ("inactive", "")


# -- packages


def packages(*names: str, interrupted: bool = False) -> PackageState:
    readings = {
        "packages": {"slurmd": "24.11.5-4", "chrony": "4.6.1-3"},
        "packages.broken": ["chrony", "libbroken"],
        "packages.held": ["slurmd"],
        "packages.interrupted": interrupted,
    }
    taken = Taken({name: {"value": value} for name, value in readings.items()})
    return package_state(names).answer(taken)


def test_packages() -> None:
    assert packages("slurmd", "munge", "chrony") == PackageState(
        {"slurmd": "24.11.5-4"},
        interrupted=False,
        held=frozenset({"slurmd"}),
        unfinished=frozenset({"chrony"}),
    )
    assert packages("munge") == PackageState({}, interrupted=False)


def test_an_interrupted_dpkg() -> None:
    assert packages("munge", interrupted=True) == PackageState({}, interrupted=True)


def test_packages_that_cannot_be_read_are_not_missing() -> None:
    said = {"unread": "dpkg-query: exit 2: cannot open the database"}
    with pytest.raises(Unreadable, match="dpkg-query: exit 2"):
        package_state(("munge",)).answer(Taken({"packages.broken": said}))


# -- settings


def test_settings() -> None:
    readings = {
        "os.hostname": "worker01",
        "os.time_zone": "Europe/Berlin",
        "sysctl.running": {"vm.swappiness": "1", "no.such": {"unread": "no such file"}},
        "units": {"apt-daily.timer": {"enabled": "masked"}, "gone.timer": {"enabled": ""}},
        "os.locales": ["c", "c.utf8", "en_us.utf8"],
    }
    question = settings(("vm.swappiness", "no.such"), ("apt-daily.timer", "gone.timer"))
    taken = {name: {"value": value} for name, value in readings.items()}
    expected = SettingsState(
        host_name="worker01",
        time_zone="Europe/Berlin",
        sysctl={"vm.swappiness": "1"},
        masked=frozenset({"apt-daily.timer"}),
        locales=frozenset({"c", "c.utf8", "en_us.utf8"}),
    )
    assert question.answer(Taken(taken)) == expected
    no_link = {"os.time_zone": {"unread": "/etc/localtime: not a link"}}
    assert question.answer(Taken({**taken, **no_link})).time_zone == ""
    why = "systemctl show: expected 2 units, found 1"
    with pytest.raises(Unreadable, match=f"units could not be read: {why}"):
        question.answer(Taken({**taken, "units": {"unread": why}}))


def test_settings_of_this_machine() -> None:
    state = asked(settings(("kernel.ostype", "kernel.no_such_key"), ()))
    assert state.sysctl == {"kernel.ostype": "Linux"}
    assert state.host_name
    assert "c" in state.locales


# -- huge pages


def test_huge_pages_per_size_and_numa_node() -> None:
    readings = {
        "hugepages": {"2M": {"0": 512, "1": 0}, "1G": {"0": 4, "10": 5}, "32M": {"0": 7}},
        "hugepages.tried": {"tried": "2M:0:512,2M:1:512", "reached": "512,0,4,5"},
    }
    taken = {name: {"value": value} for name, value in readings.items()}
    counts = {("2M", 0): 512, ("2M", 1): 0, ("1G", 0): 4, ("1G", 10): 5}
    expected = HugepagesState(counts, "2M:0:512,2M:1:512", "512,0,4,5")
    assert hugepages_state().answer(Taken(taken)) == expected


def test_a_kernel_without_huge_pages_has_none_and_other_errors_are_errors() -> None:
    why: dict[str, object] = {"hugepages": {"unread": "no huge pages of any size"}}
    none = {"hugepages.tried": {"value": {"tried": "", "reached": ""}}}
    assert hugepages_state().answer(Taken(why | none)) == HugepagesState({}, "")
    some = {"hugepages.tried": {"value": {"tried": "", "reached": "0,0"}}}
    with pytest.raises(Unreadable):
        hugepages_state().answer(Taken(why | some))


# -- Slurm


def test_a_controller_that_does_not_answer_gives_no_state() -> None:
    shown = {"state": ["DRAIN", "IDLE"], "reason": "lockstep: gpu.count", "registered_at": 100.0}
    taken = Taken({"slurm.node": {"value": {"worker01": shown}}})
    state = SlurmNodeState(frozenset({"IDLE", "DRAIN"}), "lockstep: gpu.count")
    assert slurm_node("worker01").answer(taken) == state
    started = {"units.started": {"value": {"slurmd.service": {"at": 110.2}}}}
    both = Taken({"slurm.node": {"value": {"worker01": shown}}, **started})
    late = slurm_node("worker01").answer(both)
    assert late.restarted_at == 110.2, "it runs, and has not registered yet"
    silent = {"worker01": {"unread": "scontrol: exit 1: slurm_load_node error"}}
    assert slurm_node("worker01").answer(Taken({"slurm.node": {"value": silent}})).states == set()


def test_a_database_that_does_not_answer_knows_no_cluster() -> None:
    knows = Taken({"slurm.clusters": {"value": ["a", "b"]}})
    assert accounting_clusters().answer(knows) == ("a", "b")
    silent = Taken({"slurm.clusters": {"unread": "sacctmgr: exit 1"}})
    assert accounting_clusters().answer(silent) == ()


@pytest.mark.parametrize(
    ("told", "written", "distributed"),
    [
        ("20.5 1", ["20.1 2", "20.5 3"], True),
        ("20.5 1", ["20.1 2", "20.6 3"], False),
        ("20.5 1", ["20.1 2", {"absent": True}], True),
        ({"absent": True}, ["20.1 2", "20.5 3"], False),
    ],
    ids=["older", "written since", "one that is not there", "never told"],
)
def test_a_configuration_is_distributed_when_nothing_was_written_since(
    told: object, written: list[object], distributed: bool
) -> None:
    files = ("/etc/slurm/a", "/etc/slurm/b")
    changed = {DISTRIBUTED: told, **dict(zip(files, written, strict=True))}
    taken = Taken({"files.changed": {"value": changed}})
    assert configuration_distributed(files).answer(taken) is distributed


# -- the clock


def clock(**readings: object) -> float | None:
    taken = {name: {"value": value} for name, value in readings.items()}
    usual = {"synchronised": True, "offset_s": {"value": -0.000012345}, "own_clock": False}
    for name, value in usual.items():
        taken.setdefault(name, value if isinstance(value, dict) else {"value": value})
    return clock_offset().answer(Taken({f"time.{name}": one for name, one in taken.items()}))


def test_how_far_the_clock_is_off() -> None:
    assert clock() == -0.000012345
    assert clock(synchronised=False) is None, "its servers are lost, or it has none"
    assert clock(own_clock=True) is None, "it follows itself"


def test_a_daemon_that_does_not_run_gives_no_offset() -> None:
    silent = {"unread": "chronyc: exit 1: 506 Cannot talk to daemon"}
    readings = ("time.synchronised", "time.offset_s", "time.own_clock")
    assert clock_offset().answer(Taken(dict.fromkeys(readings, silent))) is None
