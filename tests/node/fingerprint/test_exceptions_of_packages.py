"""What is not compared of packages, programs, engines and modules, and what is nevertheless."""

from __future__ import annotations

import pytest

from lockstep.node.fingerprint.entry import Entry
from lockstep.node.fingerprint.exceptions import EXCEPTIONS
from lockstep.node.fingerprint.exempt import WHOLE, Exempt, by_domain, without_exceptions

TABLE = by_domain(EXCEPTIONS)
DKMS = "/usr/lib/modules/6.12.1/updates/dkms"
ROWS = (
    # Domain, object, field that is not compared, and another object with it.
    ("engine", "docker network bridge", "ipamV4Config", "docker network bridge2"),
    ("engine", "docker network bridge", "ipamV6Config", "docker network host"),
    ("package", "gpg-pubkey.(none)", WHOLE, "gpg.x86_64"),
    ("program", "/usr/lib/locale/locale-archive", "content", "/usr/lib/locale/C.utf8"),
    ("program", "/usr/share/mime/mime.cache", "content", "/usr/share/mime/packages/a.xml"),
    ("program", "/usr/share/icons/hicolor/icon-theme.cache", "content", "/usr/share/icons/a.svg"),
    ("program", "/usr/share/glib-2.0/schemas/gschemas.compiled", "content",
     "/usr/share/glib-2.0/schemas/a.xml"),
    ("program", "/usr/share/fonts/truetype/.uuid", WHOLE, "/usr/share/fonts/truetype/a.ttf"),
    ("program", "/usr/lib/sysimage/rpm/rpmdb.sqlite", "content", "/usr/lib/sysimage/other"),
    ("program", f"{DKMS}/nvidia.ko.xz", "content", "/usr/lib/modules/6.12.1/kernel/nvidia.ko.xz"),
    *(("module", module, f"parameter {name}", f"{module}2")
      for module, names in {
          "dm_bufio": ("allocated_get_free_pages_bytes", "allocated_kmem_cache_bytes",
                       "allocated_vmalloc_bytes", "current_allocated_bytes",
                       "peak_allocated_bytes", "max_cache_size_bytes"),
          "dm_mod": ("stats_current_allocated_bytes",),
          "fuse": ("max_user_bgreq", "max_user_congthresh"),
          "kernel": ("panic", "panic_on_warn", "panic_print"),
          "rcupdate": ("rcu_expedited", "rcu_normal"),
          "nf_conntrack": ("acct", "tstamp", "hashsize"),
          "nfs": ("nfs4_unique_id",),
      }.items() for name in names),
)  # fmt: skip
DOMAINS = {row[0] for row in ROWS}


@pytest.mark.parametrize(("domain", "name", "field", "neighbour"), ROWS)
def test_a_row_holds_for_its_object_and_field(
    domain: str, name: str, field: str, neighbour: str
) -> None:
    fields = {field: "1", "mode": "644"}
    kept = None if field == WHOLE else {"mode": "644"}
    assert without_exceptions(domain, Entry(name, fields), TABLE) == kept
    assert without_exceptions(domain, Entry(neighbour, fields), TABLE) == fields


@pytest.mark.parametrize(
    "row", [one for one in EXCEPTIONS if one.domain in DOMAINS], ids=lambda one: str(one[:3])
)
def test_each_row_is_needed(row: Exempt) -> None:
    others = by_domain(one for one in EXCEPTIONS if one != row)
    assert [
        name
        for domain, name, field, _ in ROWS
        if without_exceptions(domain, Entry(name, {field: "1"}), TABLE) in (None, {})
        and without_exceptions(domain, Entry(name, {field: "1"}), others) == {field: "1"}
    ]


def test_each_domain_with_a_row_has_tests_of_its_rows() -> None:
    elsewhere = {
        *("file", "unit", "process", "running", "listener"),  # test_files, ..._of_units
        *("sysctl", "mount", "firewall", "netns", "route", "neighbour", "address"),  # ..._of_kernel
    }
    assert {row.domain for row in EXCEPTIONS} == DOMAINS | elsewhere
