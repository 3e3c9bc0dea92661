"""Packages on this machine: real dpkg, and mostly a simulated apt-get that logs its calls."""

import hashlib
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from lockstep.facts.packages import PackageState, package_state
from lockstep.plan.driver import Driver
from lockstep.roles.operations.packages import SAY_UNBUILT, locked_packages
from tests.roles.local import asked as ask_this_machine
from tests.roles.local import has_loaded, on_node, read_below, run

pytestmark = pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="no dpkg here")

ABSENT = "lockstep-no-such-package"


def driver(*names: str) -> Driver:
    """A driver of these packages, for a kernel that is not the machine's own."""
    return Driver("1.0", dict.fromkeys(names, "1.0"))


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the double of apt-get and dpkg --configure writes its arguments."""
    log = tmp_path / "calls"
    log.touch()
    double = tmp_path / "bin" / "apt-get"
    double.parent.mkdir()
    # The lists know nothing of "unknown=...": the simulation fails, as apt-get's does.
    double.write_text(
        f'#!/bin/sh\necho "$LOCKSTEP_DEFER_START $*" >> {log}\n'
        'case "$*" in *--simulate*unknown=*) exit 100;; esac\n'
    )
    double.chmod(double.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{double.parent}:/usr/sbin:/usr/bin:/sbin:/bin")
    doubles_of(log, systemctl=f"echo $* >> {tmp_path}/systemctl")
    return log


def asked(calls: Path) -> list[str]:
    """What apt-get was asked for: its action and packages, without options."""
    said = []
    for line in calls.read_text().splitlines():
        words = line.replace(' -o DPkg::Pre-Install-Pkgs::=sh -c "$LOCKSTEP_JUDGE"', "").split(" ")
        plain = [w for w in words[1:] if not w.startswith("-") and "::" not in w]
        said.append(
            " ".join([("simulate " if "--simulate" in words else "") + plain[0], *plain[1:]])
        )
    return said


def asked_of_dpkg(*names: str) -> PackageState:
    return ask_this_machine(package_state(names))


def test_installed_versions_are_read_from_dpkg() -> None:
    state = asked_of_dpkg("dpkg", ABSENT)
    assert list(state.installed) == ["dpkg"]
    assert not state.interrupted


def test_packages_that_are_there_need_nothing(calls: Path) -> None:
    version = asked_of_dpkg("dpkg").installed["dpkg"]
    assert run(locked_packages, names=("dpkg",), versions={}).commands == 0
    assert run(locked_packages, names=("dpkg",), versions={"dpkg": version}).commands == 0
    assert asked(calls) == []


def test_a_missing_package_and_a_wrong_version_are_one_transaction(calls: Path) -> None:
    done = run(locked_packages, names=("dpkg", "tar", ABSENT), versions={"dpkg": "1.0"})
    assert done.succeeded
    assert asked(calls) == [
        f"simulate install dpkg=1.0 {ABSENT}",
        f"install dpkg=1.0 {ABSENT}",
    ]
    simulated, installed = calls.read_text().splitlines()
    assert installed.startswith("1 ")  # policy-rc.d keeps services from starting
    assert "--allow-downgrades" in installed
    assert "--no-install-recommends" in installed
    assert "-o DPkg::Lock::Timeout=600" in simulated


def test_the_lists_are_refreshed_only_when_they_do_not_know_the_version(calls: Path) -> None:
    run(locked_packages, names=("unknown",), versions={"unknown": "2.0"})
    assert asked(calls) == [
        "simulate install unknown=2.0",
        "update",
        "install unknown=2.0",
    ]


def test_a_dpkg_that_is_broken_is_no_machine_without_packages(calls: Path) -> None:
    """It ends with 1 as for a package that it does not know; then they would be installed."""
    double = calls.parent / "bin" / "dpkg-query"
    double.write_text("#!/bin/sh\necho dpkg-query: error: broken >&2\nexit 1\n")
    double.chmod(double.stat().st_mode | stat.S_IXUSR)
    assert not run(locked_packages, names=("coreutils",), versions={}).succeeded
    assert asked(calls) == []


def test_an_interrupted_dpkg_is_finished_first(calls: Path) -> None:
    programs = {
        "dpkg": f'echo "dpkg $*" >> {calls}',
        "dpkg-query": '/usr/bin/dpkg-query "$@"; echo "half amd64 1.0 iF "; echo "gone amd64  rc "',
    }
    for name, script in programs.items():
        double = calls.parent / "bin" / name
        double.write_text(f"#!/bin/sh\n{script}\n")
        double.chmod(double.stat().st_mode | stat.S_IXUSR)
    assert run(locked_packages, names=("tar",), versions={}).succeeded
    first, second = calls.read_text().splitlines()
    assert first.startswith("dpkg --configure -a")
    assert second.endswith("--fix-broken install")


def test_a_pattern_covers_every_revision_of_a_version(calls: Path) -> None:
    version = asked_of_dpkg("dpkg").installed["dpkg"]
    same = {"dpkg": f"{version[:3]}*"}
    assert run(locked_packages, names=("dpkg",), versions=same).commands == 0
    run(locked_packages, names=("dpkg",), versions={"dpkg": "0.1-*"})
    assert asked(calls)[-1] == "install dpkg=0.1-*"


def test_steady_packages_are_installed_but_never_changed(calls: Path) -> None:
    wanted = {"dpkg": "1.0", ABSENT: "1.0"}
    both = ("dpkg", ABSENT)
    run(locked_packages, names=both, versions={ABSENT: "1.0"}, driver=driver(*both))
    assert asked(calls)[-1] == f"install {ABSENT}=1.0"
    calls.write_text("")
    done = run(locked_packages, names=both, versions=wanted, driver=driver(*both))
    assert (done.succeeded, done.commands, asked(calls)) == (True, 0, []), "they go together"


def test_a_change_that_broke_is_left_to_the_rollout(calls: Path) -> None:
    """Configuring it would fail again, and fail the deploy of everything else."""
    doubles_of(
        calls,
        dpkg_query='echo "dpkg amd64 1.0 ii "; echo "tar amd64 2.0 iF "',
        dpkg=f'echo "1 dpkg $*" >> {calls}',
    )
    both = {"names": ("dpkg", "tar"), "versions": {"tar": "1.0"}}
    assert run(locked_packages, **both, driver=driver("dpkg", "tar")).commands == 0
    assert asked(calls) == []
    run(locked_packages, **both)
    assert asked(calls)[-1] == "install tar=1.0"
    assert asked(calls)[0].startswith("dpkg")


def test_a_transaction_that_fails_leaves_the_holds_in_place(calls: Path) -> None:
    doubles_of(
        calls,
        apt_get='case "$*" in *--simulate*) ;; *) exit 100;; esac',
        apt_mark=f'echo "1 apt-mark $*" >> {calls}',
    )
    both = (ABSENT, "tar")
    assert not run(locked_packages, names=both, versions={"tar": "2.0"}, held=both).succeeded
    assert calls.read_text() == "1 apt-mark hold tar\n", "what is not there needs no hold"
    assert (calls.parent / "systemctl").read_text() == "daemon-reload\n"


@pytest.mark.parametrize(("apt", "reload"), [("true", "false"), ("exit 100", "true")])
def test_a_transaction_fails_where_apt_or_systemd_does(calls: Path, apt: str, reload: str) -> None:
    doubles_of(calls, apt_get=f'case "$*" in *--simulate*) ;; *) {apt};; esac', systemctl=reload)
    assert not run(locked_packages, names=(ABSENT,), versions={}).succeeded


def doubles_of(calls: Path, **scripts: str) -> None:
    for name, script in scripts.items():
        double = calls.parent / "bin" / name.replace("_", "-")
        double.write_text(f"#!/bin/sh\n{script}\n")
        double.chmod(double.stat().st_mode | stat.S_IXUSR)


def test_what_is_held_is_held_once_and_changed_with_a_flag(calls: Path) -> None:
    doubles_of(calls, apt_mark=f'echo "1 apt-mark $*" >> {calls}')
    run(locked_packages, names=("tar",), versions={}, held=("tar",))
    assert calls.read_text() == "1 apt-mark hold tar\n"
    calls.write_text("")
    held = 'echo "tar amd64 1.0 hi "'
    doubles_of(calls, dpkg_query=held)
    assert run(locked_packages, names=("tar",), versions={}, held=("tar",)).commands == 0
    run(locked_packages, names=("tar",), versions={"tar": "2.0"}, held=("tar",))
    assert "--allow-change-held-packages" in calls.read_text()
    assert calls.read_text().endswith("apt-mark hold tar\n"), "apt-get forgets it"
    calls.write_text("")
    run(locked_packages, names=("tar",), versions={"tar": "2.0"})
    assert "--allow-change-held-packages" not in calls.read_text(), "a person's hold is theirs"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root of its own for the real apt-get and dpkg, and an archive with a driver for them."""
    root, debs = tmp_path / "root", tmp_path / "debs"
    for folder in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/apt/lists/partial"):
        (root / folder).mkdir(parents=True)
    for folder in ("var/cache/apt/archives/partial", "etc/apt/apt.conf.d", "var/log/apt"):
        (root / folder).mkdir(parents=True)
    (root / "etc/apt/preferences.d").mkdir()
    # The other one waits to be configured: that is no change of kernels.
    there = {"linux-image-8": "installed", "linux-image-7": "unpacked"}
    status = "\n".join(control(name, "1", status=status) for name, status in there.items())
    (root / "var/lib/dpkg/status").write_text(status)
    for name in there:
        (root / f"var/lib/dpkg/info/{name}.list").write_text("/.\n")
    index = ""
    for name, relations in DEBS.items():
        built = debs / name
        (built / "DEBIAN").mkdir(parents=True)
        (built / "DEBIAN/control").write_text(control(name, "1.0", relations))
        deb = debs / f"{name}.deb"
        subprocess.run(["dpkg-deb", "-b", built, deb], check=True, capture_output=True)
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()
        about = f"Filename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n"
        index += f"{control(name, '1.0', relations)}{about}\n"
    (debs / "Packages").write_text(index)
    (root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{debs} ./\n")
    (tmp_path / "apt.conf").write_text(
        f'Dir "{root}"; Dir::State::status "{root}/var/lib/dpkg/status"; APT::Sandbox::User "root";'
        f'DPkg::Options {{"--root={root}"; "--force-script-chrootless"; "--force-not-root";}}; '
        'Dir::Bin::dpkg "/usr/bin/dpkg"; Dir::Bin::Methods "/usr/lib/apt/methods";'
    )
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    (tmp_path / "bin").mkdir()
    doubles_of(tmp_path / "calls", systemctl="true")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return root


DEBS = {
    "lockstep-driver": "Depends: lockstep-library",
    "lockstep-library": "",
    "lockstep-brings": "Depends: linux-image-9",
    "lockstep-removes": "Conflicts: linux-image-8",
    "linux-image-9": "",
}


def control(name: str, version: str, relations: str = "", *, status: str = "") -> str:
    lines = [f"Package: {name}", *([f"Status: install ok {status}"] if status else [])]
    lines += [f"Version: {version}", "Architecture: all", "Maintainer: x <x@y>"]
    return "\n".join([*lines, *([relations] if relations else []), "Description: x", ""])


def installed(root: Path) -> set[str]:
    status = (root / "var/lib/dpkg/status").read_text()
    return set(re.findall("Package: (.*)\nStatus: .* ok installed", status))


@pytest.mark.parametrize(
    ("name", "kernel"),
    [("lockstep-brings", "linux-image-9"), ("lockstep-removes", "linux-image-8")],
)
def test_a_transaction_that_would_change_the_kernel_is_refused(
    archive: Path, name: str, kernel: str
) -> None:
    """By the real apt-get: what it asks, and that nothing was done before, is its own."""
    names = ("lockstep-driver", name)
    done = run(locked_packages, names=names, versions={}, held=(name,))
    assert not done.succeeded
    assert f"refused: this would change the kernel: {kernel}. Next: install" in done.output
    assert installed(archive) == {"linux-image-8"}
    assert run(locked_packages, names=names[:1], versions={}, held=names[:1]).succeeded
    driver = {"lockstep-driver", "lockstep-library"}
    assert installed(archive) == {"linux-image-7", "linux-image-8", *driver}
    assert run(locked_packages, names=(name,), versions={}).succeeded, "only for a driver's set"
    assert (kernel in installed(archive)) == (name == "lockstep-brings")


OPEN = Driver("1.0", {ABSENT: "1.0"}, "open", ("tar",))
HEADERS = "headers-{release}"


@pytest.fixture
def root(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is read as the root of this machine; its kernel has no module of the driver."""
    doubles_of(calls, modinfo="echo 'modinfo: ERROR: Module not found.' >&2; exit 1")
    read_below(monkeypatch, tmp_path / "root")
    on_node(monkeypatch, "os.uname().release", "'6.12.94'")
    return tmp_path / "root"


def says_kernel(root: Path, *, headers: bool, loaded: str) -> None:
    has_loaded(root, loaded, *(["nvidia"] if loaded else []))
    build = root / "lib/modules/6.12.94/build"
    shutil.rmtree(build, ignore_errors=True)
    if headers:
        build.mkdir(parents=True)


def test_headers_and_the_other_flavour_are_of_the_drivers_transaction(
    calls: Path, root: Path
) -> None:
    says_kernel(root, headers=False, loaded="")
    doubles_of(calls, apt_cache=f'echo "1 apt-cache $*" >> {calls}')
    done = run(
        locked_packages, names=(ABSENT,), versions={ABSENT: "1.0"}, driver=OPEN, headers=HEADERS
    )
    assert done.succeeded
    assert asked(calls)[-1] == f"install headers-6.12.94 {ABSENT}=1.0 tar-"
    assert "1 apt-cache show headers-6.12.94" in calls.read_text()


def test_the_other_flavour_goes_when_nothing_runs_on_it(calls: Path, root: Path) -> None:
    says_kernel(root, headers=True, loaded="1.0")
    done = run(
        locked_packages, names=(ABSENT,), versions={ABSENT: "1.0"}, driver=OPEN, headers=HEADERS
    )
    assert (done.succeeded, asked(calls)) == (True, [])
    says_kernel(root, headers=True, loaded="")
    run(locked_packages, names=("dpkg",), versions={}, driver=OPEN, headers=HEADERS)
    assert asked(calls)[-1] == "install tar-", "left beside the planned one"


def test_headers_that_no_archive_has_are_named_and_nothing_is_installed(
    calls: Path, root: Path
) -> None:
    says_kernel(root, headers=False, loaded="")
    doubles_of(calls, apt_cache="exit 100")
    done = run(locked_packages, names=(ABSENT,), versions={}, driver=OPEN, headers=HEADERS)
    assert not done.succeeded
    assert "no repository of this node has headers-6.12.94" in done.output
    assert "install" not in [said.split()[0] for said in asked(calls)]


def test_a_build_that_fails_is_named_with_its_kernel_and_its_log(tmp_path: Path) -> None:
    log = tmp_path / "dkms" / "nvidia-current-open" / "550.163.01" / "build" / "make.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        "DKMS (dkms-3.2.2) make.log for nvidia-current-open/550.163.01 for kernel 6.12.117 "
        "(x86_64)\nCFLAGS=-Wno-error\nnv-pci.c:239:9: error: too few arguments\n"
    )
    command = SAY_UNBUILT.replace("/var/lib/dkms", str(tmp_path / "dkms"))
    said = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert said.stderr == (
        "DKMS did not build nvidia-current-open/550.163.01 for kernel 6.12.117 (x86_64): "
        f"nv-pci.c:239:9: error: too few arguments. Full log: {log}\n"
    )


@pytest.mark.parametrize("joined", [True, False])
def test_only_the_upgrade_changes_packages_of_a_node_that_runs_pods(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joined: bool
) -> None:
    done = tmp_path / "done"
    if joined:
        done.touch()
    monkeypatch.setattr("lockstep.roles.operations.packages.DONE", str(done))
    versions = {"tar": "unknown", "gzip": "*"}
    ran = run(locked_packages, names=("gzip", "tar"), versions=versions, upgraded=("tar",))
    assert ran.succeeded
    assert bool(asked(calls)) is not joined
