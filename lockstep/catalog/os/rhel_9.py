"""Red Hat Enterprise Linux 9."""

from lockstep.catalog.os._rhel import RHEL_9

RELEASE = RHEL_9
