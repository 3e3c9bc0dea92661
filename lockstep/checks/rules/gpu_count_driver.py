"""The kernel module drives as many boards as the hardware class has.

Why      nvidia-smi may list a board less than the module drives, and the other way round: the
         three counts together say where a board was lost.
Blind    A board that is listed and does not work.
"""

from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._driver import DRIVER
from lockstep.checks.rules._gpu import has_gpus
from lockstep.checks.rules.gpu_count import boards, number_of, planned

READING = "driver.boards"


RULE = Rule(
    id="gpu.count_driver",
    title="the driver has all GPUs of the hardware class",
    reading=READING,
    look=number_of(READING),
    expected=planned,
    show=boards,
    applies=has_gpus,
    repair="drain {node}, look for the driver's words at its start (journalctl -k -g NVRM), reboot",
    explained_by=(
        Cause("gpu.count"),
        Cause("driver.module_version", only_unread=True),
        Cause("package.present", with_grounds=DRIVER, only_unread=True),
    ),
    source="/proc/driver/nvidia/gpus, NVIDIA driver README",
)
