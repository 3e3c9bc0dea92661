"""Local users and groups."""

from __future__ import annotations

import pytest

from lockstep.node.fingerprint.accounts import read_groups, read_users
from lockstep.node.fingerprint.entry import Secret
from lockstep.node.fingerprint.leftovers import REMOVED, deleted
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Unread
from tests.node.fingerprint.conftest import Root

PASSWD = (
    "root:x:0:0:root:/root:/bin/bash\nops:x:1000:1000::/home/ops:/bin/sh\nmunge:x:101:103::/:/n"
)
SHADOW = "root:*:20000:0:99999:7:::\nops:$6$a$b:20000:0:99999:7:::\nmunge:!:20000::::::"
GROUP = "root:x:0:\nops:x:1000:\nmunge:x:103:\nvideo:x:44:ops,munge"
GSHADOW = "root:*::\nops:!::\nmunge:!::\nvideo:*::ops,munge"


@pytest.fixture
def accounts(root: Root) -> Root:
    for name, text in (("passwd", PASSWD), ("shadow", SHADOW), ("group", GROUP),
                       ("gshadow", GSHADOW), ("subuid", "ops:100000:65536")):  # fmt: skip
        root.file(f"/etc/{name}", f"{text}\n")
    return root


def test_a_user(accounts: Root) -> None:
    found = accounts.read(read_users)
    secret = found["ops"].pop("password hash")
    assert isinstance(secret, Secret)
    assert found["ops"] == {
        "uid": "1000", "group": "ops", "comment": "", "home": "/home/ops", "shell": "/bin/sh",
        "password": "set", "minimum age": "0", "maximum age": "99999", "warning": "7",
        "subuid": "100000:65536",
    }  # fmt: skip
    assert found["root"]["password"] == found["munge"]["password"] == "none"


def test_a_group(accounts: Root) -> None:
    found = accounts.read(read_groups)
    assert found["video"] == {"gid": "44", "members": "munge, ops", "password": "none"}


@pytest.mark.parametrize(
    ("name", "old", "new", "fields"),
    [
        ("passwd", "/bin/sh", "/bin/zsh", {"shell"}),
        ("passwd", "/home/ops", "/srv/ops", {"home"}),
        ("passwd", "ops:x:1000:", "ops:x:1001:", {"uid"}),
        ("passwd", "1000:1000:", "1000:44:", {"group"}),
        ("passwd", "1000::", "1000:Operators:", {"comment"}),
        ("passwd", "ops:x:", "ops::", {"password in passwd"}),
        ("shadow", "$6$a$b", "$6$a$c", {"password hash"}),
        ("shadow", "$6$a$b", "!$6$a$b", {"password hash", "password"}),
        ("shadow", "ops:$6$a$b", "ops:", {"password hash", "password"}),
        ("shadow", "$6$a$b:20000:0:", "$6$a$b:20000:1:", {"minimum age"}),
        ("shadow", "$6$a$b:20000:0:99999:7::", "$6$a$b:20000:0:99999:7::22000", {"expires"}),
        ("subuid", "65536", "65537", {"subuid"}),
        # What equal nodes do not share.
        ("shadow", "$6$a$b:20000:", "$6$a$b:20001:", set()),
        ("passwd", "munge:x:101:", "munge:x:105:", set()),
    ],
)
def test_a_change_of_a_user(
    accounts: Root, name: str, old: str, new: str, fields: set[str]
) -> None:
    before = accounts.read(read_users)
    path = accounts.at(f"/etc/{name}")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert accounts.changed(read_users, before) == ({"ops": fields} if fields else {})


@pytest.mark.parametrize(
    ("name", "old", "new", "fields"),
    [
        ("group", "ops,munge", "ops", {"members", "members in gshadow"}),
        ("group", "video:x:44:", "video:x:45:", {"gid"}),
        ("gshadow", "video:*:", "video:$6$x:", {"password", "password hash"}),
        ("gshadow", "video:*::", "video:*:ops:", {"administrators"}),
        ("gshadow", "::ops,munge", "::ops", {"members in gshadow"}),
        # The order has no meaning, and packages get their numbers in turn.
        ("group", "ops,munge", "munge,ops", set()),
        ("group", "munge:x:103:", "munge:x:104:", set()),
    ],
)
def test_a_change_of_a_group(
    accounts: Root, name: str, old: str, new: str, fields: set[str]
) -> None:
    before = accounts.read(read_groups)
    path = accounts.at(f"/etc/{name}")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert accounts.changed(read_groups, before) == ({"video": fields} if fields else {})


