"""No unit failed, whoever started it.

Why      A mount, a timer or a daemon of the site that failed on one node is missed by its jobs.
Blind    Units that fail and are started again in time; planned units are unit.active's.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._driver import DRIVER
from lockstep.checks.rules._units import not_planned
from lockstep.plan.nvidia import CDI_REFRESH
from lockstep.report import Severity


def _look(view: View) -> Items:
    failed = not_planned(view, "units.failed")[""]
    return {str(unit): "failed" for unit in failed} if isinstance(failed, list) else {"": failed}


CDI_UNIT = f"{CDI_REFRESH}.service"
"""It runs nvidia-smi's library, so it fails where library and module do not fit each other."""

RULE = Rule(
    id="unit.failed",
    title="no unit failed",
    reading="units.failed",
    look=_look,
    expected=lambda view: "not failed",
    severity=Severity.WARNING,
    repair="on {node}: systemctl status {device}, then mend it and systemctl reset-failed {device}",
    explained_by=(
        Cause("package.version", with_grounds=DRIVER, of_device=CDI_UNIT),
        *(
            Cause(rule, of_device=CDI_UNIT)
            for rule in ("driver.module_version", "driver.library_version", "gpu.count")
        ),
    ),
    source="systemctl(1), list-units --state=failed",
)
