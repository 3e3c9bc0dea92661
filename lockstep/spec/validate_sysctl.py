"""Validates the names of sysctls."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lockstep.spec.model import Os
from lockstep.spec.problem import Problem, violated

OWNED_SYSCTLS = {
    "kernel.numa_balancing": "hardware.CLASS.kernel.numa_balancing",
    "vm.hugetlb_shm_group": "os.hugetlb_gid",
    "vm.nr_hugepages": "hardware.CLASS.hugepages",
}
"""Sysctl -> the field that sets it; ``os.sysctl`` must not set it as well."""


def sysctl_problems(settings: Os) -> Iterator[Problem]:
    """Find sysctls that do not exist in this form, that are set twice, or that a field sets."""
    first: dict[str, str] = {}
    for key in settings.sysctl:
        path = _path(key)
        field, before = OWNED_SYSCTLS.get(path.replace("/", ".")), first.setdefault(path, key)
        yield from violated(
            ("os", "sysctl", key),
            (field, (), key, f"use the field {field}"),
            (before != key, (), key, f"each sysctl once; it is the same one as {before}"),
            (
                # Names of interfaces are a part of some: net.ipv4.conf.enP2p1s0.rp_filter.
                not re.fullmatch(r"[a-z0-9_]+(/[A-Za-z0-9_.:@+-]+)+", path)
                or {".", ".."} & {*path.split("/")},
                (),
                key,
                "a sysctl key such as net.core.somaxconn",
            ),
        )


def _path(key: str) -> str:
    """Return the path of a sysctl below /proc/sys.

    The first separator decides (sysctl.d(5)): after a "/", a "." is a part of a name, and after a
    "." a "/" stands for a "." in a name.
    """
    separators = re.findall("[./]", key)
    return key.translate(str.maketrans("./", "/.")) if separators[:1] == ["."] else key
