"""Packages that the real rpm builds and installs; files are changed, and domains read them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from typing_extensions import override

from lockstep.checks.fingerprint.decide import By, verdict
from lockstep.checks.fingerprint.objects import Difference, Side
from lockstep.checks.fingerprint.places import Place
from lockstep.node.fingerprint import rpm
from lockstep.node.fingerprint.entry import Fields
from lockstep.node.fingerprint.files import read_files
from lockstep.node.fingerprint.packages import read_packages
from lockstep.node.fingerprint.programs import read_programs
from lockstep.node.fingerprint.slow import signature
from lockstep.node.readers import commands
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Unread
from tests.node.fingerprint.conftest import Root

RPM, BUILD = (shutil.which(name) for name in ("rpm", "rpmbuild"))
pytestmark = [
    pytest.mark.skipif(RPM is None or BUILD is None, reason="needs rpm and rpmbuild (package rpm)"),
    pytest.mark.skipif(os.getuid() != 0, reason="only root installs packages"),
]
HEAD = """
Name: {name}
Version: 1
Release: {release}
Summary: for a test
License: MIT
BuildArch: noarch
AutoReqProv: no
%description
For a test.
"""
TOOL = """
%install
cd %{buildroot}
mkdir -p usr/bin usr/lib/tool usr/share/doc/tool etc
echo program > usr/bin/tool
echo program > usr/bin/ping
echo data > usr/lib/tool/data
echo data > usr/lib/tool/own
echo data > usr/lib/tool/optional
ln -s tool usr/bin/alias
touch usr/lib/tool/cache
echo text > usr/share/doc/tool/README
echo 'limit 1' > etc/tool.conf
echo 'name with a space' > 'etc/tool of a.conf'
touch etc/tool.state
%files
%dir /usr/bin
%dir /usr/lib
%dir /usr/lib/tool
%attr(4755,root,root) /usr/bin/tool
%attr(0755,root,root) %caps(cap_net_raw,cap_net_admin+ep) /usr/bin/ping
/usr/bin/alias
/usr/lib/tool/data
%verify(not md5 size mtime) /usr/lib/tool/own
%config(missingok) /usr/lib/tool/optional
%ghost /usr/lib/tool/cache
%doc /usr/share/doc/tool/README
%config(noreplace) /etc/tool.conf
%config(noreplace) "/etc/tool of a.conf"
%ghost %config /etc/tool.state
"""
OTHER = """
%install
mkdir -p %{buildroot}/usr/lib/tool
echo other > %{buildroot}/usr/lib/tool/more
%files
%dir %attr(0700,root,root) /usr/lib/tool
/usr/lib/tool/more
"""
EMPTY = "%files\n"
DATABASE = "/var/lib/rpm"
MINUTE = 60 * 10**9


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The packages by name."""
    folder = tmp_path_factory.mktemp("rpm")
    made = {}
    for name, release, text in (
        ("tool", 1, TOOL), ("other", 1, OTHER), ("empty", 1, EMPTY), ("empty", 2, EMPTY),
    ):  # fmt: skip
        spec = folder / f"{name}{release}.spec"
        spec.write_text(HEAD.format(name=name, release=release) + text)
        subprocess.run(
            [str(BUILD), "-bb", "--quiet", "--define", f"_topdir {folder}", str(spec)],
            check=True,
            capture_output=True,
        )
        found = folder / f"RPMS/noarch/{name}-1-{release}.noarch.rpm"
        made[name if release == 1 else f"{name}-{release}"] = found
    return made


@pytest.fixture
def node(root: Root, packages: dict[str, Path], tmp_path: Path) -> Root:
    """A node on which two packages are installed."""
    tool = tmp_path / "bin" / "rpm"
    tool.parent.mkdir()
    tool.write_text(
        f'#!/bin/sh\nexec {RPM} --root {root.path} --dbpath {DATABASE} "$@" 2>{tmp_path}/said\n'
    )
    tool.chmod(0o755)
    install(root, packages, "tool", "empty")
    return root


def install(root: Root, packages: dict[str, Path], *names: str) -> None:
    files = [str(packages[name]) for name in names]
    asked = ["-i", "--nodeps", "--excludedocs", "--replacefiles", *files]
    subprocess.run([f"{commands.PATH}/rpm", *asked], check=True, capture_output=True)


def decided(before: dict[str, Fields], after: dict[str, Fields], name: str, domain: str) -> By:
    """Return who says that the first node is right."""
    sides = tuple(Side((node,), fields.get(name)) for node, fields in (("a", before), ("b", after)))
    judged = verdict(Difference(domain, name, sides, Place(domain, name, (("a",), ("b",)))))
    assert judged.right in (None, sides[0])
    return judged.by


