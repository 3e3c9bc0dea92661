"""The operating system: identity, files, packages, units."""

from lockstep.consistency.plugin import RuleResult


def test_system(rule_result: RuleResult) -> None:
    """Release, host name, clock, firmware of the machine; nodes that were not read."""
    rule_result.must_hold()


def test_files(rule_result: RuleResult) -> None:
    """Files that Lockstep writes, mounts, disks, and what an earlier plan left."""
    rule_result.must_hold()


def test_packages(rule_result: RuleResult) -> None:
    """Packages: present, at their locked versions, on hold; signed modules."""
    rule_result.must_hold()


def test_units(rule_result: RuleResult) -> None:
    """Units of systemd, limits, listeners, cron jobs."""
    rule_result.must_hold()


def test_selinux(rule_result: RuleResult) -> None:
    """SELinux: mode, booleans, labels, modules."""
    rule_result.must_hold()
