"""Services, with a simulated systemctl that keeps its units in a folder."""

import os
import re
import resource
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lockstep.facts import services
from lockstep.facts.services import CLOCK_GRAIN_S, NotApplied, ServiceState, service_state
from lockstep.roles.operations.service import (
    _prlimit,
    cpus_applied,
    limits_applied,
    manager_configuration,
    service,
    sockets_listen,
)
from tests.roles.local import Done, asked, on_node, run

UNIT = "lockstep-unit-test.service"

SYSTEMCTL = """\
#!/bin/sh
# A double of systemctl(1) for one unit: its properties lie in files beside this program.
cd "$(dirname "$0")" || exit 1
now() {{ awk '{{printf "%.0f", $1 * 1000000}}' /proc/uptime; }}
case "$1" in
show)
    if [ "$2" = -p ]; then echo "UserspaceTimestampMonotonic=$(cat ActiveEnterTimestampMonotonic)"
    elif [ "$5" = --value ] || [ "$4" = InvocationID ]; then cat InvocationID
    else for p in ActiveState UnitFileState NeedDaemonReload ActiveEnterTimestampMonotonic \\
            InvocationID; do
        echo "$p=$(cat $p)"; done; echo SubState=; echo LoadState=loaded; echo MainPID=0; fi
    exit 0 ;;
is-active) grep -qx active ActiveState; exit ;;
daemon-reload) echo no > NeedDaemonReload ;;
status) echo "it broke"; exit 3 ;;
enable) echo enabled > UnitFileState ;;
start|restart)
    if [ "$2" = --no-block ]; then echo activating > ActiveState; echo "$*" >> calls; exit; fi
    if [ -e broken ]; then echo failed > ActiveState; exit 1; fi
    echo active > ActiveState; now > ActiveEnterTimestampMonotonic; date +%s%N > InvocationID ;;
esac
echo "$*" >> calls
"""


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The double's folder: an enabled unit that was started just now."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "systemctl"
    program.write_text(SYSTEMCTL.replace("{{", "{").replace("}}", "}"))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    values = {
        "ActiveState": "active",
        "UnitFileState": "enabled",
        "NeedDaemonReload": "no",
        "ActiveEnterTimestampMonotonic": str(int(uptime() * 1e6)),
        "InvocationID": "first",
    }
    for name, value in values.items():
        (folder / name).write_text(f"{value}\n")
    monkeypatch.setattr(services, "LOADED", str(tmp_path / "loaded"))
    on_node(monkeypatch, "/run/lockstep/loaded", str(tmp_path / "loaded"))
    return folder


def uptime() -> float:
    return float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])


def called(unit: Path) -> list[str]:
    calls = unit / "calls"
    said = calls.read_text().splitlines() if calls.exists() else []
    calls.unlink(missing_ok=True)
    return said


def written_before(unit: Path, *names: str) -> tuple[str, ...]:
    """Files that are older than the unit's start."""
    paths = [unit / name for name in names]
    for path in paths:
        path.write_text("x")
    # On a busy machine some time passes between the two clocks that the fact reads.
    time.sleep(10 * CLOCK_GRAIN_S)
    (unit / "ActiveEnterTimestampMonotonic").write_text(f"{int(uptime() * 1e6)}\n")
    return tuple(str(path) for path in paths)


def write_again(path: str) -> None:
    time.sleep(3 * CLOCK_GRAIN_S)
    Path(path).write_text("y")


def test_a_unit_that_runs_on_what_is_on_disk_is_left_alone(unit: Path) -> None:
    files = written_before(unit, "conf", "program")
    assert run(service, unit=UNIT, files=files, reload_files=files) == Done(True, 0, "")
    assert called(unit) == []


def test_a_file_newer_than_the_start_restarts_once(unit: Path) -> None:
    files = written_before(unit, "conf", "program")
    write_again(files[0])
    assert run(service, unit=UNIT, files=files).commands == 1
    assert called(unit) == [f"restart {UNIT}"]
    assert run(service, unit=UNIT, files=files).commands == 0


def test_a_file_that_can_be_read_again_reloads_once(unit: Path) -> None:
    files = written_before(unit, "program")
    rules = written_before(unit, "rules")
    write_again(rules[0])
    assert run(service, unit=UNIT, files=files, reload_files=rules).commands == 1
    assert called(unit) == [f"reload {UNIT}"]
    assert run(service, unit=UNIT, files=files, reload_files=rules).commands == 0
    write_again(rules[0])
    assert run(service, unit=UNIT, files=files, reload_files=rules).commands == 1


