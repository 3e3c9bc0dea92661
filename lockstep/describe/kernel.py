"""Huge pages, CPU sets and kernel settings of a hardware class."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from lockstep.describe.seen import Seen
from lockstep.describe.values import Block, Value, agreed, found_on, optional, rows, table
from lockstep.plan.running import GOVERNOR, THP
from lockstep.spec.hardware import HUGEPAGE_MIB, Kernel
from lockstep.spec.names import cpulist, cpus

USUAL = re.compile(
    r"(BOOT_IMAGE|initrd|root|rootflags|rootfstype|resume|crashkernel|console)=.*|ro|rw|quiet"
    r"|splash|rd\..*|rhgb|vt\..*|net\.ifnames=.*|biosdevname=.*"
)
"""Arguments that every installation has, and that belong to no description."""
DESCRIBED = frozenset({
    *("hugepages", "hugepagesz", "default_hugepagesz", "irqaffinity", "rcu_nocbs", "nohz_full"),
    *("isolcpus", "iommu", "iommu.passthrough", "processor.max_cstate", "intel_idle.max_cstate"),
    "cpufreq.default_governor",
})  # fmt: skip
"""Arguments that follow from other fields."""
REDIRECT = "disable_acs_redir="


def fields(nodes: Sequence[Seen]) -> dict[Any, Value | Block]:
    """Return the fields of a hardware class about the kernel that its nodes boot."""
    parts: dict[Any, Value | Block] = {}
    if got := agreed(nodes, lambda one: _hugepages(one) or None):
        pages, note = got
        parts["hugepages"] = rows(
            (
                Value({"size": size, "numa_node": node, "count": count})
                for size, node, count in pages
            ),
            note,
        )
    optional(parts, "housekeeping_cpus", agreed(nodes, lambda one: _housekeeping(one) or None))
    kernel = _kernel(nodes)
    if kernel:
        parts["kernel"] = table(kernel)
    others = agreed(nodes, lambda one: _others(one) or None)
    if others:
        words, note = others
        parts["kernel_args"] = Value(
            [], "", (f"kernel arguments {note}; add those that matter: {' '.join(words)}",)
        )
    return parts


def _hugepages(one: Seen) -> list[tuple[str, int, int]]:
    return [
        (size, int(node), count)
        for size, counts in one.items("hugepages").items()
        if size in HUGEPAGE_MIB and isinstance(counts, dict)
        for node, count in sorted(counts.items(), key=lambda item: int(item[0]))
        if count
    ]


def arguments(one: Seen) -> dict[str, str]:
    """Return the kernel arguments with values, by name; the last one counts."""
    words = one.get("kernel.cmdline") or ()
    return {name: value for name, _, value in (str(word).partition("=") for word in words)}


def _isolated(one: Seen) -> tuple[frozenset[str], str]:
    """Return the flags and the CPUs of isolcpus= (kernel-parameters)."""
    words = arguments(one).get("isolcpus", "").split(",")
    flags = frozenset(word for word in words if word and not word[0].isdigit())
    numbers = ",".join(word for word in words if word and word[0].isdigit())
    # Without flags, the kernel isolates from the scheduler's domains.
    return (flags or frozenset({"domain"}) if numbers else flags), numbers


def _housekeeping(one: Seen) -> str:
    """Return the CPUs that are left to the system, as the kernel arguments say."""
    given = arguments(one)
    every = cpus(str(one.get("cpu.online") or ""))
    try:
        if "irqaffinity" in given:
            return cpulist(cpus(given["irqaffinity"]))
        apart = _isolated(one)[1] or given.get("nohz_full", "")
        return cpulist(every - cpus(apart)) if apart else ""
    except ValueError:  # words such as "all" or "N"
        return ""


def _kernel(nodes: Sequence[Seen]) -> dict[Any, Value | Block]:
    parts: dict[Any, Value | Block] = {}
    for name, path in (
        ("transparent_hugepages", f"{THP}/enabled"),
        ("transparent_hugepages_defrag", f"{THP}/defrag"),
    ):
        optional(parts, name, agreed(nodes, lambda one, path=path: _chosen(one, path)))  # type: ignore[misc]
    optional(
        parts,
        "numa_balancing",
        agreed(
            nodes,
            lambda one: {"0": False, "1": True}.get(
                str(one.items("sysctl.running").get("kernel.numa_balancing"))
            ),
        ),
    )
    optional(parts, "cpu_governor", agreed(nodes, _governor))
    optional(parts, "max_cstate", agreed(nodes, _max_cstate))
    optional(parts, "iommu", agreed(nodes, _iommu))
    optional(parts, "disable_acs_redir", agreed(nodes, _redirects))
    optional(parts, "isolation", agreed(nodes, lambda one: _isolation(one) or None))
    if any(one.get("kernel.page_size") == "64k" for one in nodes):
        parts["page_size"] = Value("64k", found_on(nodes))
    return parts


def _file(one: Seen, pattern: str) -> list[str]:
    """Return what the files of a pattern show."""
    found = one.items("kernel.files").get(pattern)
    return [str(text) for text in found.values()] if isinstance(found, Mapping) else []


def _accepted(field: str, value: str) -> str | None:
    """Return a value if the field accepts it."""
    annotation = Kernel.model_fields[field].annotation
    accepted = {word for one in get_args(annotation) for word in (get_args(one) or (one,))}
    return value if value in accepted else None


def _chosen(one: Seen, path: str) -> str | None:
    match = re.search(r"\[(.+?)\]", " ".join(_file(one, path)))
    field = "transparent_hugepages" + ("_defrag" if path.endswith("defrag") else "")
    return _accepted(field, match.group(1)) if match else None


def _governor(one: Seen) -> str | None:
    values = set(_file(one, GOVERNOR))
    return _accepted("cpu_governor", values.pop()) if len(values) == 1 else None


def _max_cstate(one: Seen) -> int | None:
    given = arguments(one)
    value = given.get("intel_idle.max_cstate", given.get("processor.max_cstate", ""))
    return int(value) if value.isdigit() and int(value) <= 9 else None


def _iommu(one: Seen) -> str | None:
    given = arguments(one)
    if "iommu.passthrough" in given:
        return {"1": "pt", "0": "nopt"}.get(given["iommu.passthrough"])
    return _accepted("iommu", given.get("iommu", ""))


def _redirects(one: Seen) -> list[str] | None:
    value = arguments(one).get("pci", "")
    return value[len(REDIRECT) :].split(";") if value.startswith(REDIRECT) else None


def _isolation(one: Seen) -> list[str]:
    flags, numbers = _isolated(one)
    chosen = [flag for flag in ("managed_irq", "domain") if flag in flags and numbers]
    return [*chosen, *(["nohz_full"] if arguments(one).get("nohz_full") else [])]


def _others(one: Seen) -> list[str]:
    words = [str(word) for word in one.get("kernel.cmdline") or ()]
    return [
        word
        for word in words
        if not USUAL.fullmatch(word)
        and word.partition("=")[0] not in DESCRIBED
        and not word.startswith(f"pci={REDIRECT}")
    ]
