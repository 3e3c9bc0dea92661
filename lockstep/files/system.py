"""Files of the operating system, packages, time and metrics."""

from __future__ import annotations

from functools import partial

from lockstep.files._entry import Entry, drop_in
from lockstep.plan import NodePlan


def _debian(plan: NodePlan) -> bool:
    """Say whether the node reads Debian's paths: apt, /etc/default, /etc/chrony."""
    return plan.cluster.release.family == "debian"


def _has_locale_file(plan: NodePlan, path: str) -> bool:
    return plan.cluster.release.locale_file == path


ENTRIES = (
    Entry("os_settings", "/etc/hostname", "os_settings/hostname.j2", own=True),
    Entry("os_settings", "/etc/hosts", "os_settings/hosts.j2"),
    Entry("os_settings", "/etc/gai.conf", "os_settings/gai.conf.j2"),
    *(
        Entry(
            "os_settings",
            path,
            "os_settings/locale.j2",
            validate="sh -n {new}",
            wanted=partial(_has_locale_file, path=path),
        )
        for path in ("/etc/default/locale", "/etc/locale.conf")
    ),
    Entry(
        "os_settings",
        "/etc/sysctl.d/99-zz-lockstep.conf",
        "os_settings/sysctl.conf.j2",
        validate="sysctl --dry-run -p {new} >/dev/null",
    ),
    Entry(
        "os_settings",
        "/etc/systemd/system/systemd-sysctl.service.d/50-lockstep.conf",
        "os_settings/sysctl_unit.conf.j2",
        validate=drop_in("systemd-sysctl.service"),
    ),
    Entry("os_settings", "/etc/security/limits.d/90-lockstep.conf", "os_settings/limits.conf.j2"),
    Entry(
        "os_settings", "/etc/systemd/system.conf.d/90-lockstep.conf", "os_settings/system.conf.j2"
    ),
    Entry(
        "packages",
        "/etc/apt/apt.conf.d/90lockstep",
        "packages/apt.conf.j2",
        validate="apt-config -c {new} dump >/dev/null",
        wanted=_debian,
    ),
    Entry(
        "packages",
        "/etc/apt/sources.list.d/lockstep.sources",
        "packages/repositories.sources.j2",
        validate=(
            'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; cp {new} "$d/lockstep.sources"; '
            'apt-get -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$d" '
            "indextargets >/dev/null"
        ),
        wanted=lambda plan: _debian(plan) and bool(plan.spec.software.repositories),
    ),
    Entry(
        "packages",
        "/etc/apt/preferences.d/90-lockstep",
        "packages/preferences.j2",
        validate="apt-cache -o Dir::Etc::preferences={new} policy >/dev/null",
        wanted=_debian,
    ),
    Entry(
        "packages",
        "/usr/sbin/policy-rc.d",
        "packages/policy-rc.d.j2",
        mode="755",
        validate="sh -n {new}",
        wanted=_debian,
    ),
    Entry(
        "time_sync",
        "/etc/default/chrony",
        "time_sync/default.j2",
        validate="sh -n {new}",
        wanted=_debian,
    ),
    Entry(
        "time_sync",
        "/etc/chrony/chrony.conf",
        "time_sync/chrony.conf.j2",
        own=True,
        validate="chronyd -p -f {new} >/dev/null",
        wanted=_debian,
    ),
    Entry(
        "time_sync",
        "/etc/systemd/system/chrony.service.d/50-lockstep.conf",
        "time_sync/unit.conf.j2",
        validate=drop_in("chrony.service"),
        wanted=lambda plan: _debian(plan) and plan.hardware.hardware.clock == "host",
    ),
    Entry(
        "node_exporter",
        "/etc/default/prometheus-node-exporter",
        "node_exporter/default.j2",
        own=True,
        validate="sh -n {new}",
        wanted=_debian,
    ),
    Entry(
        "node_exporter",
        "/etc/systemd/system/prometheus-node-exporter.service.d/50-lockstep.conf",
        "node_exporter/unit.conf.j2",
        validate=drop_in("prometheus-node-exporter.service"),
        wanted=_debian,
    ),
    Entry("prometheus", "/etc/default/prometheus", "prometheus/default.j2", validate="sh -n {new}"),
    Entry(
        "prometheus",
        "/etc/systemd/system/prometheus.service.d/50-lockstep.conf",
        "prometheus/unit.conf.j2",
        validate=drop_in("prometheus.service"),
    ),
    Entry(
        "prometheus",
        "/etc/prometheus/lockstep.rules.yml",
        "prometheus/rules.yml.j2",
        validate="promtool check rules {new} >/dev/null",
    ),
    Entry(
        "prometheus",
        "/etc/prometheus/prometheus.yml",
        "prometheus/prometheus.yml.j2",
        validate="promtool check config {new} >/dev/null",
    ),
)
