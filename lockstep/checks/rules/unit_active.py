"""Every unit of the plan is running.

Why      A node whose slurmd or munge stands still takes no jobs, or loses those it has.
Blind    A unit that runs and does nothing useful.
"""

from pydantic import JsonValue

from lockstep.checks.context import View
from lockstep.checks.rule import Cause, Rule, Skip
from lockstep.checks.rules._driver import FABRIC_MANAGER
from lockstep.plan import nvidia, owners

OF_DRIVER = (nvidia.FABRIC_MANAGER, nvidia.PERSISTENCED, nvidia.DCGM, nvidia.DCGM_EXPORTER)


def _expected(view: View) -> dict[str, JsonValue]:
    return dict.fromkeys(view.plan.units, "active")


def _state(entry: JsonValue) -> JsonValue | Skip:
    if not isinstance(entry, dict):
        return entry
    if entry["active"] == "active":
        return "active"
    if entry["load"] in ("not-found", "masked"):
        return f"{entry['active']} (unit {str(entry['load']).replace('-', ' ')})"
    return f"{entry['active']} ({entry['sub']})"


RULE = Rule(
    id="unit.active",
    title="planned units are running",
    reading="units",
    expected_each=_expected,
    pick=_state,
    owner="the role of the unit",
    roles=lambda view, unit: owners.of_unit(view.plan, unit),
    explained_by=(
        Cause("package.present", says="(unit not found)"),
        # slurmd does not start without every device file of gres.conf.
        Cause("gpu.count", of_device="slurmd.service"),
        # It sets the others, and fails over a board that does not answer or takes no device.
        *(
            Cause(rule, of_device=nvidia.GPU_SETTINGS)
            for rule in ("gpu.count", "gpu.recovery_action", "gpu.mig_layout")
        ),
        # A fabric manager refuses a driver of another version; nothing works without the module.
        Cause("package.version", with_grounds=FABRIC_MANAGER, of_device=nvidia.FABRIC_MANAGER),
        *(Cause("driver.module_version", of_device=unit) for unit in OF_DRIVER),
        *(Cause("driver.module_on_disk", of_device=unit) for unit in OF_DRIVER),
    ),
    source="systemctl(1)",
)
