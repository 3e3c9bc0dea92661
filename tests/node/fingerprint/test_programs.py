"""Files below /usr that are not as a package ships them."""

from __future__ import annotations

import hashlib
import os
import time

import pytest

from lockstep.node.fingerprint.entry import Entry
from lockstep.node.fingerprint.exempt import by_domain, without_exceptions
from lockstep.node.fingerprint.packages import EXCEPTIONS_OF_PROGRAMS
from lockstep.node.fingerprint.programs import read_programs
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Unread
from tests.node.fingerprint.conftest import Root

FILES = ("/usr/bin/tool", "/usr/lib/tool/data", "/usr/share/doc/tool/README")
CONTENT = b"\x7fELF tool"


@pytest.fixture
def debian(root: Root) -> Root:
    """One package, whose files are as shipped."""
    root.file("/usr/bin/tool", CONTENT, 0o755)
    root.file("/usr/lib/tool/data", b"data")
    root.link("/usr/lib/tool/link", "data")
    info = "/var/lib/dpkg/info/tool"
    # On merged systems a package may list the alias.
    folders = ["/.", "/usr", "/usr/bin", "/lib", "/usr/lib/tool", "/usr/share/doc/tool"]
    root.file(f"{info}.md5sums", "".join(
        f"{hashlib.md5(data).hexdigest()}  {path}\n"
        for path, data in (("usr/bin/tool", CONTENT), ("lib/tool/data", b"data"))
    ))  # fmt: skip
    root.file(f"{info}.postinst", "#!/bin/sh\nset -e\n", 0o755)
    root.file("/var/lib/dpkg/status", "")
    root.file("/var/lib/tool/data", "")
    root.file("/var/lib/other/data", "")
    folders += ["/var", "/var/lib/tool", "/var/lib/tool/data"]
    listed = [*folders, FILES[0], "/lib/tool/data", "/lib/tool/link", FILES[2]]
    root.file(f"{info}.list", "\n".join(listed) + "\n")
    time.sleep(0.02)  # the kernel's clock of files ticks every 4 to 10 ms (CONFIG_HZ)
    return root


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="files that are not root's are unusual")


@needs_root
def test_files_as_shipped_are_no_objects(debian: Root) -> None:
    """What images leave out is not missing."""
    found = debian.read(read_programs)
    assert set(found) <= {"scripts of tool", "/usr/lib", "/usr/share"}
    assert "/usr/share/doc/tool/README" not in found


@needs_root
@pytest.mark.parametrize(
    ("script", "name", "fields"),
    [
        ("printf X | dd of=usr/bin/tool conv=notrunc && touch -d @1 usr/bin/tool",
         "/usr/bin/tool", {"content", "shipped"}),
        ("chmod u+s usr/bin/tool", "/usr/bin/tool", {"mode"}),
        ("chmod a-x usr/bin/tool", "/usr/bin/tool", {"mode"}),
        ("chown 7 usr/lib/tool/data", "/usr/lib/tool/data", {"owner"}),
        ("rm usr/bin/tool", "/usr/bin/tool", {"package"}),
        ("ln -s tool usr/bin/alias", "/usr/bin/alias", {"target"}),
        ("cp usr/bin/tool usr/bin/burn", "/usr/bin/burn", {"content"}),
        ("mkdir -p usr/lib/modules", "/usr/lib/modules", {"package"}),
        ("chmod 777 usr/lib/tool", "/usr/lib/tool", {"mode"}),
        ("chmod 777 var/lib/tool var/lib/tool/data", "/var/lib/tool", {"mode", "package"}),
        ("chmod 777 var/lib/other", "/var/lib/other", {"mode"}),
        ("chown 7 var/lib/tool", "/var/lib/tool", {"owner"}),
        ("sed -i 's/-e/+e/' var/lib/dpkg/info/tool.postinst", "scripts of tool", {"postinst"}),
    ],
)  # fmt: skip
def test_a_change(debian: Root, script: str, name: str, fields: set[str]) -> None:
    before = debian.read(read_programs)
    assert os.system(f"cd {debian.path} && ({script}) 2>/dev/null") == 0
    changed = debian.changed(read_programs, before)
    assert set(changed) == {name}
    assert fields <= changed[name]


@needs_root
def test_folders_of_people_and_jobs_are_no_objects(debian: Root) -> None:
    debian.file("/var/tmp/first", "")
    debian.file("/var/file", "")
    assert os.system(f"cd {debian.path}/var/tmp && chmod 1777 . && mkdir -m 777 job7") == 0
    assert "/var/tmp/job7" not in debian.read(read_programs)


@needs_root
def test_a_file_that_was_written_again_is_no_object(debian: Root) -> None:
    before = debian.read(read_programs)
    debian.file("/usr/bin/tool", CONTENT, 0o755)
    assert debian.changed(read_programs, before) == {}


@needs_root
def test_a_diverted_file_belongs_to_its_package(debian: Root) -> None:
    debian.file("/var/lib/dpkg/diversions", "/usr/bin/tool\n/usr/bin/tool.distrib\nother\n")
    debian.at("/usr/bin/tool").rename(debian.at("/usr/bin/tool.distrib"))
    debian.file("/usr/bin/tool", "of nobody", 0o755)
    found = debian.read(read_programs)
    assert found["/usr/bin/tool"]["package"] == "none"
    assert found.get("/usr/bin/tool.distrib", {}).get("package") != "none"


def test_compiled_files_of_python_are_left_out(debian: Root) -> None:
    debian.file("/usr/lib/tool/__pycache__/x.pyc")
    assert not [name for name in debian.read(read_programs) if "__pycache__" in name]


def test_a_large_folder_of_software_is_one_sum(debian: Root) -> None:
    for number in range(501):
        debian.file(f"/opt/conda/lib/{number}")
    before = debian.read(read_programs)
    assert before["/opt/conda/lib"]["entries"] == "501"
    debian.file("/opt/conda/lib/7", "x")
    assert debian.changed(read_programs, before) == {"/opt/conda/lib": {"names, sizes and modes"}}


def test_a_node_without_packages_is_unread(root: Root) -> None:
    with pytest.raises(Unread):
        list(read_programs({}, Commands()))


@pytest.mark.parametrize(
    ("spared", "compared"),
    [
        ("/usr/lib/locale/locale-archive", "/usr/lib/locale/C.utf8/LC_CTYPE"),
        ("/usr/share/mime/mime.cache", "/usr/share/mime/packages/x.xml"),
        ("/usr/share/fonts/truetype/.uuid", "/usr/share/fonts/truetype/x.ttf"),
        ("/usr/lib/modules/6.1.0/updates/dkms/nvidia.ko.xz",
         "/usr/lib/modules/6.1.0/kernel/nvidia.ko.xz"),
        ("/usr/lib/sysimage/rpm/rpmdb.sqlite-wal", "/usr/lib/sysimage/other/file"),
    ],
)  # fmt: skip
def test_each_exception_spares_its_neighbour(spared: str, compared: str) -> None:
    table = by_domain(EXCEPTIONS_OF_PROGRAMS)
    fields = {"content": "x", "mode": "644"}
    assert without_exceptions("program", Entry(spared, fields), table) != fields
    assert without_exceptions("program", Entry(compared, fields), table) == fields
