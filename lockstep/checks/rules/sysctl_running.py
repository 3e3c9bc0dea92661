"""Every declared sysctl is in force.

Why      A file that says one thing and a kernel that does another is how settings get lost.
Blind    Keys nobody declared; network namespaces of jobs.
"""

from lockstep.checks.context import View
from lockstep.checks.rule import Cause, Rule

KEYS = "sysctl.running"


def declared(view: View) -> dict[str, str]:
    """Return the declared values as the kernel prints them."""
    return {key: " ".join(value.split()) for key, value in view.plan.sysctl.items()}


RULE = Rule(
    id="sysctl.running",
    title="declared sysctls are in force",
    reading=KEYS,
    expected_each=lambda view: dict(declared(view)),
    owner="os_settings",
    explained_by=(
        Cause("sysctl.persisted", same_device=True),
        Cause("file.content", device="/etc/sysctl.d/99-zz-lockstep.conf"),
    ),
    source="sysctl(8)",
)
