"""All nodes have the declared locale.

Why      Sort order and number formats of a job must not depend on the node it lands on.
Blind    A locale passed on by ssh (SendEnv, AcceptEnv).
"""

from lockstep.checks.rule import Cause, Rule
from lockstep.report import Severity

RULE = Rule(
    id="os.locale",
    title="the locale is the declared one",
    reading="os.locale",
    expected=lambda view: view.plan.spec.os.locale,
    severity=Severity.WARNING,
    owner="os_settings",
    source="locale(7)",
    explained_by=(
        Cause("file.content", device="/etc/default/locale"),
        Cause("file.content", device="/etc/locale.conf"),
    ),
)
