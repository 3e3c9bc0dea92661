"""Rocky Linux 9: rebuilt from RHEL 9 (``ID`` from the os-release of Rocky 9.4, tests/captures)."""

from lockstep.catalog.os._rhel import rebuilt

RELEASE = rebuilt("rocky")
