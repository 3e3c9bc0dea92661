"""A container gets the driver's own library, engine by engine.

Why      A library of another version than the kernel module refuses to work.
Blind    Libraries that an image brings itself.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._container import (
    OLD_SPECIFICATION,
    UNREAD_WITH_DEVICES,
    asked,
    driver,
    part,
)


def _look(view: View) -> Items:
    return part(view, "libraries")


RULE = Rule(
    id="container.libraries",
    title="containers get the library of the planned driver",
    reading="containers",
    look=_look,
    expected=driver,
    applies=asked,
    owner="container_runtime",
    explained_by=(
        *OLD_SPECIFICATION,
        UNREAD_WITH_DEVICES,
        Cause("package.version"),
        Cause("driver.library_version"),
    ),
    source="NVIDIA/nvidia-container-toolkit, issues 450, 856",
)