def verified(name: str) -> bool:
    """Return whether ``rpm -V`` has no complaint about a file."""
    asked = ["-Va", "--nomtime", "--noscripts", "--nodeps"]
    done = subprocess.run([f"{commands.PATH}/rpm", *asked], capture_output=True, text=True)
    assert done.returncode in (0, 1)
    return name not in {line.rpartition(" ")[2] for line in done.stdout.splitlines()}


def test_files_as_installed_are_no_objects(node: Root) -> None:
    """Documentation that was not installed, and what no package describes, are not missing."""
    found = node.read(read_programs)
    assert found == {}


def all_look_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all files be later than their packages, so that no test has to wait."""
    monkeypatch.setattr(rpm, "UNPACKING_S", -1000)
    monkeypatch.setattr(rpm, "PAUSE_NS", 0)


@pytest.mark.parametrize(
    ("script", "name", "shipped"),
    [
        ("echo changed > usr/bin/tool", "/usr/bin/tool", "content sha256 "),
        # As long as before, and with its old time: only the ctime is another.
        ("touch -r usr/bin/tool t; chmod u-s usr/bin/tool;"
         "printf P | dd of=usr/bin/tool conv=notrunc; chmod 4755 usr/bin/tool;"
         "touch -r t usr/bin/tool", "/usr/bin/tool", "content sha256 "),
        ("chmod u-s usr/bin/tool", "/usr/bin/tool", "mode 4755"),
        ("chown 7 usr/lib/tool/data", "/usr/lib/tool/data", "owner root:root"),
        ("setfattr -x security.capability usr/bin/ping", "/usr/bin/ping", "capabilities cap_net"),
        ("rm usr/bin/tool", "/usr/bin/tool", ""),
        ("ln -sf ping usr/bin/alias", "/usr/bin/alias", "target tool"),
        ("rm usr/lib/tool/data; mkdir usr/lib/tool/data", "/usr/lib/tool/data", "type -rw-r--r--"),
        ("chmod 777 usr/lib/tool", "/usr/lib/tool", "mode 755"),
    ],
)  # fmt: skip
def test_a_change_that_the_package_decides(
    node: Root, monkeypatch: pytest.MonkeyPatch, script: str, name: str, shipped: str
) -> None:
    all_look_changed(monkeypatch)
    before = node.read(read_programs)
    if "setfattr" in script:
        os.removexattr(node.at(name), "security.capability")
    else:
        subprocess.run(["sh", "-ec", script], cwd=node.path, check=True, capture_output=True)
    after = node.read(read_programs)
    assert after.keys() - before.keys() == {name}
    assert after[name]["package"] == "tool.noarch"
    assert after[name].get("shipped", "").startswith(shipped)
    assert decided(before, after, name, "program") is By.PACKAGE
    assert not verified(name)


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("touch usr/bin/tool", "/usr/bin/tool"),
        ("cp -p usr/bin/tool t; cat t >usr/bin/tool; chmod 4755 usr/bin/tool", "/usr/bin/tool"),
        ("echo computed > usr/lib/tool/cache", "/usr/lib/tool/cache"),
        ("echo computed > usr/lib/tool/own", "/usr/lib/tool/own"),
        ("rm usr/lib/tool/optional", "/usr/lib/tool/optional"),
    ],
)
def test_what_the_package_leaves_open_is_no_object(node: Root, script: str, name: str) -> None:
    before = node.read(read_programs)
    subprocess.run(["sh", "-ec", script], cwd=node.path, check=True)
    assert node.changed(read_programs, before) == {}
    assert verified(name)


def test_what_no_package_owns(node: Root) -> None:
    node.file("/usr/bin/forgotten", "x", 0o755)
    found = node.read(read_programs)
    assert found["/usr/bin/forgotten"]["package"] == "none"


def test_of_two_packages_the_one_that_replaced_the_other_decides(
    node: Root, packages: dict[str, Path]
) -> None:
    install(node, packages, "other")
    assert "/usr/lib/tool" not in node.read(read_programs)
    node.at("/usr/lib/tool").chmod(0o755)  # as in the first package
    found = node.read(read_programs)["/usr/lib/tool"]
    assert (found["package"], found["shipped"]) == ("other.noarch", "mode 700")


class Answering(Commands):
    """Commands whose answer is given."""

    def __init__(self, answer: str) -> None:
        super().__init__()
        self.answer = answer

    @override
    def run(self, *argv: str, text: str = "", user: str = "") -> str:
        return self.answer


ARCHITECTURES = ("i686", "x86_64")


@pytest.mark.parametrize("order", [ARCHITECTURES, ARCHITECTURES[::-1]])
def test_a_file_of_two_architectures_is_the_same_in_any_order(order: tuple[str, ...]) -> None:
    dumped = "".join(
        f"package\tpam.{one}\t0:1-1\n/etc/pam.conf 5 1 {'ab' * 32} 0100644 root root 1 0 0 X\n"
        for one in order
    )
    rpm.installed_packages.cache_clear()
    found = rpm.installed_packages(Answering(dumped))
    assert found.conffiles["/etc/pam.conf"].package == "pam.i686"
    listed = "".join(
        f"pam.{one}\t1\t0\t0\t0\t33188\troot:root\t5\t1\t{'ab' * 32}\t(none)\t\t/usr/share/pam\n"
        for one in order
    )
    database = rpm.Database(Answering(listed), ("/usr/",))
    assert database.packages() == {"/usr/share/pam": "pam.i686"}
    assert [one.package for one in database.files("/usr/share/pam")] == ["pam.i686", "pam.x86_64"]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose digest was computed."""
    found: list[str] = []
    digest = rpm.digest_of

    def noted(file: int, name: str = "md5") -> str:
        found.append(os.path.basename(os.readlink(f"/proc/self/fd/{file}")))
        return digest(file, name)

    monkeypatch.setattr(rpm, "digest_of", noted)
    return found


