"""Kernel modules with their parameters, and those that are configured but not loaded."""

from __future__ import annotations

import os
from collections.abc import Iterator

from lockstep.node.fingerprint.entry import Domain, Entry, Fields
from lockstep.node.fingerprint.exempt import Exempt
from lockstep.node.fingerprint.sysctl import read_running_sysctls
from lockstep.node.fingerprint.sysfs import names_in, value_of
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request
from lockstep.node.readers.tree import found_by, is_folder, text_of

TOP = "/sys/module"
EXCEPTIONS_OF_MODULE = (
    *(
        Exempt("module", "dm_bufio", f"parameter {name}", "The kernel counts bytes here.")
        for name in (
            *("allocated_get_free_pages_bytes", "allocated_kmem_cache_bytes"),
            *("allocated_vmalloc_bytes", "current_allocated_bytes", "peak_allocated_bytes"),
        )
    ),
    Exempt(
        "module", "dm_mod", "parameter stats_current_allocated_bytes", "The kernel counts bytes."
    ),
    Exempt(
        "module",
        "dm_bufio",
        "parameter max_cache_size_bytes",
        "The kernel computes it from the memory size at boot.",
    ),
    *(
        Exempt(
            "module",
            "fuse",
            f"parameter {name}",
            "The kernel computes it from the memory size at boot (sanitize_global_limit()).",
        )
        for name in ("max_user_bgreq", "max_user_congthresh")
    ),
    *(
        Exempt("module", module, f"parameter {name}", "A sysctl or /sys/kernel has the value.")
        for module, names in (
            ("kernel", ("panic", "panic_on_warn", "panic_print")),
            ("rcupdate", ("rcu_expedited", "rcu_normal")),
            ("nf_conntrack", ("acct", "tstamp", "hashsize")),
        )
        for name in names
    ),
    Exempt(
        "module", "nfs", "parameter nfs4_unique_id", "It identifies the client (kernel-parameters)."
    ),
)


def read_modules(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each loaded module, and for each built-in one with parameters."""
    for name in names_in(TOP):
        folder = f"{TOP}/{name}"
        fields: Fields = {}
        # Only a loaded module has this file (Documentation/ABI/stable/sysfs-module).
        loaded = value_of(f"{folder}/initstate")
        fields["kind"] = "loaded" if loaded else "built in"
        for file in ("version", "srcversion", "taint"):
            value = value_of(f"{folder}/{file}")
            if value:
                fields[file] = value
        for parameter in names_in(f"{folder}/parameters"):
            value = value_of(f"{folder}/parameters/{parameter}")
            if value is not None:
                fields[f"parameter {parameter}"] = value
        yield Entry(name, fields)


FOLDERS = ("/etc/modules-load.d", "/run/modules-load.d", "/usr/lib/modules-load.d")


def read_running_modules(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each module that modules-load.d(5) loads at boot and that is not loaded."""
    if not is_folder(TOP):
        return
    files: dict[str, str] = {}
    for folder in FOLDERS:
        for path in found_by(f"{folder}/*.conf"):
            files.setdefault(os.path.basename(path), path)
    missing: dict[str, str] = {}
    for _, path in sorted(files.items()):
        for line in text_of(path, "").splitlines():
            name = line.strip().replace("-", "_")
            if name and name[0] not in "#;" and not is_folder(f"{TOP}/{name}"):
                missing[name] = path
    if not missing:
        return
    listed = text_of(f"/lib/modules/{os.uname().release}/modules.builtin", "")
    built_in = {
        line.rpartition("/")[2].partition(".")[0].replace("-", "_") for line in listed.splitlines()
    }
    for name, path in sorted(missing.items()):
        if name not in built_in:
            fields = {"running": "not loaded", "configured": "loaded", "file": path}
            yield Entry(f"module {name}", fields)


def read_running_kernel(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each sysctl and module that is not as the files for the boot say."""
    yield from read_running_sysctls(request, commands)
    yield from read_running_modules(request, commands)


MODULES: tuple[Domain, ...] = (Domain("module", read_modules, 4),)