def test_a_restart_makes_a_reload_needless(unit: Path) -> None:
    files = written_before(unit, "program", "rules")
    write_again(files[0])
    write_again(files[1])
    run(service, unit=UNIT, files=files[:1], reload_files=files[1:])
    assert called(unit) == [f"restart {UNIT}"]
    assert run(service, unit=UNIT, files=files[:1], reload_files=files[1:]).commands == 0


def test_a_file_with_an_old_date_counts_by_when_it_came(unit: Path) -> None:
    """Packages bring programs with the date of their build: ctime counts, not mtime."""
    files = written_before(unit, "program")
    write_again(files[0])
    os.utime(files[0], (1, 1))
    assert run(service, unit=UNIT, files=files).commands == 1


@pytest.mark.parametrize("state", ["inactive", "failed", "deactivating"])
def test_a_unit_that_does_not_run_is_started(unit: Path, state: str) -> None:
    (unit / "ActiveState").write_text(f"{state}\n")
    assert run(service, unit=UNIT).succeeded
    assert called(unit) == [f"reset-failed {UNIT}", f"start {UNIT}"]
    assert run(service, unit=UNIT).commands == 0


def test_a_unit_that_is_not_waited_for_may_still_be_starting(unit: Path) -> None:
    (unit / "ActiveState").write_text("inactive\n")
    files = written_before(unit, "conf")
    assert run(service, unit=UNIT, files=files, wait=False).succeeded
    assert f"start --no-block {UNIT}" in called(unit)
    assert run(service, unit=UNIT, files=files, wait=False) == Done(True, 0, "")
    assert run(service, unit=UNIT, files=files).commands == 1
    assert f"start {UNIT}" in called(unit)


def test_a_unit_that_is_not_enabled_is_enabled_and_not_restarted(unit: Path) -> None:
    (unit / "UnitFileState").write_text("disabled\n")
    assert run(service, unit=UNIT).succeeded
    assert called(unit) == [f"enable {UNIT}"]


def test_a_changed_drop_in_is_read_before_the_restart(unit: Path) -> None:
    files = written_before(unit, "drop-in")
    write_again(files[0])
    (unit / "NeedDaemonReload").write_text("yes\n")
    run(service, unit=UNIT, files=files)
    assert called(unit) == ["daemon-reload", f"restart {UNIT}"]


def test_a_new_unit_is_enabled_and_started_by_one_command_with_one_reload(unit: Path) -> None:
    (unit / "UnitFileState").write_text("disabled\n")
    (unit / "ActiveState").write_text("inactive\n")
    (unit / "NeedDaemonReload").write_text("yes\n")
    assert run(service, unit=UNIT).commands == 1
    assert called(unit) == [
        f"enable --no-reload {UNIT}",
        "daemon-reload",
        f"reset-failed {UNIT}",
        f"start {UNIT}",
    ]


def test_a_unit_that_cannot_be_enabled_is_not_started(unit: Path) -> None:
    (unit / "UnitFileState").write_text("disabled\n")
    (unit / "ActiveState").write_text("inactive\n")
    program = unit / "systemctl"
    program.write_text(program.read_text().replace("enable)", "enable) exit 1 ;;\nreenable)"))
    assert not run(service, unit=UNIT).succeeded
    assert called(unit) == []


def test_a_file_that_is_not_there_is_no_reason(unit: Path) -> None:
    assert run(service, unit=UNIT, files=(str(unit / "absent"),)).commands == 0


def test_a_unit_that_cannot_start_fails_the_node(unit: Path) -> None:
    (unit / "ActiveState").write_text("failed\n")
    program = unit / "systemctl"
    program.write_text(program.read_text().replace("start|restart)", "start) exit 1 ;;\nrestart)"))
    assert not run(service, unit=UNIT).succeeded


@pytest.mark.parametrize("state", ["active", "inactive"])
def test_a_unit_that_a_condition_kept_from_starting_fails_the_node(unit: Path, state: str) -> None:
    """systemctl itself says that all is well then."""
    files = written_before(unit, "conf")
    write_again(files[0])
    (unit / "ActiveState").write_text(f"{state}\n")
    program = unit / "systemctl"
    program.write_text(program.read_text().replace("echo active >", "echo inactive >"))
    assert not run(service, unit=UNIT, files=files).succeeded