def test_only_what_changed_after_its_package_is_read(node: Root, opened: list[str]) -> None:
    node.read(read_programs)
    assert opened == []
    os.utime(node.at("/usr/lib/tool/data"))
    node.read(read_programs)
    assert opened == ["data"]


def test_a_tree_that_was_copied_is_not_read_again(
    node: Root, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpm, "UNPACKING_S", -1000)
    node.read(read_programs)
    assert opened == []


@pytest.mark.parametrize(
    ("files", "latest"),
    [
        (5, 12 * MINUTE),  # most are late: the tree was copied until then
        (8, 0),
    ],
)
def test_what_changed_after_a_copy_shows(files: int, latest: int) -> None:
    late = [10 * MINUTE, 12 * MINUTE, 11 * MINUTE, 90 * MINUTE]
    assert rpm.copied(late, files) == latest


def test_a_changed_file_of_configuration(node: Root) -> None:
    before = node.read(read_files)
    for name in ("/etc/tool.conf", "/etc/tool of a.conf"):
        assert before[name]["package"] == "tool.noarch"
        assert before[name]["shipped"] == "yes"
    node.file("/etc/tool.conf", "limit 2\n")
    node.at("/etc/tool of a.conf").unlink()
    after = node.read(read_files)
    assert after["/etc/tool.conf"]["shipped"] == "changed"
    assert after["/etc/tool of a.conf"]["type"] == "absent"
    for name in ("/etc/tool.conf", "/etc/tool of a.conf"):
        assert decided(before, after, name, "file") is By.PACKAGE
    assert "package" not in after.get("/etc/tool.state", {})  # the package has no content for it


def test_packages_and_their_files_are_asked_for_once(node: Root, packages: dict[str, Path]) -> None:
    install(node, packages, "empty-2")
    asked = Commands()
    found = {entry.name: entry.fields for entry in read_packages({}, asked)}
    assert found["tool.noarch"] == {"version": "0:1-1", "status": "installed"}
    assert found["empty.noarch"]["version"] == "0:1-1, 0:1-2"
    list(read_files({}, asked))
    assert len(asked.ran) == 1


def test_a_query_does_not_make_the_domain_due_and_a_transaction_does(
    node: Root, packages: dict[str, Path]
) -> None:
    before = signature("program")
    assert [path for path, *_ in before if path.startswith(DATABASE)]
    node.read(read_packages)
    node.read(read_programs)
    assert signature("program") == before
    install(node, packages, "other")
    rpm_files = [one for one in signature("program") if one[0].startswith(DATABASE)]
    assert [one for one in rpm_files if one in before] == []


def test_a_database_that_cannot_be_read_is_unread(node: Root) -> None:
    node.at(f"{DATABASE}/rpmdb.sqlite").write_bytes(b"damaged" * 999)
    for read in (read_programs, read_files, read_packages):
        with pytest.raises(Unread):
            node.read(read)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("cap_net_admin,cap_net_raw=ep", "cap_net_admin=ep,cap_net_raw=ep"),
        ("= cap_net_raw+ep", "cap_net_raw=ep"),
        ("cap_net_raw=eip cap_net_raw-i", "cap_net_raw=ep"),
        ("", ""),
    ],
)
def test_capabilities_as_packages_write_them(text: str, wanted: str) -> None:
    assert rpm.capabilities_of(text) == wanted