def test_the_order_of_lines_has_no_meaning(accounts: Root) -> None:
    before = accounts.read(read_users)
    lines = accounts.at("/etc/passwd").read_text().splitlines()
    accounts.file("/etc/passwd", "\n".join(reversed(lines)) + "\n")
    assert accounts.changed(read_users, before) == {}


def test_what_a_removed_user_left_is_an_object(accounts: Root) -> None:
    accounts.file("/etc/subuid", "gone:200000:65536\nops:100000:65536\n")
    accounts.file("/etc/shadow", f"{SHADOW}\nold:!:1::::::\n")
    found = accounts.read(read_users)
    assert found["gone"] == {"uid": "not in /etc/passwd", "subuid": "200000:65536"}
    assert found["old"] == {"uid": "not in /etc/passwd"}
    accounts.file("/etc/gshadow", f"{GSHADOW}\nold:!::\n")
    assert accounts.read(read_groups)["old"] == {"gid": "not in /etc/group"}


def test_subordinate_ranges_by_number_are_the_users(accounts: Root) -> None:
    accounts.file("/etc/subuid", "1000:100000:65536\n")
    assert accounts.read(read_users)["ops"]["subuid"] == "100000:65536"


def test_a_second_line_of_a_user_and_a_line_of_nis(accounts: Root) -> None:
    accounts.file("/etc/passwd", f"{PASSWD}\nops:x:0:0::/:/bin/sh\n+::::::\n# none\n\n")
    found = accounts.read(read_users)
    assert found["ops #2"]["uid"] == "0"
    assert "+" in found


@pytest.mark.parametrize(("name", "reader"), [("passwd", read_users), ("group", read_groups)])
def test_accounts_that_cannot_be_read(accounts: Root, name: str, reader: object) -> None:
    accounts.at(f"/etc/{name}").unlink()
    read = read_users if reader is read_users else read_groups
    with pytest.raises(Unread):
        list(read({}, Commands()))


# --- what removed packages left

POSTRM = """#!/bin/sh
set -e
if [ "$1" = purge ]; then
    if (which deluser 1>/dev/null 2>&1); then
        deluser --quiet --system munge > /dev/null || true
    fi
    delgroup --quiet video || true
fi
"""


def with_package(accounts: Root, state: str, script: str = POSTRM) -> Root:
    want = {"config-files": "deinstall"}.get(state, "install")
    accounts.file(
        "/var/lib/dpkg/status",
        f"Package: munge\nStatus: {want} ok {state}\nArchitecture: amd64\nVersion: 1\n",
    )
    accounts.file("/var/lib/dpkg/info/munge.postrm", script)
    return accounts


def left_by(accounts: Root) -> dict[str, str]:
    found = {f"user {k}": v for k, v in accounts.read(read_users).items()}
    found |= {f"group {k}": v for k, v in accounts.read(read_groups).items()}
    return {name: fields[REMOVED] for name, fields in found.items() if REMOVED in fields}


def test_an_account_that_a_removed_package_left(accounts: Root) -> None:
    found = left_by(with_package(accounts, "config-files"))
    assert found == dict.fromkeys(("user munge", "group munge", "group video"), "munge")


@pytest.mark.parametrize("state", ["installed", "half-configured"])
def test_an_account_of_an_installed_package_is_not_left(accounts: Root, state: str) -> None:
    assert left_by(with_package(accounts, state)) == {}


def test_a_node_without_dpkg_knows_no_removed_package(accounts: Root) -> None:
    assert left_by(accounts) == {}


@pytest.mark.parametrize(
    ("script", "users", "groups"),
    [
        ("userdel tcpdump >/dev/null 2>&1 || true", {"tcpdump"}, set()),
        ("groupdel tcpdump >/dev/null 2>&1", set(), {"tcpdump"}),
        ("  deluser --quiet --system 'x' || true", {"x"}, set()),
        ('deluser --home /var/lib/x "_x"; true', {"_x"}, set()),
        ('deluser "$USER"', set(), set()),
        ("deluser $NAME || true", set(), set()),
        ("deluser ops video", set(), set()),
        ("deluser --group video", set(), set()),
        ("if which deluser >/dev/null; then", set(), set()),
        ('if [ -x "$(command -v deluser)" ]; then', set(), set()),
        ("# deluser ops is up to you", set(), set()),
        ("echo run deluser ops", set(), set()),
        ("if x; then /usr/sbin/userdel a; else delgroup b; fi", {"a"}, {"b"}),
    ],
)
def test_the_accounts_that_a_script_deletes(script: str, users: set[str], groups: set[str]) -> None:
    assert deleted(f"#!/bin/sh\n{script}\n") == (users, groups)
