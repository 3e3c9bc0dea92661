"""The CDI specification mounts the libraries of the planned driver.

Why      After a driver change an old specification names libraries that are gone: containers do
         not start, or see no GPU.
Blind    Libraries that an image brings itself.
"""

from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._container import driver, has_cdi

RULE = Rule(
    id="cdi.driver",
    title="CDI is of the planned driver",
    reading="cdi.libraries",
    expected=driver,
    applies=has_cdi,
    owner="container_runtime",
    explained_by=(
        Cause("package.version"),
        Cause("driver.library_version"),
        Cause("driver.module_version"),
        Cause("cdi.devices", only_unread=True),
    ),
    source="NVIDIA/nvidia-container-toolkit, issues 450, 856",
)
