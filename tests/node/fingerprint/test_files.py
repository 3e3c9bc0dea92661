"""Files, links and folders of configuration."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
import struct
from pathlib import Path

import pytest

from lockstep.node.fingerprint import attributes, places
from lockstep.node.fingerprint.entry import Entry, Secret
from lockstep.node.fingerprint.exempt import Exempt, by_domain, without_exceptions
from lockstep.node.fingerprint.files import read_files
from tests.node.fingerprint.conftest import Root


def status(path: str, content: str, package: str = "tool", flags: str = "") -> str:
    md5 = hashlib.md5(content.encode()).hexdigest()
    return (
        f"Package: {package}\nStatus: install ok installed\nArchitecture: all\nVersion: 1\n"
        f"Conffiles:\n {path} {md5}{flags}\nDescription: a tool\n\n"
    )


def owner() -> str:
    return f"{'me' if os.getuid() else 'root'}:{'us' if os.getgid() else 'root'}"


def test_a_file_a_link_and_a_folder(root: Root) -> None:
    root.file("/etc/profile", "umask 022\n")
    root.link("/etc/localtime", "/usr/share/zoneinfo/UTC")
    found = root.read(read_files)
    assert found["/etc/profile"] == {
        "type": "file", "mode": "644", "owner": owner(), "content": "umask 022\n",
    }  # fmt: skip
    assert found["/etc/localtime"] == {
        "type": "link", "owner": owner(), "target": "/usr/share/zoneinfo/UTC",
    }  # fmt: skip
    assert found["/etc"]["type"] == "folder"


@pytest.mark.parametrize(
    ("script", "fields"),
    [
        ("echo x >> etc/a", {"content"}),
        ("chmod 600 etc/a", {"mode"}),
        ("rm etc/a", {"type", "mode", "owner", "content"}),
        ("rm etc/a && ln -s b etc/a", {"type", "mode", "content", "target"}),
        ("rm etc/a && mkfifo etc/a", {"type", "content"}),
        ("mv etc/a etc/c && cp etc/c etc/a && rm etc/c && touch etc/a", set()),
        ("printf y | dd of=etc/a bs=1 seek=1 conv=notrunc && touch -d @1 etc/a", {"content"}),
    ],
)
def test_a_change_shows_on_the_file_alone(root: Root, script: str, fields: set[str]) -> None:
    root.file("/etc/a", "text\n")
    root.file("/etc/b", "text\n")
    before = root.read(read_files)
    assert os.system(f"cd {root.path} && ({script}) 2>/dev/null") == 0
    assert root.changed(read_files, before) == ({"/etc/a": fields} if fields else {})


def test_owners_are_compared_by_name(root: Root) -> None:
    root.file("/etc/a")
    before = root.read(read_files)
    root.file("/etc/group", f"root:x:0:\nothers:x:{os.getgid()}:\n")
    changed = root.changed(read_files, before)
    if os.getgid():
        assert changed["/etc/a"] == {"owner"}
    with open(root.at("/etc/passwd"), "a") as file:
        file.write("+::::::\n")  # an entry of NIS has no number
    root.read(read_files)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_an_owner_without_a_name_is_a_number(root: Root) -> None:
    root.file("/etc/a")
    before = root.read(read_files)
    os.chown(root.at("/etc/a"), 4711, 0)
    assert root.changed(read_files, before) == {"/etc/a": {"owner"}}
    assert root.read(read_files)["/etc/a"]["owner"] == "4711:root"


def test_what_not_everybody_may_read_is_secret(root: Root) -> None:
    root.file("/etc/sudoers", "root ALL\n", 0o440)
    root.file("/etc/closed/open", "key\n")
    root.at("/etc/closed").chmod(0o700)
    root.file("/etc/hosts", "::1 localhost\n")
    found = root.read(read_files)
    assert isinstance(found["/etc/sudoers"]["content"], Secret)
    assert isinstance(found["/etc/closed/open"]["content"], Secret)
    assert not isinstance(found["/etc/hosts"]["content"], Secret)


def test_a_conffile_says_whether_it_is_as_shipped(root: Root) -> None:
    root.file("/etc/tool.conf", "a = 1\n")
    root.file("/var/lib/dpkg/status", status("/etc/tool.conf", "a = 1\n"))
    before = root.read(read_files)
    assert before["/etc/tool.conf"]["package"] == "tool"
    assert before["/etc/tool.conf"]["shipped"] == "yes"
    root.file("/etc/tool.conf", "a = 2\n")
    assert root.changed(read_files, before) == {"/etc/tool.conf": {"content", "shipped"}}
    assert root.read(read_files)["/etc/tool.conf"]["shipped"] == "changed"
    root.at("/etc/tool.conf").unlink()
    assert root.read(read_files)["/etc/tool.conf"] == {
        "type": "absent", "package": "tool", "shipped": "removed",
    }  # fmt: skip


@pytest.mark.parametrize("flags", [" obsolete", " remove-on-upgrade"])
def test_a_file_that_is_no_longer_shipped_belongs_to_nobody(root: Root, flags: str) -> None:
    root.file("/var/lib/dpkg/status", status("/etc/tool.conf", "a\n", flags=flags))
    assert "/etc/tool.conf" not in root.read(read_files)
    root.file("/etc/tool.conf", "a\n")
    assert "package" not in root.read(read_files)["/etc/tool.conf"]


def test_a_large_file_is_read_at_its_ends(root: Root) -> None:
    root.file("/opt/tool/lib.so", b"a" * 100_000)
    before = root.read(read_files)
    assert before["/opt/tool/lib.so"]["content"].startswith("100000 bytes, ends: ")
    root.file("/opt/tool/lib.so", b"a" * 99_999 + b"b")
    assert root.changed(read_files, before) == {"/opt/tool/lib.so": {"content"}}


def test_a_file_of_etc_is_read_whole(root: Root) -> None:
    root.file("/etc/hwdb.bin", b"\0" * 1_000_000)
    before = root.read(read_files)
    root.file("/etc/hwdb.bin", b"\0" * 500_000 + b"\1" + b"\0" * 499_999)
    assert root.changed(read_files, before) == {"/etc/hwdb.bin": {"content"}}


def test_a_file_that_reports_no_size_is_read(root: Root) -> None:
    """Files of /proc, which somebody may mount over one of /etc."""
    with open("/proc/self/status", "rb") as file:
        found = attributes.read_open(file.fileno(), 0, 4 << 20, 4096)
    assert isinstance(found, bytes)
    assert found.startswith(b"Name:")


def test_files_of_packages_outside_etc_are_left_out(root: Root) -> None:
    root.file("/var/lib/dpkg/status", "")
    root.file("/var/lib/dpkg/info/cuda.list", "/.\n/opt\n/opt/cuda\n/opt/cuda/nvcc\n")
    root.file("/opt/cuda/nvcc")
    root.file("/opt/cuda/forgotten")
    found = root.read(read_files)
    assert {name for name in found if name.startswith("/opt")} == {"/opt", "/opt/cuda/forgotten"}


def test_a_large_folder_of_software_is_left_to_the_rare_domain(root: Root) -> None:
    for number in range(501):
        root.file(f"/opt/conda/lib/{number}")
    found = root.read(read_files)
    assert found["/opt/conda/lib"]["entries"] == "more than 500"
    assert "/opt/conda/lib/1" not in found
    assert "entries" not in found["/opt/conda"]


def test_only_settings_of_a_home_are_compared(root: Root) -> None:
    root.file("/etc/passwd", "root:x:0:0::/root:/bin/sh\nme:x:1000:7::/home/me:/bin/sh\n")
    settings = (".bashrc", ".ssh/config", ".local/bin/x", ".openmpi/mca-params.conf")
    for name in (*settings, ".bash_history", ".cache/x", "data"):
        root.file(f"/home/me/{name}")
    found = {name for name in root.read(read_files) if name.startswith("/home/me/")}
    assert found == {
        "/home/me/.bashrc", "/home/me/.ssh", "/home/me/.ssh/config", "/home/me/.local/bin",
        "/home/me/.local/bin/x", "/home/me/.openmpi", "/home/me/.openmpi/mca-params.conf",
    }  # fmt: skip


def test_a_home_of_another_machine_is_not_touched(root: Root) -> None:
    root.file("/etc/passwd", "me:x:1000:7::/home/me:/bin/sh\n")
    root.file("/home/me/.bashrc")
    assert "/home/me/.bashrc" in root.read(read_files)
    root.file("/proc/self/mounts", "server:/home /home nfs4 rw 0 0\n")
    assert "/home/me" not in root.read(read_files)


def test_a_far_file_system_below_a_place_is_not_entered(root: Root) -> None:
    root.file("/srv/data/x")
    root.file("/proc/self/mounts", "server:/x /srv/data lustre rw 0 0\n")
    assert "/srv/data" not in root.read(read_files)


@pytest.mark.parametrize(
    ("path", "varying", "text"),
    [
        ("/var/spool/cron/crontabs/me",
         "# DO NOT EDIT THIS FILE\n# (/tmp/x installed on Tue 10:0{})\n", "@daily job\n# (a)\n"),
        ("/etc/NetworkManager/system-connections/eth0.nmconnection", "uuid=12{}\n", "id=eth0\n"),
        ("/etc/sysconfig/network-scripts/ifcfg-eth0", "UUID=12{}\n", "DEVICE=eth0\n"),
    ],
)  # fmt: skip
def test_lines_that_equal_nodes_do_not_share(
    root: Root, path: str, varying: str, text: str
) -> None:
    for number in (1, 2):
        root.file(path, varying.format(number) + text, 0o600)
        assert root.read(read_files)[path]["content"] == text


def test_such_lines_of_other_files_are_compared(root: Root) -> None:
    root.file("/etc/uuid.conf", "uuid=1\n")
    assert root.read(read_files)["/etc/uuid.conf"]["content"] == "uuid=1\n"


def test_a_place_that_is_a_link(root: Root) -> None:
    root.file("/data/x")
    root.link("/srv", "/data")
    found = root.read(read_files)
    assert found["/srv"]["target"] == "/data"
    assert "/srv/x" not in found


def test_a_place_of_another_machine_is_not_touched(root: Root) -> None:
    root.file("/opt/tool")
    root.file("/proc/self/mounts", "server:/opt /opt nfs4 rw 0 0\n")
    assert "/opt" not in root.read(read_files)


def test_a_conffile_that_became_a_link(root: Root) -> None:
    root.file("/var/lib/dpkg/status", status("/etc/tool.conf", "a\n"))
    root.link("/etc/tool.conf", "/dev/null")
    found = root.read(read_files)["/etc/tool.conf"]
    assert (found["target"], found["package"], found["shipped"]) == ("/dev/null", "tool", "changed")


def test_the_link_to_a_certificate_that_each_node_makes_is_left_out(root: Root) -> None:
    root.link("/etc/ssl/certs/1a2b3c4d.0", "ssl-cert-snakeoil.pem")
    root.link("/etc/ssl/certs/5e6f7a8b.0", "other.pem")
    found = root.read(read_files)
    assert "/etc/ssl/certs/1a2b3c4d.0" not in found
    assert "/etc/ssl/certs/5e6f7a8b.0" in found


def test_capabilities_are_text() -> None:
    value = struct.pack("<5I", 0x02000001, 1 << 13 | 1 << 10, 0, 1 << (39 - 32), 0)
    assert attributes.capabilities(value) == "cap_bpf=ep,cap_net_bind_service=ep,cap_net_raw=ep"
    assert attributes.capabilities(value + struct.pack("<I", 1000)).endswith(" of root 1000")
    assert attributes.capabilities(b"x") == "78"


def test_an_access_control_list_is_text(root: Root) -> None:
    root.file("/etc/passwd", "ops:x:1000:7::/:/bin/sh\n")
    attributes.forget_names()
    value = struct.pack("<IHHIHHIHHI", 2, 1, 6, 2**32 - 1, 2, 6, 1000, 32, 4, 2**32 - 1)
    assert attributes.acl(value) == "other::r--,user::rw-,user:ops:rw-"
    assert attributes.acl(b"x") == "78"


def test_extended_attributes_are_fields(root: Root) -> None:
    root.file("/etc/a")
    before = root.read(read_files)
    try:
        os.setxattr(root.at("/etc/a"), "user.note", b"hello")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    assert root.changed(read_files, before) == {"/etc/a": {"xattr user.note"}}
    assert root.read(read_files)["/etc/a"]["xattr user.note"] == "hello"


def test_flags_are_letters(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.file("/etc/a")
    before = root.read(read_files)

    def answer(file: int, request: int, value: bytes) -> bytes:
        name = Path(os.readlink(f"/proc/self/fd/{file}")).name
        return (0x80010 if name == "a" else 0x80000).to_bytes(8, "little")

    monkeypatch.setattr(fcntl, "ioctl", answer)
    assert root.changed(read_files, before) == {"/etc/a": {"flags"}}
    assert root.read(read_files)["/etc/a"]["flags"] == "i"


def test_a_name_that_is_no_text_is_read(root: Root) -> None:
    (root.path / "etc").mkdir(exist_ok=True)
    with open(os.fsencode(root.path) + b"/etc/\xff", "wb") as file:
        file.write(b"\xff")
    found = root.read(read_files)
    assert found[os.fsdecode(b"/etc/\xff")]["content"].startswith("1 bytes, BLAKE2b")


def test_a_place_that_is_missing_is_no_object(root: Root) -> None:
    shutil.rmtree(root.at("/etc"))
    assert "/etc" not in root.read(read_files)


def test_the_highest_folders_are_compared_without_their_data(root: Root) -> None:
    root.file("/data/site.conf")
    root.file("/var/opt/site/table")
    root.file("/var/tmp/x")
    root.file("/swapfile", "pages", 0o600)
    root.link("/bin", "usr/bin")
    root.at("/var/tmp").chmod(0o1777)
    found = root.read(read_files)
    assert found["/data"]["type"] == found["/var/opt/site"]["type"] == "folder"
    assert found["/var/tmp"]["mode"] == "1777"
    assert found["/swapfile"] == {"type": "file", "mode": "600", "owner": owner()}
    assert found["/bin"]["target"] == "usr/bin"
    assert not found.keys() & {"/data/site.conf", "/var/opt/site/table", "/var/tmp/x"}


def test_a_far_file_system_at_the_top_is_not_touched(root: Root) -> None:
    root.file("/home/x")
    root.file("/proc/self/mounts", "server:/home /home nfs4 rw 0 0\n")
    found = root.read(read_files)
    assert "/var" in found or "/proc" in found
    assert "/home" not in found


def test_devices_that_everybody_opens_are_compared(root: Root) -> None:
    root.file("/dev/nvidia3", "", 0o600)
    root.file("/dev/infiniband/uverbs0", "", 0o666)
    root.file("/dev/sda", "", 0o660)
    root.file("/dev/nvidia-uvm", "", 0o666)
    found = root.read(read_files)
    assert found["/dev/nvidia3"]["mode"] == "600"
    assert found["/dev/infiniband/uverbs0"]["mode"] == "666"
    assert not found.keys() & {"/dev/sda", "/dev/nvidia-uvm"}


def test_the_number_of_a_device_is_not_compared(root: Root) -> None:
    name = "/dev/infiniband/rdma_cm"
    root.at(name).parent.mkdir(parents=True)
    os.mknod(root.at(name), stat.S_IFCHR | 0o600, os.makedev(0, 0))  # everybody may make 0:0
    root.at(name).chmod(0o666)
    assert root.read(read_files)[name] == {
        "type": "character device", "mode": "666", "owner": owner(),
    }  # fmt: skip


def test_devices_of_container_engines_until_the_next_boot_are_compared(root: Root) -> None:
    root.file("/run/cdi/site.yaml", "kind: x/y\n")
    assert root.read(read_files)["/run/cdi/site.yaml"]["content"] == "kind: x/y\n"


@pytest.mark.parametrize("row", places.EXCEPTIONS_OF_FILES, ids=lambda row: str(row.object))
def test_each_exception_spares_its_neighbour(root: Root, row: Exempt) -> None:
    examples = (
        "/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/subuid", "/etc/subgid",
        "/etc/ssh/ssh_host_ed25519_key", "/etc/adjtime", "/etc/ld.so.cache", "/etc/.updated",
        "/etc/docker/key.json", "/etc/hostid", "/etc/zfs/zpool.cache", "/etc/multipath/wwids",
        "/etc/lvm/backup/vg0", "/etc/lvm/devices/system.devices",
        "/etc/ssl/private/ssl-cert-snakeoil.key", "/etc/ssl/certs/java/cacerts",
        "/etc/pki/consumer/cert.pem", "/etc/insights-client/machine-id",
        "/etc/popularity-contest.conf", "/boot/initrd.img-6.1.0", "/boot/grub/grubenv",
        "/etc/.pwd.lock", "/etc/passwd-", "/etc/lvm/archive/vg0_00001-123.vg",
        "/etc/pki/entitlement/123-key.pem", "/boot/efi/0123/6.1.0/initrd", "/etc/krb5.keytab",
        "/etc/dhcpcd.duid", "/vmlinuz.old", "/run/cdi/nvidia.yaml",
        "/run/cdi/k8s.device-plugin.nvidia.com-gpu.json",
        "/boot/loader/random-seed", "/etc/pki/tls/private/localhost.key",
        "/etc/salt/pki/minion/minion.pem", "/etc/iscsi/initiatorname.iscsi",
        "/etc/containers/networks", "/etc/nvidia-imex/nodes_config.cfg",
        "/etc/lockstep/pod-routes", "/etc/kubernetes/manifests/etcd.yaml",
        "/etc/kubernetes/pki/apiserver-kubelet-client.key", "/etc/kubernetes/admin.conf",
        "/home/me/.docker/.token_seed",
        "/usr/local/lib/site/__pycache__/a.cpython-313.pyc",
        "/root/.ssh/known_hosts", "/var/spool/cron/.SEQ", "/slurm-12_3.out",
    )  # fmt: skip
    table = by_domain([row])
    spared = [
        name
        for name in examples
        if without_exceptions("file", a_file(name), table) != a_file(name).fields
    ]
    assert spared, "no example needs this exception"
    for name in spared:
        for neighbour in (f"{name}.d", f"{name}x/y", f"{os.path.dirname(name)}/other"):
            entry = a_file(neighbour)
            if "/lvm/backup/" not in neighbour and "initrd" not in neighbour:
                assert without_exceptions("file", entry, table) == entry.fields


def a_file(name: str) -> Entry:
    return Entry(name, {"content": "x", "mode": "644"})