def test_systemd_reads_its_own_defaults_again_once(unit: Path) -> None:
    files = written_before(unit, "system.conf")
    assert run(manager_configuration, files=files).commands == 0
    write_again(files[0])
    assert run(manager_configuration, files=files).commands == 1
    assert called(unit) == ["daemon-reexec"]
    assert run(manager_configuration, files=files).commands == 0


def test_the_fact_reads_this_machine(unit: Path) -> None:
    assert asked(service_state(UNIT)) == ServiceState("active", "enabled", False, False, False)


def test_a_failure_of_a_nonessential_unit_is_reported_and_the_deploy_continues(
    unit: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (unit / "broken").touch()
    (unit / "ActiveState").write_text("failed\n")
    files = written_before(unit, "settings")
    assert not run(service, unit=UNIT, files=files).succeeded
    caplog.clear()
    assert run(service, unit=UNIT, files=files, essential=False).succeeded
    assert f"{UNIT} failed; the deploy goes on:" in caplog.text
    assert "it broke" in caplog.text
    assert not (Path(services.LOADED) / UNIT).exists(), "nothing was loaded"
    (unit / "broken").unlink()
    caplog.clear()
    assert run(service, unit=UNIT, files=files, essential=False).succeeded
    assert "failed" not in caplog.text
    assert run(service, unit=UNIT, files=files, essential=False).commands == 0


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Done]]:
    """A process that is the main process of a service; returns what applies settings to it."""
    with subprocess.Popen(["sleep", "300"]) as process:
        program = tmp_path / "systemctl"
        program.write_text(
            f'#!/bin/sh\n[ "$*" = "show --property=MainPID --value a.service" ] || exit 1\n'
            f"if [ -e {tmp_path}/ended ]; then echo 0; else echo {process.pid}; fi\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

        def applied(operation: Callable[..., Any], waiting: NotApplied) -> Done:
            monkeypatch.setattr("lockstep.roles.operations.service.ask", lambda _: waiting)
            return run(operation)

        applied.process = process.pid  # type: ignore[attr-defined]
        yield applied
        process.kill()


def test_limits_reach_a_running_service(daemon: Any, tmp_path: Path) -> None:
    hard = resource.prlimit(daemon.process, resource.RLIMIT_NOFILE)[1]
    waiting = NotApplied({}, {"a.service": {"NOFILE": ("99", str(hard)), "CORE": ("0", "0")}}, ())
    assert daemon(limits_applied, waiting).commands == 1
    assert resource.prlimit(daemon.process, resource.RLIMIT_NOFILE) == (99, hard)
    assert resource.prlimit(daemon.process, resource.RLIMIT_CORE) == (0, 0)
    (tmp_path / "ended").touch()
    assert daemon(limits_applied, waiting).succeeded, "a service that has ended is left alone"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes of others")
def test_limits_reach_a_service_of_another_user(daemon: Any) -> None:
    """Also in a container without CAP_SYS_RESOURCE, where root may not change them."""
    drop = "setpriv --bounding-set=-sys_resource --inh-caps=-sys_resource"
    with subprocess.Popen(["sleep", "300"], user=65534, group=65534, extra_groups=[]) as other:
        try:
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            script = f"p={other.pid}; {_prlimit(f'--nofile=99:{hard}')}"
            done = subprocess.run(
                [*drop.split(), "sh", "-ec", script], capture_output=True, text=True
            )
            assert (done.returncode, done.stderr) == (0, "")
            limits = Path(f"/proc/{other.pid}/limits").read_text()
            assert re.search(rf"^Max open files +99 +{hard} ", limits, re.MULTILINE)
        finally:
            other.kill()


def test_cpus_reach_a_running_service(daemon: Any) -> None:
    first = min(os.sched_getaffinity(0))
    assert daemon(cpus_applied, NotApplied({"a.service": str(first)}, {}, ())).commands == 1
    assert os.sched_getaffinity(daemon.process) == {first}


def test_nothing_is_run_if_every_setting_applies(daemon: Any) -> None:
    for operation in (limits_applied, cpus_applied, sockets_listen):
        assert daemon(operation, NotApplied({}, {}, ())).commands == 0


def test_a_socket_that_waits_is_started(unit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = NotApplied({}, {}, (UNIT,))
    monkeypatch.setattr("lockstep.roles.operations.service.ask", lambda _: waiting)
    assert run(sockets_listen).commands == 1
    assert called(unit) == [f"start {UNIT}"]
