"""AlmaLinux 9: rebuilt from RHEL 9; ``ID`` is almalinux."""

from lockstep.catalog.os._rhel import rebuilt

RELEASE = rebuilt("almalinux")
