"""Each repair with deploys/reboot.py has a reason that the rollout knows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lockstep.checks.catalogue import all_rules
from lockstep.checks.rule import Rule
from lockstep.plan.driver import BootKernels, Driver, Kernel
from lockstep.plan.reboot import Seen, pending

KERNEL = Kernel("6.12.94", headers=True)
DRIVER = Driver("580.95.05", {"nvidia-smi": "580.95.05-*"}, "open", parameters={"EnableMSI": "1"})
ARGS = ("hugepages=8", "isolcpus=4-7", "nohz_full=4-7", "iommu=pt", "intel_idle.max_cstate=0")
FINE = Seen(
    cmdline=ARGS,
    menu=ARGS,
    pages={("2M", 0): 8},
    driver={"nvidia-smi": "580.95.05-1"},
    module="580.95.05",
    flavour="open",
    parameters={"EnableMSI": "1"},
    parameters_written=True,
    kernels=BootKernels(KERNEL, (KERNEL,)),
)
ARGUMENTS: dict[str, Any] = {"cmdline": ()}

WAITS: dict[str, dict[str, Any]] = {
    "cpu.isolated": ARGUMENTS,
    "cpu.nohz_full": ARGUMENTS,
    "driver.module_flavour": {"flavour": "proprietary"},
    "driver.module_version": {"module": "570.1"},
    "driver.parameters": {"parameters": {"EnableMSI": "0"}},
    "gpu.ecc": {"modes": ("GPU-a",)},
    "gpu.ecc_uncorrected": {"resets": ("GPU-a",)},
    "gpu.iommu": ARGUMENTS,
    "gpu.mig": {"modes": ("GPU-a",)},
    "gpu.mig_layout": {"layouts": ("GPU-a",)},
    "gpu.page_retirement": {"resets": ("GPU-a",)},
    "gpu.recovery_action": {"resets": ("GPU-a",)},
    "gpu.row_remap": {"resets": ("GPU-a",)},
    "hugepages": ARGUMENTS,
    "kernel.args": ARGUMENTS,
    "kernel.max_cstate": ARGUMENTS,
    "package.version": {"driver": {"nvidia-smi": "570.1-1"}},
    "rdma.stack": {"rdma": "mlx5_core 25.10-1.7.1, instead of A1B2"},
}
"""Rule -> what the rollout sees where it finds something; ``lockstep.facts`` read the same."""


def texts(rule: Rule) -> str:
    repair = rule.repair
    waiting = repair.pending.repair if repair.pending else ""
    return " ".join((repair.text, repair.peers or "", waiting))


def test_the_rollout_knows_a_reason_for_every_rule_that_sends_to_it() -> None:
    assert sorted(WAITS) == [r.id for r in all_rules() if "deploys/reboot.py" in texts(r)]


@pytest.mark.parametrize("rule", WAITS)
def test_what_a_rule_finds_is_a_reason_and_what_is_in_order_is_none(rule: str) -> None:
    assert not pending(ARGS, {"2M": {0: 8}}, FINE, DRIVER).reasons
    found = pending(ARGS, {"2M": {0: 8}}, replace(FINE, **WAITS[rule]), DRIVER)
    assert len(found.reasons) == 1, found


def test_parameters_that_are_not_written_yet_are_a_deploy_first() -> None:
    seen = replace(FINE, parameters={"EnableMSI": "0"}, parameters_written=False)
    found = pending(ARGS, {"2M": {0: 8}}, seen, DRIVER)
    assert found.reasons == ()
    assert found.remark == "driver parameters EnableMSI 0 instead of 1: deploy first"
